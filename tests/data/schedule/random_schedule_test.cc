// Properties of schedules that must hold under every valid plan, checked by
// brute force on the shipped programs.

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <map>

#include "data/hlo/hlo.h"
#include "data/schedule/memory_plan.h"
#include "data/schedule/schedule.h"
#include "data/schedule/schedule_cache.h"
#include "tests/testing/directories.h"
#include "tests/testing/mutated_plan.h"
#include "tests/testing/random_plan.h"

namespace reprise {
namespace {

InlinedModule load(const std::string& name) {
  Result<Module> parsed =
      parse_hlo_file(source_directory() + "/data/programs/" + name);
  EXPECT_TRUE(parsed) << parsed.error().message;
  if (!parsed) return {};
  Result<InlinedModule> inlined = inline_calls(*parsed);
  EXPECT_TRUE(inlined) << inlined.error().message;
  return inlined ? *std::move(inlined) : InlinedModule{};
}

/// `[unit]` -> every unit that has certainly ended before it starts:
/// dependencies and the two streams' orders, closed transitively. With two
/// steps, unit u of the second is `units + u`; nothing but dependencies crosses
/// the border.
class HappensBefore {
 public:
  explicit HappensBefore(const Schedule& schedule, uint32_t steps = 1)
      : words_((steps * schedule.units.size() + 63) / 64),
        bits_(steps * schedule.units.size(), std::vector<uint64_t>(words_, 0)) {
    const auto count = static_cast<uint32_t>(schedule.units.size());
    for (uint32_t step = 0; step < steps; ++step) {
      std::map<Stream, uint32_t> last;
      size_t next = 0;
      for (uint32_t u = 0; u < count; ++u) {
        const uint32_t node = step * count + u;
        const auto previous = last.find(schedule.units[u].stream);
        if (previous != last.end()) add(previous->second, node);
        last[schedule.units[u].stream] = node;
        for (; next < schedule.dependencies.size() &&
               index_of(schedule.dependencies[next].after) == u;
             ++next) {
          const Dependency& dependency = schedule.dependencies[next];
          if (dependency.steps > step) continue;
          add((step - dependency.steps) * count + index_of(dependency.before),
              node);
        }
      }
    }
  }
  bool operator()(uint32_t before, uint32_t after) const {
    return (bits_[after][before / 64] >> (before % 64) & 1U) != 0;
  }

 private:
  void add(uint32_t before, uint32_t after) {
    ASSERT_LT(before, after);
    for (size_t w = 0; w < words_; ++w) bits_[after][w] |= bits_[before][w];
    bits_[after][before / 64] |= uint64_t{1} << (before % 64);
  }
  size_t words_;
  std::vector<std::vector<uint64_t>> bits_;
};

/// Of no buffer: what a unit may need while it runs.
constexpr uint32_t kScratch = UINT32_MAX;

struct Use {
  uint32_t unit = 0;
  uint32_t buffer = 0;
  int64_t begin = 0, end = 0;  ///< Arena bytes.
  bool writes = false;
};

std::vector<Use> uses_of(const Schedule& schedule) {
  std::vector<Use> uses;
  const auto add = [&](uint32_t u, const Location& at, bool writes) {
    const int64_t begin =
        schedule.buffers[index_of(at.buffer)].arena_offset + at.offset_bytes;
    uses.push_back(
        {u, index_of(at.buffer), begin, begin + at.size_bytes, writes});
  };
  for (uint32_t u = 0; u < schedule.units.size(); ++u) {
    for (const Location& at : schedule.units[u].reads) add(u, at, false);
    for (const Location& at : schedule.units[u].writes) add(u, at, true);
  }
  return uses;
}

void expect_inside_arena(const Schedule& schedule) {
  for (const Buffer& buffer : schedule.buffers) {
    EXPECT_EQ(buffer.arena_offset % 64, 0);
    EXPECT_LE(buffer.arena_offset + buffer.size_bytes, schedule.arena_bytes);
  }
  for (const Unit& unit : schedule.units) {
    for (const auto* list : {&unit.reads, &unit.writes}) {
      for (const Location& at : *list) {
        EXPECT_GE(at.offset_bytes, 0);
        EXPECT_LE(at.offset_bytes + at.size_bytes,
                  schedule.buffers[index_of(at.buffer)].size_bytes);
      }
    }
  }
}

/// One unit's uses of the same bytes by two names: a kernel that reads every
/// element before it writes there, whatever argument reads it.
void expect_in_place(const Schedule& schedule, const Use& a, const Use& b) {
  const Unit& unit = schedule.units[a.unit];
  ASSERT_EQ(unit.kind, UnitKind::kKernel) << unit.name;
  ASSERT_NE(a.writes, b.writes) << unit.name;
  ASSERT_EQ(std::pair(a.begin, a.end), std::pair(b.begin, b.end)) << unit.name;
  const Use &read = a.writes ? b : a, &write = a.writes ? a : b;
  const Kernel& kernel = schedule.kernels[static_cast<size_t>(unit.kernel)];
  for (size_t r = 0; r < unit.reads.size(); ++r) {
    if (index_of(unit.reads[r].buffer) != read.buffer) continue;
    for (size_t w = 0; w < unit.writes.size(); ++w) {
      if (index_of(unit.writes[w].buffer) != write.buffer) continue;
      EXPECT_TRUE(in_place_safe(kernel, r, unit.reads.size() + w)) << unit.name;
    }
  }
}

/// Idle bytes as scratch for every computing unit that finds `size_bytes`.
std::vector<Use> scratch_uses(const Schedule& schedule, int64_t size_bytes) {
  const IdleBytes idle(schedule);
  std::vector<Use> uses;
  int64_t place = 0;
  for (uint32_t u = 0; u < schedule.units.size(); ++u) {
    if (schedule.units[u].stream != Stream::kCompute) continue;
    const int64_t offset = idle.find(place++, size_bytes);
    if (offset < 0) continue;
    EXPECT_EQ(offset % kAlignmentBytes, 0);
    EXPECT_LE(offset + size_bytes, schedule.arena_bytes);
    uses.push_back({u, kScratch, offset, offset + size_bytes, true});
  }
  return uses;
}

/// No unit touches bytes that another writes unless one has ended before the
/// other starts.
void expect_no_race(const Schedule& schedule, int64_t scratch_bytes) {
  const HappensBefore before(schedule);
  std::vector<Use> uses = uses_of(schedule);
  for (const Use& use : scratch_uses(schedule, scratch_bytes))
    uses.push_back(use);
  std::sort(uses.begin(), uses.end(),
            [](const Use& a, const Use& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < uses.size(); ++i) {
    for (size_t j = i + 1; j < uses.size() && uses[j].begin < uses[i].end;
         ++j) {
      const Use &a = uses[i], &b = uses[j];
      if (!a.writes && !b.writes) continue;
      if (a.unit == b.unit) {  // In place, and meant to be.
        ASSERT_TRUE(a.buffer != kScratch && b.buffer != kScratch)
            << schedule.units[a.unit].name;
        if (a.buffer != b.buffer) expect_in_place(schedule, a, b);
        continue;
      }
      ASSERT_TRUE(before(a.unit, b.unit) || before(b.unit, a.unit))
          << schedule.units[a.unit].name << " and "
          << schedule.units[b.unit].name;
    }
  }
}

/// Were there no barrier between steps, parameters would still be read and
/// written in order: by the dependencies that reach into the next step.
void expect_no_race_across_steps(const Schedule& schedule) {
  const HappensBefore before(schedule, 2);
  const auto count = static_cast<uint32_t>(schedule.units.size());
  std::map<uint32_t, std::vector<Use>> uses_of_parameter;
  for (const Use& use : uses_of(schedule)) {
    if (schedule.buffers[use.buffer].kind == BufferKind::kParameter)
      uses_of_parameter[use.buffer].push_back(use);
  }
  for (const auto& [buffer, uses] : uses_of_parameter) {
    for (const Use& now : uses) {
      for (const Use& next : uses) {
        if (now.unit == next.unit || !(now.writes || next.writes)) continue;
        ASSERT_TRUE(before(now.unit, count + next.unit))
            << schedule.units[now.unit].name << " and the next step's "
            << schedule.units[next.unit].name;
      }
    }
  }
}

/// Every read of a temporary finds, as the last writer of its arena bytes, a
/// writer of its own buffer; outputs find theirs at the end of the step.
void expect_no_clobber(const Schedule& schedule, int64_t scratch_bytes) {
  std::map<uint32_t, Use> scratch_of;
  for (const Use& use : scratch_uses(schedule, scratch_bytes))
    scratch_of[use.unit] = use;
  std::map<int64_t, std::pair<int64_t, uint32_t>>
      holder;  // begin -> (end, buffer)
  const auto split = [&](int64_t at) {
    auto next = holder.lower_bound(at);
    if (next == holder.begin()) return;
    auto [end, buffer] = std::prev(next)->second;
    if (end <= at) return;
    std::prev(next)->second.first = at;
    holder[at] = {end, buffer};
  };
  const auto write = [&](int64_t begin, int64_t end, uint32_t buffer) {
    split(begin);
    split(end);
    holder.erase(holder.lower_bound(begin), holder.lower_bound(end));
    holder[begin] = {end, buffer};
  };
  const auto check = [&](int64_t begin, int64_t end, uint32_t buffer,
                         bool may_be_padding) {
    int64_t at = begin;
    for (auto piece = holder.lower_bound(begin + 1); at < end; ++piece) {
      if (piece == holder.begin() || std::prev(piece)->second.first <= at) {
        ASSERT_TRUE(may_be_padding) << "bytes that nobody wrote";
        return;
      }
      if (!may_be_padding) {
        ASSERT_EQ(std::prev(piece)->second.second, buffer);
      }
      at = std::prev(piece)->second.first;
    }
  };
  for (uint32_t b = 0; b < schedule.buffers.size(); ++b) {
    const Buffer& buffer = schedule.buffers[b];
    if (buffer.kind != BufferKind::kTemporary && buffer.size_bytes > 0) {
      write(buffer.arena_offset, buffer.arena_offset + buffer.size_bytes, b);
    }
  }
  for (uint32_t u = 0; u < schedule.units.size(); ++u) {
    const Unit& unit = schedule.units[u];
    if (const auto scratch = scratch_of.find(u); scratch != scratch_of.end())
      write(scratch->second.begin, scratch->second.end, kScratch);
    for (const auto* list : {&unit.reads, &unit.writes}) {
      for (const Location& at : *list) {
        const int64_t begin =
            schedule.buffers[index_of(at.buffer)].arena_offset +
            at.offset_bytes;
        if (list == &unit.reads) {
          check(begin, begin + at.size_bytes, index_of(at.buffer),
                unit.kind == UnitKind::kCollective);
        } else {
          write(begin, begin + at.size_bytes, index_of(at.buffer));
        }
      }
    }
  }
  for (const OutputBinding& output : schedule.outputs) {
    const Location& at = output.location;
    const int64_t begin =
        schedule.buffers[index_of(at.buffer)].arena_offset + at.offset_bytes;
    check(begin, begin + at.size_bytes, index_of(at.buffer), false);
  }
}

void expect_state_in_place(const Schedule& schedule,
                           const InlinedModule& module) {
  for (const InputOutputAlias& alias : module.aliases) {
    const int64_t output =
        alias.output_index.empty() ? 0 : alias.output_index[0];
    EXPECT_EQ(
        index_of(schedule.outputs[static_cast<size_t>(output)].location.buffer),
        index_of(
            schedule.parameter_buffers[static_cast<size_t>(alias.parameter)]));
  }
}

void expect_sound(const InlinedModule& module, const Plan& plan,
                  ScheduleCache* cache) {
  const Result<Schedule> schedule = lower_schedule(module, plan, cache);
  ASSERT_TRUE(schedule) << schedule.error().message;
  expect_inside_arena(*schedule);
  // From a single line to what few places have.
  const int64_t scratch_bytes = schedule->peak_temporary_bytes / 4 + 64;
  expect_no_race(*schedule, scratch_bytes);
  expect_no_race_across_steps(*schedule);
  for (const int64_t bytes : {int64_t{1}, scratch_bytes})
    expect_no_clobber(*schedule, bytes);
  expect_state_in_place(*schedule, module);
  const Result<Schedule> again = lower_schedule(module, plan);
  ASSERT_TRUE(again);
  EXPECT_EQ(print_schedule(*schedule), print_schedule(*again));
}

TEST(RandomSchedule, OfTheMlpIsSound) {
  const InlinedModule module = load("mlp.2.hlo");
  ScheduleCache cache;
  expect_sound(module, identity_plan(module, 2), &cache);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const Plan plan = random_valid_plan(module, seed);
    EXPECT_EQ(print_plan(plan), print_plan(random_valid_plan(module, seed)));
    expect_sound(module, plan, &cache);
  }
}

TEST(RandomSchedule, OfTheGptIsSound) {
  const InlinedModule module = load("gpt.2.hlo");
  ScheduleCache cache;
  expect_sound(module, identity_plan(module, 2), &cache);
  for (uint64_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(seed);
    expect_sound(module, random_valid_plan(module, seed), &cache);
  }
}

/// A plan that someone has meddled with is refused in words that name a part of
/// it, or makes a sound schedule. Counts both.
void expect_sound_or_refused(const InlinedModule& module, uint64_t seeds,
                             int* sound, int* refused) {
  ScheduleCache cache;
  std::vector<Plan> plans;
  for (uint64_t seed = 0; seed < 4; ++seed)
    plans.push_back(random_valid_plan(module, seed));
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    const Plan plan = mutated_plan(module, plans[seed % plans.size()], seed);
    const Result<Schedule> schedule = lower_schedule(module, plan, &cache);
    if (!schedule) {
      EXPECT_EQ(schedule.error().kind, ErrorKind::kInvalid);
      EXPECT_NE(schedule.error().message.find('\''), std::string::npos)
          << schedule.error().message;
      ++*refused;
      continue;
    }
    EXPECT_TRUE(validate_plan(plan, module));
    const Result<Plan> parsed = parse_plan(print_plan(plan));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, plan);
    expect_sound(module, plan, &cache);
    ++*sound;
  }
}

TEST(RandomSchedule, OfAMeddledPlanIsSoundOrRefused) {
  int sound = 0, refused = 0;
  expect_sound_or_refused(load("mlp.2.hlo"), 300, &sound, &refused);
  expect_sound_or_refused(load("gpt.2.hlo"), 12, &sound, &refused);
  EXPECT_GT(sound, 50);
  EXPECT_GT(refused, 100);
}

TEST(RandomSchedule, OfTheGptLowersFastAgain) {
  const InlinedModule module = load("gpt.2.hlo");
  ScheduleCache cache;
  const Plan plan = identity_plan(module, 2);
  ASSERT_TRUE(lower_schedule(module, plan, &cache));
  for (auto& [ops, kernel] : cache.kernels) {
    if (kernel) kernel->key.insert(0, "known ");
  }
  for (auto& [description, key] : cache.dot_keys) key.insert(0, "known ");
  std::clock_t fastest = std::numeric_limits<std::clock_t>::max();
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    const Result<Schedule> again = lower_schedule(module, plan, &cache);
    fastest = std::min(fastest, std::clock() - start);
    ASSERT_TRUE(again);
    for (const Unit& unit : again->units) {
      if (unit.kind != UnitKind::kKernel && unit.kind != UnitKind::kLibrary)
        continue;
      EXPECT_TRUE(unit.key.starts_with("known ")) << unit.name;
    }
  }
  // CPU time: 10 ms on one core of the build machine; room for sanitizers and
  // a slow machine.
  EXPECT_LT(fastest, 2 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace reprise

// Gathers of sharded weights come two ahead of their readers.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/plan/plan.h"
#include "data/schedule/schedule.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

constexpr int kLayers = 8;
constexpr int64_t kGathered = 4 * 16384;  // Bytes.

/// Each layer multiplies by a weight of which a rank has half; the last one's
/// weight comes in two parts.
std::string layers() {
  std::string text =
      "HloModule layers\nENTRY e {\n  h0 = f32[16384] parameter(0)\n";
  for (int i = 1; i <= kLayers; ++i) {
    text += fmt::format(
        "  p{0} = f32[8192] parameter({0})\n"
        "  w{0} = f32[16384] all-gather(p{0}), replica_groups={{{{0,1}}}}, "
        "dimensions={{0}}\n"
        "  m{0} = f32[16384] multiply(h{1}, w{0})\n"
        "  h{0} = f32[16384] sine(m{0})\n",
        i, i - 1);
  }
  return text +
         fmt::format("  ROOT out = f32[16384] negate(h{})\n}}\n", kLayers);
}

Schedule lowered(const std::vector<std::string>& order) {
  const Result<InlinedModule> module = parse_inlined(layers());
  EXPECT_TRUE(module) << module.error().message;
  Plan plan = identity_plan(*module, 2);
  plan.order = order;
  Result<Schedule> schedule = lower_schedule(*module, plan);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return *std::move(schedule);
}

uint32_t place_of(const Schedule& schedule, const std::string& name) {
  const auto found = std::ranges::find(schedule.units, name, &Unit::name);
  EXPECT_NE(found, schedule.units.end()) << name;
  return static_cast<uint32_t>(found - schedule.units.begin());
}

TEST(PacedGathers, ComeTwoAheadOfTheirReaders) {
  const Schedule schedule = lowered({});
  for (int i = 3; i <= kLayers; ++i) {
    const uint32_t gather = place_of(schedule, fmt::format("w{}", i));
    const uint32_t reader = place_of(schedule, fmt::format("m{}", i - 2));
    EXPECT_EQ(gather, reader + 1) << i;
  }
}

// It starts as the reader before it does: when what that waits for has ended.
TEST(PacedGathers, StartNoSoonerThanTheUnitBeforeThem) {
  const Schedule schedule = lowered({});
  size_t paced = 0;
  for (const Dependency& dependency : schedule.dependencies) {
    if (!dependency.paces) continue;
    const Unit& gather = schedule.units[index_of(dependency.after)];
    const int layer = std::stoi(gather.name.substr(1));
    EXPECT_EQ(schedule.units[index_of(dependency.before)].name,
              fmt::format("h{}", layer - 3));
    ++paced;
  }
  EXPECT_EQ(paced, size_t{kLayers} - 3);
}

// Four are there at most: two to come, one being read, and one whose bytes are
// not known to be free yet.
TEST(PacedGathers, TakeTheBytesOfThoseThatAreRead) {
  const Schedule paced = lowered({});
  std::vector<std::string> all_first, rest;
  for (const Unit& unit : paced.units) {
    (unit.kind == UnitKind::kCollective ? all_first : rest)
        .push_back(unit.name);
  }
  all_first.insert(all_first.end(), rest.begin(), rest.end());
  const Schedule at_once = lowered(all_first);
  EXPECT_TRUE(std::ranges::none_of(at_once.dependencies, &Dependency::paces));
  EXPECT_LE(paced.peak_temporary_bytes, 6 * kGathered);
  EXPECT_GE(at_once.peak_temporary_bytes, kLayers * kGathered);
}

}  // namespace
}  // namespace reprise

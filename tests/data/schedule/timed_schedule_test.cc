// Into which parts a loop falls in which ranks meet.
#include "data/schedule/timed_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/plan/plan.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// Two sums over the ranks in each of the outer loop's passes, then a maximum.
/// How many passes there are is a constant, or else a parameter.
std::string nested(std::optional<int64_t> outer_passes) {
  const std::string passes = outer_passes
                                 ? fmt::format("constant({})", *outer_passes)
                                 : "get-tuple-element(state), index=1";
  return R"(HloModule nested
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
max { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] maximum(p, q) }
inner_body {
  state = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[4] get-tuple-element(state), index=1
  sum = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  ROOT out = (s32[], f32[4]) tuple(next, sum)
}
inner_condition {
  state = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  two = s32[] constant(2)
  ROOT less = pred[] compare(i, two), direction=LT
}
outer_body {
  state = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] get-tuple-element(state), index=1
  x = f32[4] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  zero = s32[] constant(0)
  begin = (s32[], f32[4]) tuple(zero, x)
  inner = (s32[], f32[4]) while(begin), condition=inner_condition, body=inner_body
  sums = f32[4] get-tuple-element(inner), index=1
  greatest = f32[4] all-reduce(sums), replica_groups={{0,1}}, to_apply=max
  ROOT out = (s32[], s32[], f32[4]) tuple(next, n, greatest)
}
outer_condition {
  state = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] )" +
         passes + R"(
  ROOT less = pred[] compare(i, n), direction=LT
}
ENTRY main {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  before = f32[4] negate(x)
  zero = s32[] constant(0)
  begin = (s32[], s32[], f32[4]) tuple(zero, n, before)
  loop = (s32[], s32[], f32[4]) while(begin), condition=outer_condition, body=outer_body
  last = f32[4] get-tuple-element(loop), index=2
  ROOT after = f32[4] negate(last)
}
)";
}

Schedule lowered(const std::string& text) {
  const Result<InlinedModule> module = parse_inlined(text);
  EXPECT_TRUE(module) << module.error().message;
  Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, 2));
  EXPECT_TRUE(schedule) << schedule.error().message;
  return *std::move(schedule);
}

std::vector<std::string> names_of(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const Unit& unit : schedule.units) names.push_back(unit.name);
  return names;
}

UnitId unit_named(const Schedule& schedule, const std::string& name) {
  const std::vector<std::string> names = names_of(schedule);
  const auto found = std::find(names.begin(), names.end(), name);
  EXPECT_NE(found, names.end());
  return UnitId{static_cast<uint32_t>(found - names.begin())};
}

TEST(TimedSchedule, ALoopFallsIntoWhatLiesBetweenItsCollectives) {
  const Schedule whole = lowered(nested(2));
  const TimedSchedule timed(whole, true);
  ASSERT_TRUE(timed.has_parts());
  const UnitId loop = unit_named(whole, "loop");
  const uint32_t first = timed.first_part(loop);
  // Two sums and a maximum a pass, with what is computed around each.
  ASSERT_EQ(timed.part_count(loop), 2U * (2 * 3) + 1);
  std::vector<std::string> names = names_of(timed.schedule());
  names.erase(names.begin(), names.begin() + first);
  names.resize(timed.part_count(loop));
  EXPECT_EQ(names, (std::vector<std::string>{
                       "loop", "loop/sum", "loop", "loop/sum", "loop",
                       "loop/greatest", "loop", "loop/sum", "loop", "loop/sum",
                       "loop", "loop/greatest", "loop"}));
  const auto part = [&](uint32_t at) -> const Unit& {
    return timed.schedule().units[first + at];
  };
  EXPECT_EQ(part(1).stream, Stream::kCommunication);
  EXPECT_EQ(part(1).kind, UnitKind::kCollective);
  EXPECT_EQ(part(1).collective.bytes, 16);
  EXPECT_EQ(part(5).collective.reduction, Reduction::kMax);
  // What lies between the same two computes the same; the others do not.
  EXPECT_EQ(part(2).key, part(8).key);
  EXPECT_EQ(part(4).key, part(10).key);
  for (const uint32_t other : {0U, 4U, 6U, 12U})
    EXPECT_NE(part(2).key, part(other).key) << other;
}

// One after the other; what the loop waits for comes before the first, and what
// waits for it after the last.
TEST(TimedSchedule, PartsWaitForEachOtherInOrder) {
  const Schedule whole = lowered(nested(2));
  const TimedSchedule timed(whole, true);
  const Schedule& cut = timed.schedule();
  const UnitId loop = unit_named(whole, "loop");
  const auto waits = [&](uint32_t before, uint32_t after) {
    return std::find(cut.dependencies.begin(), cut.dependencies.end(),
                     Dependency{UnitId{before}, UnitId{after}, 0}) !=
           cut.dependencies.end();
  };
  const uint32_t first = timed.first_part(loop);
  const uint32_t last = first + timed.part_count(loop) - 1;
  for (uint32_t at = first; at < last; ++at)
    EXPECT_TRUE(waits(at, at + 1)) << at;
  size_t mapped = 0;
  for (const Dependency& edge : whole.dependencies) {
    if (edge.steps > 0) continue;
    const auto end_of = [&](UnitId unit) {
      return timed.first_part(unit) + timed.part_count(unit) - 1;
    };
    EXPECT_TRUE(waits(end_of(edge.before), timed.first_part(edge.after)));
    ++mapped;
  }
  EXPECT_GT(mapped, 0U);
  EXPECT_TRUE(std::is_sorted(cut.dependencies.begin(), cut.dependencies.end(),
                             [](const Dependency& a, const Dependency& b) {
                               return std::tuple(a.after, a.before) <
                                      std::tuple(b.after, b.before);
                             }));
}

TEST(TimedSchedule, StaysWholeWherePassesAreUnknownOrTooMany) {
  for (const std::optional<int64_t> passes :
       {std::optional<int64_t>(), std::optional<int64_t>(1'000'000)}) {
    const Schedule whole = lowered(nested(passes));
    const TimedSchedule timed(whole, true);
    EXPECT_FALSE(timed.has_parts()) << passes.value_or(0);
    EXPECT_EQ(&timed.schedule(), &whole);
    const UnitId loop = unit_named(whole, "loop");
    EXPECT_EQ(timed.first_part(loop), index_of(loop));
    EXPECT_EQ(timed.part_count(loop), 1U);
  }
}

// Two thousand million times nothing: the walk ends all the same.
TEST(TimedSchedule, PassesInWhichNobodyMeetsAreNotWalked) {
  std::string text = nested(1);
  const auto set = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  set("two = s32[] constant(2)", "two = s32[] constant(0)");
  set("begin = (s32[], f32[4]) tuple(zero, x)",
      "first = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add\n"
      "  begin = (s32[], f32[4]) tuple(zero, first)");
  set("while(begin), condition=inner_condition, body=inner_body",
      "while(begin), condition=idle_condition, body=idle_body");
  set("outer_body {", R"(idle_body {
  state = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  zero = s32[] constant(0)
  x = f32[4] get-tuple-element(state), index=1
  begin = (s32[], f32[4]) tuple(zero, x)
  inner = (s32[], f32[4]) while(begin), condition=inner_condition, body=inner_body
  same = f32[4] get-tuple-element(inner), index=1
  ROOT out = (s32[], f32[4]) tuple(next, same)
}
idle_condition {
  state = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  many = s32[] constant(2000000000)
  ROOT less = pred[] compare(i, many), direction=LT
}
outer_body {)");
  const Schedule whole = lowered(text);
  const TimedSchedule timed(whole, true);
  EXPECT_EQ(timed.part_count(unit_named(whole, "loop")), 2U * 2 + 1);
}

TEST(TimedSchedule, IsOfPartsWhereTheRunSaysSo) {
  const Schedule whole = lowered(nested(2));
  EXPECT_FALSE(TimedSchedule(whole, false).has_parts());
  const std::map<std::string, std::string> none, parts = {{kTimedParts, "1"}};
  EXPECT_FALSE(TimedSchedule(whole, none).has_parts());
  EXPECT_TRUE(TimedSchedule(whole, parts).has_parts());
}

}  // namespace
}  // namespace reprise

#include "data/schedule/memory_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/schedule/called_program.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

class MemoryOrderTest : public ::testing::Test {
 protected:
  void lower(const std::string& text, int64_t ranks = 1) {
    Result<InlinedModule> parsed = parse_inlined("HloModule m\n" + text);
    ASSERT_TRUE(parsed) << parsed.error().message;
    module_ = *std::move(parsed);
    Result<Schedule> lowered =
        lower_schedule(module_, identity_plan(module_, ranks));
    ASSERT_TRUE(lowered) << lowered.error().message;
    schedule_ = *std::move(lowered);
  }
  static std::vector<std::string> names(const Schedule& schedule) {
    std::vector<std::string> names;
    for (const Unit& unit : schedule.units) names.push_back(unit.name);
    return names;
  }
  const Unit& unit(const std::string& name) const {
    return *std::find_if(schedule_.units.begin(), schedule_.units.end(),
                         [&](const Unit& unit) { return unit.name == name; });
  }
  int64_t offset(const Location& at) const {
    return schedule_.buffers[index_of(at.buffer)].arena_offset;
  }

  InlinedModule module_;
  Schedule schedule_;
};

constexpr char kTwoSums[] = R"(
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY main {
  x = f32[64] parameter(0)
  zero = f32[] constant(0)
  a = f32[64] negate(x)
  b = f32[64] exponential(x)
  first = f32[] reduce(a, zero), dimensions={0}, to_apply=sum
  second = f32[] reduce(b, zero), dimensions={0}, to_apply=sum
  ROOT out = f32[] add(first, second)
}
)";

TEST_F(MemoryOrderTest, OneRankReadsAValueBeforeItMakesTheNext) {
  lower(kTwoSums);
  EXPECT_EQ(names(schedule_),
            (std::vector<std::string>{"a", "first", "b", "second", "out"}));
  // a or b, first, and second or out.
  EXPECT_EQ(schedule_.peak_temporary_bytes, 256 + 64 + 64);
}

TEST_F(MemoryOrderTest, RanksKeepTheOrderOfTheText) {
  lower(kTwoSums, 2);
  EXPECT_EQ(names(schedule_),
            (std::vector<std::string>{"a", "b", "first", "second", "out"}));
}

TEST_F(MemoryOrderTest, IsAnOrderOfAllUnits) {
  lower(kTwoSums, 2);
  const std::vector<UnitRef> order = memory_order(schedule_);
  ASSERT_EQ(order.size(), schedule_.units.size());
  for (const Unit& unit : schedule_.units)
    EXPECT_EQ(std::count(order.begin(), order.end(), unit.ref), 1) << unit.name;
}

/// A loop whose state is twice what `old` holds; the body's last line says what
/// becomes of the second.
std::string twice_the_same(const std::string& second) {
  return R"(
condition {
  s = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  y = f32[64] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  sum = f32[64] add(x, y)
  negated = f32[64] negate(y)
  ROOT out = (s32[], f32[64], f32[64]) tuple(next, sum, )" +
         second + R"()
}
ENTRY main {
  x = f32[64] parameter(0)
  old = f32[64] exponential(x)
  zero = s32[] constant(0)
  state = (s32[], f32[64], f32[64]) tuple(zero, old, old)
  loop = (s32[], f32[64], f32[64]) while(state), condition=condition, body=body
  ROOT y = f32[64] get-tuple-element(loop), index=1
}
)";
}

TEST_F(MemoryOrderTest, OneOfALoopsStatesLiesWhereTheyAllComeFrom) {
  lower(twice_the_same("negated"));
  const Unit& loop = unit("loop");
  EXPECT_EQ(offset(loop.writes[1]), offset(unit("old").writes[0]));
  EXPECT_NE(offset(loop.writes[2]), offset(loop.writes[1]));
}

TEST_F(MemoryOrderTest, NoStateLiesOverWhatTheBodyReadsThere) {
  lower(twice_the_same("y"));
  EXPECT_NE(offset(unit("loop").writes[1]), offset(unit("old").writes[0]));
}

TEST_F(MemoryOrderTest, ALoopsBodyReadsAValueBeforeItMakesTheNext) {
  // Rows that are too large to be written together (called_fusion.h).
  for (const int64_t ranks : {1, 2}) {
    lower(R"(
condition {
  s = (s32[], f32[8,20000], f32[8,20000], f32[20000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8,20000], f32[8,20000], f32[20000]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  xs = f32[8,20000] get-tuple-element(s), index=1
  ys = f32[8,20000] get-tuple-element(s), index=2
  z = f32[20000] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  x = f32[20000] exponential(z)
  y = f32[20000] tanh(z)
  x_row = f32[1,20000] reshape(x)
  y_row = f32[1,20000] reshape(y)
  more_xs = f32[8,20000] dynamic-update-slice(xs, x_row, i, zero)
  more_ys = f32[8,20000] dynamic-update-slice(ys, y_row, i, zero)
  next = s32[] add(i, one)
  ROOT out = (s32[], f32[8,20000], f32[8,20000], f32[20000]) tuple(next, more_xs, more_ys, z)
}
ENTRY main {
  xs = f32[8,20000] parameter(0)
  z = f32[20000] parameter(1)
  zero = s32[] constant(0)
  state = (s32[], f32[8,20000], f32[8,20000], f32[20000]) tuple(zero, xs, xs, z)
  ROOT loop = (s32[], f32[8,20000], f32[8,20000], f32[20000]) while(state), condition=condition, body=body
}
)",
          ranks);
    const Schedule& body = unit("loop").routine.callees.at(1).program->schedule;
    EXPECT_EQ(body.peak_temporary_bytes, 80000) << print_schedule(body);
  }
}

}  // namespace
}  // namespace reprise

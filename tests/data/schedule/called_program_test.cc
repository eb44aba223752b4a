// Where the results of what a conditional chooses are made.
#include "data/schedule/called_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/hlo/hlo.h"
#include "data/plan/plan.h"
#include "data/schedule/schedule.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// One branch fills rows of zeros by a loop, the other gives what it is handed.
constexpr const char* kFill = R"(HloModule m
condition {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(64)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[64,64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  o = s32[] constant(0)
  next = s32[] add(i, one)
  f = f32[] convert(i)
  row = f32[1,64] broadcast(f), dimensions={}
  b = f32[64,64] dynamic-update-slice(a, row, i, o)
  ROOT r = (s32[], f32[64,64]) tuple(next, b)
}
filled {
  x = f32[64,64] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[64,64] broadcast(zero), dimensions={}
  sum = f32[64,64] add(x, zeros)
  o = s32[] constant(0)
  init = (s32[], f32[64,64]) tuple(o, sum)
  w = (s32[], f32[64,64]) while(init), condition=condition, body=body
  ROOT a = f32[64,64] get-tuple-element(w), index=1
}
handed {
  x = f32[64,64] parameter(0)
  ROOT n = f32[64,64] negate(x)
}
ENTRY e {
  p = pred[] parameter(0)
  x = f32[64,64] parameter(1)
  ROOT c = f32[64,64] conditional(p, x, x), true_computation=filled, false_computation=handed
})";

TEST(CalledProgramTest, ABranchMakesWhatItsLoopBeginsWithInItsResult) {
  const Result<InlinedModule> module = parse_inlined(kFill);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, 1));
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto conditional = std::find_if(
      schedule->units.begin(), schedule->units.end(),
      [](const Unit& unit) { return unit.kind == UnitKind::kRoutine; });
  ASSERT_NE(conditional, schedule->units.end());
  const Schedule& branch =
      conditional->routine.callees.front().program->schedule;
  const BufferId result = branch.outputs.front().location.buffer;
  const Buffer& buffer = branch.buffers[index_of(result)];
  EXPECT_EQ(buffer.kind, BufferKind::kParameter);
  EXPECT_EQ(buffer.size_bytes, 64 * 64 * 4);
  // The loop begins with what is there already, and nothing else is as large.
  EXPECT_EQ(branch.units.front().writes.front().buffer, result);
  EXPECT_LT(branch.peak_temporary_bytes, 64 * 64 * 4);
}

}  // namespace
}  // namespace reprise

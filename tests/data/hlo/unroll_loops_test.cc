// What short loops over integers become, and which stay. That ThreeFry's give
// the bits of JAX: jax_cases_test and the steps of tests/python; that bodies
// are composed in order: short_loops_test.
#include "data/hlo/unroll_loops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/hlo/cost_analysis.h"
#include "data/hlo/hlo.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// `limit` steps of an x from its last, the step and one of two numbers, of
/// which two pairs change places.
struct ShortLoopText {
  std::string limit = "5";
  std::string type = "u32";
  std::string step = "1";
  std::string turns = "u32[2] constant({13, 17})";
  std::string condition = "compare(i, n), direction=LT";
  std::string further = {};  ///< Ops of the entry.

  std::string text() const {
    const std::string state =
        fmt::format("(s32[], {}[4], u32[2], u32[2])", type);
    return fmt::format(R"(HloModule m
body {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = {1}[4] get-tuple-element(s), index=1
  r = u32[2] get-tuple-element(s), index=2
  q = u32[2] get-tuple-element(s), index=3
  one = s32[] constant({2})
  next = s32[] add(i, one)
  first = u32[1] slice(r), slice={{[1:2]}}
  turn = u32[] reshape(first)
  whole = u32[] constant(32)
  rest = u32[] subtract(whole, turn)
  left = {1}[] convert(turn)
  right = {1}[] convert(rest)
  lefts = {1}[4] broadcast(left), dimensions={{}}
  rights = {1}[4] broadcast(right), dimensions={{}}
  up = {1}[4] add(x, lefts)
  down = {1}[4] multiply(x, rights)
  turned = {1}[4] add(up, down)
  count = {1}[] convert(i)
  counts = {1}[4] broadcast(count), dimensions={{}}
  y = {1}[4] add(turned, counts)
  ROOT t = {0} tuple(next, y, q, r)
}}
condition {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({3})
  ROOT p = pred[] {4}
}}
ENTRY e {{
  x = {1}[4] parameter(0)
  free = u32[2] parameter(1)
  zero = s32[] constant(0)
  turns = {5}
  others = u32[2] constant({{29, 16}})
  from = {0} tuple(zero, x, turns, others)
  loop = {0} while(from), condition=condition, body=body
{6}  ROOT y = {1}[4] get-tuple-element(loop), index=1
}}
)",
                       state, type, step, limit, condition, turns, further);
  }
};

struct Seen {
  int64_t trips = -1;
  int slices = 0, constants = 0, ops = 0;
};

Seen seen(const ShortLoopText& loop) {
  const Result<InlinedModule> module = parse_inlined(loop.text());
  if (!module) {
    ADD_FAILURE() << module.error().message;
    return {};
  }
  Seen found;
  for (const Instruction& op : module->entry_computation().instructions) {
    if (op.opcode != Opcode::kWhile) continue;
    found.trips = proven_trip_count(*module, module->entry_computation(), op)
                      .value_or(-1);
    for (const Instruction& each :
         module->at(*called_computation(op, "body")).instructions) {
      found.slices += each.opcode == Opcode::kSlice;
      found.constants += each.opcode == Opcode::kConstant;
      ++found.ops;
    }
  }
  return found;
}

}  // namespace

TEST(UnrollLoops, TakesAllStepsAtOnce) {
  const Seen found = seen({});
  EXPECT_EQ(found.trips, 1);
  // The numbers by which it turns are constants of the body.
  EXPECT_EQ(found.slices, 0);
}

TEST(UnrollLoops, KnowsOnlyTheConstantsThatItBeginsWith) {
  const Seen found = seen({.turns = "u32[2] copy(free)"});
  EXPECT_EQ(found.trips, 1);
  EXPECT_GT(found.slices, 0);
}

TEST(UnrollLoops, CountsBySeveral) {
  EXPECT_EQ(seen({.limit = "6", .step = "2"}).trips, 1);
  EXPECT_EQ(seen({.limit = "7", .step = "2"}).trips, -1);
}

TEST(UnrollLoops, LeavesOthers) {
  EXPECT_EQ(seen({.limit = "8"}).trips, 1);
  EXPECT_EQ(seen({.limit = "9"}).trips, 9);
  EXPECT_EQ(seen({.type = "f32"}).trips, 5);
  EXPECT_EQ(seen({.condition = "compare(i, n), direction=LE"}).trips, -1);
  EXPECT_EQ(
      seen({.further = "  again = (s32[], u32[4], u32[2], u32[2]) while(from), "
                       "condition=condition, body=body\n"
                       "  z = u32[4] get-tuple-element(again), "
                       "index=1\n"})
          .trips,
      5);
}

}  // namespace reprise

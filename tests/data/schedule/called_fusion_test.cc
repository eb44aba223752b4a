// What the body of a scan fuses by rule.
#include "data/schedule/called_fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/plan/plan.h"
#include "data/schedule/called_program.h"
#include "data/schedule/schedule.h"

namespace reprise {
namespace {

/// A scan over five rows of xs: a softmax of each with what the state is, which
/// it stacks up beside its sums and the state of before.
constexpr const char* kScan = R"(HloModule m
sum { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q) }
most { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] maximum(p, q) }
condition {
  s = (s32[], f32[8,32], f32[5,8,32], f32[5,8,32], f32[5,8], f32[5,8,32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8,32], f32[5,8,32], f32[5,8,32], f32[5,8], f32[5,8,32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[8,32] get-tuple-element(s), index=1
  xs = f32[5,8,32] get-tuple-element(s), index=2
  ys = f32[5,8,32] get-tuple-element(s), index=3
  zs = f32[5,8] get-tuple-element(s), index=4
  hs = f32[5,8,32] get-tuple-element(s), index=5
  one = s32[] constant(1)
  o = s32[] constant(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  next = s32[] add(i, one)
  row = f32[1,8,32] dynamic-slice(xs, i, o, o), dynamic_slice_sizes={1,8,32}
  x = f32[8,32] reshape(row)
  a = f32[8,32] multiply(h, x)
  m = f32[8] reduce(a, low), dimensions={1}, to_apply=most
  wide = f32[8,32] broadcast(m), dimensions={0}
  d = f32[8,32] subtract(a, wide)
  e = f32[8,32] exponential(d)
  t = f32[8] reduce(e, zero), dimensions={1}, to_apply=sum
  w = f32[8,32] broadcast(t), dimensions={0}
  q = f32[8,32] divide(e, w)
  y = f32[1,8,32] reshape(q)
  ys2 = f32[5,8,32] dynamic-update-slice(ys, y, i, o, o)
  z = f32[1,8] reshape(t)
  zs2 = f32[5,8] dynamic-update-slice(zs, z, i, o)
  old = f32[1,8,32] reshape(h)
  hs2 = f32[5,8,32] dynamic-update-slice(hs, old, i, o, o)
  ROOT out = (s32[], f32[8,32], f32[5,8,32], f32[5,8,32], f32[5,8], f32[5,8,32]) tuple(next, q, xs, ys2, zs2, hs2)
}
ENTRY main {
  h = f32[8,32] parameter(0)
  xs = f32[5,8,32] parameter(1)
  ys = f32[5,8,32] parameter(2)
  zs = f32[5,8] parameter(3)
  hs = f32[5,8,32] parameter(4)
  o = s32[] constant(0)
  s = (s32[], f32[8,32], f32[5,8,32], f32[5,8,32], f32[5,8], f32[5,8,32]) tuple(o, h, xs, ys, zs, hs)
  loop = (s32[], f32[8,32], f32[5,8,32], f32[5,8,32], f32[5,8], f32[5,8,32]) while(s), condition=condition, body=body
  r = f32[8,32] get-tuple-element(loop), index=1
  v = f32[5,8,32] get-tuple-element(loop), index=3
  u = f32[5,8] get-tuple-element(loop), index=4
  k = f32[5,8,32] get-tuple-element(loop), index=5
  ROOT out = (f32[8,32], f32[5,8,32], f32[5,8], f32[5,8,32]) tuple(r, v, u, k)
}
)";

class CalledFusionTest : public ::testing::Test {
 protected:
  /// The names of the ops of each unit of the body, sorted.
  std::vector<std::vector<std::string>> units_of(
      Arithmetic arithmetic, LoweredFor device = LoweredFor::kProcessor,
      std::string_view program = kScan) {
    const Result<Module> parsed = parse_hlo(program);
    EXPECT_TRUE(parsed) << parsed.error().message;
    Result<InlinedModule> inlined = inline_calls(*parsed, arithmetic);
    EXPECT_TRUE(inlined) << inlined.error().message;
    inlined->device = device;
    Result<Schedule> schedule =
        lower_schedule(*inlined, identity_plan(*inlined, 1));
    EXPECT_TRUE(schedule) << schedule.error().message;
    const auto loop = std::ranges::find(schedule->units, "loop", &Unit::name);
    const CalledProgram& body = *loop->routine.callees.at(1).program;
    std::vector<std::vector<std::string>> units;
    for (const Unit& unit : body.schedule.units) {
      std::vector<std::string>& ops = units.emplace_back();
      for (const InstructionId op : unit.ops)
        ops.push_back(body.module.entry_computation().at(op).name);
    }
    std::ranges::sort(units);
    return units;
  }
};

using Units = std::vector<std::vector<std::string>>;

TEST_F(CalledFusionTest, RowsOfAScanAreReadWhereTheyAreUsedAndWrittenTogether) {
  // hs2, which stacks up the state of before, comes before q replaces that.
  EXPECT_EQ(units_of(Arithmetic::kAsXla), (Units{{"d", "e"},
                                                 {"hs2"},
                                                 {"m"},
                                                 {"next"},
                                                 {"q"},
                                                 {"row", "a"},
                                                 {"t"},
                                                 {"ys2", "zs2"}}));
}

TEST_F(CalledFusionTest, OnAGpuRowsAndTheirSumsAreOneUnit) {
  EXPECT_EQ(units_of(Arithmetic::kAsXla, LoweredFor::kGpu),
            (Units{{"hs2"},
                   {"next"},
                   {"row", "a", "m", "d", "e", "t", "q"},
                   {"ys2", "zs2"}}));
}

TEST_F(CalledFusionTest, PlansOfBeforeHaveEachRowForItself) {
  for (const LoweredFor device : {LoweredFor::kProcessor, LoweredFor::kGpu}) {
    EXPECT_EQ(units_of(Arithmetic::kRowsApart, device), (Units{{"a"},
                                                               {"d", "e"},
                                                               {"hs2"},
                                                               {"m"},
                                                               {"next"},
                                                               {"q"},
                                                               {"row"},
                                                               {"t"},
                                                               {"ys2"},
                                                               {"zs2"}}));
  }
}

TEST_F(CalledFusionTest, ColumnsAndOnAProcessorNarrowRowsAreCopied) {
  const auto is_copied = [&](LoweredFor device, const std::string& program) {
    const auto units = units_of(Arithmetic::kAsXla, device, program);
    return std::ranges::find(units, std::vector<std::string>{"row"}) !=
           units.end();
  };
  const auto replaced = [](std::string_view text, std::string_view by) {
    std::string program = kScan;
    for (size_t at = 0; (at = program.find(text, at)) != std::string::npos;)
      program.replace(at, text.size(), by);
    return program;
  };
  std::string column = replaced(
      "row = f32[1,8,32] dynamic-slice(xs, i, o, o), "
      "dynamic_slice_sizes={1,8,32}",
      "row = f32[1,8,1] dynamic-slice(xs, i, o, i), "
      "dynamic_slice_sizes={1,8,1}");
  const std::string_view read = "x = f32[8,32] reshape(row)";
  column.replace(column.find(read), read.size(),
                 "flat = f32[8] reshape(row)\n"
                 "  x = f32[8,32] broadcast(flat), dimensions={0}");
  const std::string narrow = replaced("f32[", "bf16[");
  for (const LoweredFor device : {LoweredFor::kProcessor, LoweredFor::kGpu}) {
    EXPECT_FALSE(is_copied(device, kScan));
    EXPECT_TRUE(is_copied(device, column));
  }
  EXPECT_TRUE(is_copied(LoweredFor::kProcessor, narrow));
  EXPECT_FALSE(is_copied(LoweredFor::kGpu, narrow));
}

TEST_F(CalledFusionTest, ARowMayBeAConstantAndAStackWhatTheBodyMakes) {
  // y and z are stored nowhere before; made, which p is read from, is no
  // parameter that stays.
  std::string program = kScan;
  const auto replace = [&](std::string_view text, std::string_view by) {
    program.replace(program.find(text), text.size(), by);
  };
  replace("y = f32[1,8,32] reshape(q)",
          "y = f32[1,8,32] broadcast(zero), dimensions={}");
  replace(
      "z = f32[1,8] reshape(t)",
      "made = f32[3,8] broadcast(t), dimensions={1}\n"
      "  z = f32[1,8] dynamic-slice(made, i, o), dynamic_slice_sizes={1,8}");
  for (const LoweredFor device : {LoweredFor::kProcessor, LoweredFor::kGpu}) {
    const auto units = units_of(Arithmetic::kAsXla, device, program);
    EXPECT_TRUE(std::ranges::find(units, std::vector<std::string>{
                                             "ys2", "zs2"}) != units.end());
  }
}

/// Adds to sums the products of rows of x and y, turned; `reads`: what else of
/// the body reads the products.
std::string turned_text(std::string_view reads) {
  return R"(HloModule m
condition {
  s = (s32[], f32[8,4,3], f32[8,3], f32[8,4], f32[8,3,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(50)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8,4,3], f32[8,3], f32[8,4], f32[8,3,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  sum = f32[8,4,3] get-tuple-element(s), index=1
  x = f32[8,3] get-tuple-element(s), index=2
  y = f32[8,4] get-tuple-element(s), index=3
  z = f32[8,3,4] get-tuple-element(s), index=4
  one = s32[] constant(1)
  next = s32[] add(i, one)
  columns = f32[8,3,1] reshape(x)
  rows = f32[8,1,4] reshape(y)
  outer = f32[8,3,4] dot(columns, rows), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  turned = f32[8,4,3] transpose(outer), dimensions={0,2,1}
  added = f32[8,4,3] add(sum, turned)
)" + std::string(reads) +
         R"(
  ROOT out = (s32[], f32[8,4,3], f32[8,3], f32[8,4], f32[8,3,4]) tuple(next, added, x, y, w)
}
ENTRY main {
  sum = f32[8,4,3] parameter(0)
  x = f32[8,3] parameter(1)
  y = f32[8,4] parameter(2)
  z = f32[8,3,4] parameter(3)
  o = s32[] constant(0)
  s = (s32[], f32[8,4,3], f32[8,3], f32[8,4], f32[8,3,4]) tuple(o, sum, x, y, z)
  loop = (s32[], f32[8,4,3], f32[8,3], f32[8,4], f32[8,3,4]) while(s), condition=condition, body=body
  r = f32[8,4,3] get-tuple-element(loop), index=1
  v = f32[8,3,4] get-tuple-element(loop), index=4
  ROOT out = (f32[8,4,3], f32[8,3,4]) tuple(r, v)
}
)";
}

TEST_F(CalledFusionTest, ASmallDotIsComputedWhereItGoesTurned) {
  for (const LoweredFor device : {LoweredFor::kProcessor, LoweredFor::kGpu}) {
    EXPECT_EQ(units_of(Arithmetic::kAsXla, device,
                       turned_text("  w = f32[8,3,4] negate(z)")),
              (Units{{"next"}, {"outer", "turned", "added"}, {"w"}}));
    // Read as it is, too, it is computed once.
    EXPECT_EQ(units_of(Arithmetic::kAsXla, device,
                       turned_text("  w = f32[8,3,4] add(z, outer)")),
              (Units{{"added"}, {"next"}, {"outer"}, {"turned"}, {"w"}}));
  }
}

}  // namespace
}  // namespace reprise

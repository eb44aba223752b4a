// One wrong and one right line an opcode; the wrong one must be named.
#include "data/hlo/hlo_verifier.h"

#include <gtest/gtest.h>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

constexpr const char* kPrelude = R"(HloModule m

%sum (sa: f32[], sb: f32[]) -> f32[] {
  %sa = f32[] parameter(0)
  %sb = f32[] parameter(1)
  ROOT %sadd = f32[] add(%sa, %sb)
}

%double (da: f32[8]) -> f32[8] {
  %da = f32[8] parameter(0)
  ROOT %dadd = f32[8] add(%da, %da)
}

%four (fa: f32[], fb: f32[], fc: f32[], fd: f32[]) -> (f32[], f32[]) {
  %fa = f32[] parameter(0)
  %fb = f32[] parameter(1)
  %fc = f32[] parameter(2)
  %fd = f32[] parameter(3)
  ROOT %ft = (f32[], f32[]) tuple(%fa, %fb)
}

%less (la: f32[8]) -> pred[] {
  %la = f32[8] parameter(0)
  ROOT %lc = pred[] constant(false)
}

ENTRY %e {
  %v = f32[8] parameter(0)
  %m = f32[4,6] parameter(1)
  %n = f32[6,5] parameter(2)
  %s = f32[] parameter(3)
  %i = s32[] parameter(4)
  %p = pred[8] parameter(5)
  %j = s32[3,1] parameter(6)
  %u = f32[3,6] parameter(7)
  %t = (f32[8], s32[]) parameter(8)
)";

Status check(const std::string& line) {
  const auto module =
      parse_hlo(kPrelude + ("  ROOT %out = " + line + "\n}\n"), "in.hlo");
  if (!module) return tl::unexpected<Error>(module.error());
  return verify(*module);
}

struct Case {
  const char* right;
  const char* wrong;
};

constexpr Case kCases[] = {
    {"f32[8] add(%v, %v)", "f32[8] add(%v, %s)"},
    {"f32[8] negate(%v)", "s32[8] negate(%v)"},
    {"f32[8] exponential(%v)", "f32[9] exponential(%v)"},
    {"pred[8] compare(%v, %v), direction=LT",
     "f32[8] compare(%v, %v), direction=LT"},
    {"f32[8] select(%p, %v, %v)", "f32[8] select(%v, %v, %v)"},
    {"f32[8] clamp(%s, %v, %s)", "f32[8] clamp(%v, %s, %s)"},
    {"s32[8] convert(%v)", "s32[4] convert(%v)"},
    {"f32[8,3] broadcast(%v), dimensions={0}",
     "f32[8,3] broadcast(%v), dimensions={1}"},
    {"f32[24] reshape(%m)", "f32[25] reshape(%m)"},
    {"f32[6,4] transpose(%m), dimensions={1,0}",
     "f32[4,6] transpose(%m), dimensions={1,0}"},
    {"f32[6,4] transpose(%m), dimensions={1,0}",
     "f32[6,4] transpose(%m), dimensions={1,1}"},
    {"f32[4] reduce(%m, %s), dimensions={1}, to_apply=%sum",
     "f32[6] reduce(%m, %s), dimensions={1}, to_apply=%sum"},
    {"f32[4] reduce(%m, %s), dimensions={1}, to_apply=%sum",
     "f32[4] reduce(%m, %s), dimensions={1}, to_apply=%double"},
    {"f32[4,5] dot(%m, %n), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "f32[4,5] dot(%m, %n), lhs_contracting_dims={0}, "
     "rhs_contracting_dims={0}"},
    {"f32[4,5] dot(%m, %n), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "f32[5,4] dot(%m, %n), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0}"},
    {"f32[16] concatenate(%v, %v), dimensions={0}",
     "f32[15] concatenate(%v, %v), dimensions={0}"},
    {"f32[3] slice(%v), slice={[1:7:2]}", "f32[3] slice(%v), slice={[1:9:3]}"},
    {"f32[2] dynamic-slice(%v, %i), dynamic_slice_sizes={2}",
     "f32[9] dynamic-slice(%v, %i), dynamic_slice_sizes={9}"},
    {"f32[4,6] dynamic-update-slice(%m, %u, %i, %i)",
     "f32[8] dynamic-update-slice(%v, %m, %i)"},
    {"f32[12] pad(%v, %s), padding=1_3", "f32[12] pad(%v, %s), padding=1_2"},
    {"f32[15] pad(%v, %s), padding=0_0_1",
     "f32[16] pad(%v, %s), padding=0_0_1"},
    {"s32[8] iota(), iota_dimension=0", "s32[8] iota(), iota_dimension=1"},
    {"f32[4] reduce-window(%v, %s), window={size=2 stride=2}, to_apply=%sum",
     "f32[5] reduce-window(%v, %s), window={size=2 stride=2}, to_apply=%sum"},
    {"f32[3,6] gather(%m, %j), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,6}",
     "f32[3,6] gather(%m, %j), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,7}"},
    {"f32[4,6] scatter(%m, %j, %u), update_window_dims={1}, "
     "inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum",
     "f32[4,6] scatter(%m, %j, %n), update_window_dims={1}, "
     "inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum"},
    {"(f32[8], f32[]) tuple(%v, %s)", "(f32[8], f32[8]) tuple(%v, %s)"},
    {"s32[] get-tuple-element(%t), index=1",
     "s32[] get-tuple-element(%t), index=2"},
    {"s32[] get-tuple-element(%t), index=1",
     "s32[] get-tuple-element(%v), index=0"},
    {"f32[8] call(%v), to_apply=%double", "f32[8] call(%m), to_apply=%double"},
    {"f32[8] fusion(%v), kind=kLoop, calls=%double",
     "f32[4] fusion(%v), kind=kLoop, calls=%double"},
    {"f32[8] while(%v), condition=%less, body=%double",
     "f32[8] while(%v), condition=%double, body=%double"},
    {"f32[8] all-reduce(%v), replica_groups={}, to_apply=%sum",
     "f32[4] all-reduce(%v), replica_groups={}, to_apply=%sum"},
    {"(f32[8], f32[4,6]) all-reduce(%v, %m), replica_groups={{0,1}}, "
     "to_apply=%sum",
     "(f32[8], f32[8]) all-reduce(%v, %m), replica_groups={{0,1}}, "
     "to_apply=%sum"},
    {"f32[8] all-reduce(%v), replica_groups=[1,2]<=[2], to_apply=%sum",
     "f32[8] all-reduce(%v), replica_groups=[1,3]<=[2], to_apply=%sum"},
    {"f32[16] all-gather(%v), replica_groups={{0,1}}, dimensions={0}",
     "f32[15] all-gather(%v), replica_groups={{0,1}}, dimensions={0}"},
    {"f32[4] reduce-scatter(%v), replica_groups={{0,1}}, dimensions={0}, "
     "to_apply=%sum",
     "f32[4] reduce-scatter(%v), replica_groups={{0,1}}, dimensions={1}, "
     "to_apply=%sum"},
    {"f32[2] constant({1, 2})", "f32[2] constant({1, 2, 3})"},
    {"f32[2] constant({1, 2})", "f32[2] constant({1, two})"},
    {"f32[8] select(%p, %v, %v)", "f32[8] select(%p, %v)"},
    {"f32[8] negate(%v)", "f32[8] negate(f32[9] %v)"},
    {"f32[24] bitcast(%m)", "f32[25] bitcast(%m)"},
    {"s32[24] bitcast(%m)", "s16[24] bitcast(%m)"},
    {"u16[2,24] bitcast(%m)", "pred[] bitcast(%m)"},
    {"s32[8] bitcast-convert(%v)", "s32[9] bitcast-convert(%v)"},
    {"u16[8,2] bitcast-convert(%v)", "u16[16] bitcast-convert(%v)"},
    {"f32[<=8] negate(%v)", "f32[<=9] negate(%v)"},
    {"f32[8] opt-barrier(%v)", "f32[8] opt-barrier(%v, %v)"},
    {"f32[8] opt-barrier(%v)", "f32[8] opt-barrier()"},
    {"f32[4,5] dot(%m, %n), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "f32[] dot(%t, %t), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
    {"f32[4,5] dot(%m, %n), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "f32[<=4,5] dot(%m, %n), lhs_contracting_dims={7}, "
     "rhs_contracting_dims={0}"},
    {"f32[4] reduce(%m, %s), dimensions={1}, to_apply=%sum",
     "f32[4] reduce(%m, %v), dimensions={1}, to_apply=%sum"},
    {"(f32[4], f32[4]) reduce(%m, %m, %s, %s), dimensions={1}, "
     "to_apply=%four",
     "() reduce(%m, %m, %s, %s), dimensions={1}, to_apply=%four"},
    {"(f32[4], f32[4]) reduce(%m, %m, %s, %s), dimensions={1}, "
     "to_apply=%four",
     "(f32[4], f32[4]) reduce(%m, %n, %s, %s), dimensions={1}, "
     "to_apply=%four"},
    {"(f32[8], f32[8]) reduce-window(%v, %v, %s, %s), to_apply=%four",
     "() reduce-window(%v, %v, %s, %s), to_apply=%four"},
    {"f32[12] pad(%v, %s), padding=1_3", "f32[12] pad(%v, %v), padding=1_3"},
    {"f32[2] dynamic-slice(%v, %i), dynamic_slice_sizes={2}",
     "f32[2] dynamic-slice(%v, %v), dynamic_slice_sizes={2}"},
    {"f32[3,6] gather(%m, %j), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,6}",
     "f32[3,6] gather(%m, %j), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0,1}, "
     "index_vector_dim=1, slice_sizes={1,6}"},
    {"f32[3,6] gather(%m, %j), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,6}",
     "f32[3,6] gather(%m, %j), offset_dims={1}, collapsed_slice_dims={0}, "
     "start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={2,6}"},
    {"f32[4,6] scatter(%m, %j, %u), update_window_dims={1}, "
     "inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum",
     "f32[6,5] scatter(%n, %j, %u), update_window_dims={1}, "
     "inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum"},
    {"f32[4,6] scatter(%m, %j, %u), update_window_dims={1}, "
     "inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum",
     "f32[4,6] scatter(%m, %j, %u), update_window_dims={1}, "
     "inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, "
     "to_apply=%sum"},
    {"((f32[8]), f32[4]) reduce-scatter-start(%v), dimensions={0}, "
     "to_apply=%sum",
     "f32[4] reduce-scatter-start(%v), dimensions={0}, to_apply=%sum"},
    {"((f32[8]), f32[4]) reduce-scatter-start(%v), dimensions={0}, "
     "to_apply=%sum",
     "((f32[8]), f32[5]) reduce-scatter-start(%v), dimensions={0}, "
     "to_apply=%sum"},
};

TEST(HloVerifier, TakesTheRightAndRefusesTheWrong) {
  for (const Case& item : kCases) {
    const Status right = check(item.right);
    EXPECT_TRUE(right.has_value()) << item.right << "\n"
                                   << right.error().message;
    const Status wrong = check(item.wrong);
    ASSERT_FALSE(wrong.has_value()) << item.wrong;
    EXPECT_EQ(wrong.error().kind, ErrorKind::kInvalid) << wrong.error().message;
    EXPECT_EQ(wrong.error().message.substr(0, 10), "in.hlo:37:")
        << wrong.error().message;
  }
}

TEST(HloVerifier, ChecksModulesBuiltByHand) {
  auto module = parse_hlo(kPrelude +
                          std::string("  ROOT %out = f32[8] add(%v, %v)\n}\n"));
  ASSERT_TRUE(module.has_value());
  EXPECT_TRUE(verify(*module).has_value());
  module->entry_computation().instructions.back().operands[0] =
      InstructionId{99};
  EXPECT_FALSE(verify(*module).has_value());
}

}  // namespace
}  // namespace reprise

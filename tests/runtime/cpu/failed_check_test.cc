// What a step computes where a check of equinox's error_if fails, which in JAX
// calls Python, and where it does not. Values are by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "data/hlo/hlo.h"
#include "tests/runtime/cpu/text_program.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// As JAX lowers error_if: of what it lets through, an array or a tuple, the
/// branch that is taken where `x` is above 1 asks Python, twice.
std::string checked(const std::string& shape, const std::string& values,
                    const std::string& results) {
  const std::string call =
      ", custom_call_target=\"xla_ffi_python_cpu_callback\", "
      "metadata={op_name=\"jit(step)/jit(branched_error_if_impl)/cond/"
      "branch_1_fun/pure_callback\"}\n";
  return "HloModule m\nright {\n ROOT v = " + shape +
         " parameter(0)\n}\nfails {\n v = " + shape +
         " parameter(0)\n i = s32[] constant(0)\n c = " + shape +
         " custom-call(i)" + call + " ROOT d = " + shape + " custom-call(i)" +
         call + "}\nENTRY e {\n x = f32[] parameter(0)\n" +
         " one = f32[] constant(1)\n p = pred[] compare(x, one), "
         "direction=GT\n" +
         values + " r = " + shape +
         " conditional(p, v, v), true_computation=fails, "
         "false_computation=right\n" +
         results + "}\n";
}

template <typename Value>
Value output_of(TextProgram& program, float x, int64_t output) {
  std::memcpy(program.executor().parameter(0).data(), &x, sizeof x);
  EXPECT_TRUE(program.executor().run_step(0));
  const auto bytes = program.executor().output(output);
  Value value{};
  EXPECT_GE(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

TEST(FailedCheck, GivesNan) {
  const std::string text =
      checked("f32[3]", " v = f32[3] broadcast(x), dimensions={}\n",
              " ROOT o = f32[3] copy(r)\n");
  for (const bool interpret : {true, false}) {
    TextProgram program(text, 1, interpret);
    EXPECT_EQ(output_of<float>(program, 0.5F, 0), 0.5F);
    EXPECT_TRUE(std::isnan(output_of<float>(program, 2.0F, 0)));
    EXPECT_EQ(output_of<float>(program, 1.0F, 0), 1.0F);
  }
}

TEST(FailedCheck, GivesTheLargestIntegersAndTrue) {
  const std::string text = checked(
      "(s32[], u8[], pred[], bf16[])",
      " n = s32[] convert(x)\n u = u8[] convert(x)\n t = pred[] compare(x, "
      "one), direction=EQ\n b = bf16[] convert(x)\n"
      " v = (s32[], u8[], pred[], bf16[]) tuple(n, u, t, b)\n",
      " rn = s32[] get-tuple-element(r), index=0\n"
      " ru = u8[] get-tuple-element(r), index=1\n"
      " rt = pred[] get-tuple-element(r), index=2\n"
      " rb = bf16[] get-tuple-element(r), index=3\n rw = f32[] convert(rb)\n"
      " ROOT o = (s32[], u8[], pred[], f32[]) tuple(rn, ru, rt, rw)\n");
  TextProgram program(text);
  EXPECT_EQ(output_of<int32_t>(program, 1.0F, 0), 1);
  EXPECT_EQ(output_of<int32_t>(program, 3.0F, 0),
            std::numeric_limits<int32_t>::max());
  EXPECT_EQ(output_of<uint8_t>(program, 3.0F, 1), 255);
  EXPECT_EQ(output_of<bool>(program, 0.0F, 2), false);
  EXPECT_EQ(output_of<bool>(program, 3.0F, 2), true);
  EXPECT_TRUE(std::isnan(output_of<float>(program, 3.0F, 3)));
}

TEST(FailedCheck, IsNoOtherCallOfPython) {
  const Result<InlinedModule> module = parse_inlined(
      "HloModule m\nENTRY e {\n x = f32[3] parameter(0)\n"
      " ROOT c = f32[3] custom-call(x), "
      "custom_call_target=\"xla_ffi_python_cpu_callback\", "
      "metadata={op_name=\"jit(step)/jit(my_error_if)/pure_callback\"}\n}\n");
  ASSERT_TRUE(module) << module.error().message;
  const Computation& entry = module->entry_computation();
  EXPECT_EQ(entry.at(entry.root).opcode, Opcode::kCustomCall);
}

}  // namespace
}  // namespace reprise

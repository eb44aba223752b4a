#include "data/program/refusals.h"

#include <gtest/gtest.h>

#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

std::string refusal_of(const std::string& body) {
  const auto module = parse_inlined("HloModule m\nENTRY e {\n" + body + "}\n");
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  if (!module) return "";
  const Status runs = check_runs(*module, 1);
  return runs ? "" : runs.error().message;
}

TEST(Refusals, EveryReasonSaysWhatToDo) {
  const struct {
    const char* body;
    const char* advice;
  } kCases[] = {{"x = f32[4] parameter(0)\n z = c64[4] complex(x, x)\n"
                 "e = c64[4] erf(z)\n ROOT c = f32[4] abs(e)\n",
                 "real and imaginary parts"},
                {"x = s4[4] parameter(0)\n ROOT c = s4[4] custom-call(x), "
                 "custom_call_target=\"own\"\n",
                 "convert to bf16 or s8 before"},
                {"x = f32[4] parameter(0)\n ROOT c = f32[4] custom-call(x), "
                 "custom_call_target=\"xla_ffi_python_cpu_callback\"\n",
                 "without jax.debug.print"},
                {"x = f32[4] parameter(0)\n ROOT c = f32[4] custom-call(x), "
                 "custom_call_target=\"__cublas$gemm\"\n",
                 "export on CPU"},
                {"x = f32[4,4] parameter(0)\n"
                 "t = (f32[4,4], f32[3], s32[]) custom-call(x), "
                 "custom_call_target=\"lapack_sggev_ffi\"\n"
                 "ROOT c = f32[4,4] get-tuple-element(t), index=0\n",
                 "of LAPACK run"},
                {"x = f32[64] parameter(0)\n k = f32[64] constant({...})\n"
                 "ROOT s = f32[64] add(x, k)\n",
                 "its values are elided, `{...}`; give the text of lower()"},
                {"a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                 "ROOT r = f32[4] rng(a, b), distribution=rng_uniform\n",
                 "jax.random with keys"}};
  for (const auto& one : kCases) {
    const std::string message = refusal_of(one.body);
    EXPECT_NE(message.find(one.advice), std::string::npos)
        << one.body << message;
  }
}

TEST(Refusals, LookIntoLoopsAndNameAllReasonsAtOnce) {
  const auto module = parse_inlined(
      "HloModule m\n"
      "c {\n p = (f32[4]) parameter(0)\n"
      " ROOT t = pred[] constant(false)\n}\n"
      "b {\n p = (f32[4]) parameter(0)\n"
      " x = f32[4] get-tuple-element(p), index=0\n"
      " y = f32[4] custom-call(x), custom_call_target=\"mine\"\n"
      " z = f32[4] custom-call(y), custom_call_target=\"yours\"\n"
      " ROOT r = (f32[4]) tuple(z)\n}\n"
      "ENTRY e {\n x = f32[4] parameter(0)\n"
      " t = (f32[4]) tuple(x)\n"
      " w = (f32[4]) while(t), condition=c, body=b\n"
      " g = f32[4] get-tuple-element(w), index=0\n"
      " ROOT k = f32[4] custom-call(g), custom_call_target=\"mine\"\n}\n");
  ASSERT_TRUE(module) << module.error().message;
  const std::vector<Refusal> refusals = refusals_of(*module, 1);
  ASSERT_EQ(refusals.size(), 2U);
  EXPECT_EQ(refusals[0].instruction, "w: y");
  EXPECT_EQ(refusals[0].reason, "custom-call \"mine\" does not run");
  EXPECT_EQ(refusals[0].more, 1);
  EXPECT_EQ(refusals[1].reason, "custom-call \"yours\" does not run");
}

TEST(Refusals, NameAnElidedComplexConstantAsTheTextHasIt) {
  const auto module = parse_inlined(
      "HloModule m\nENTRY e {\n x = c64[64] parameter(0)\n"
      " k = c64[64] constant({...})\n ROOT s = c64[64] add(x, k)\n}\n");
  ASSERT_TRUE(module) << module.error().message;
  const std::vector<Refusal> refusals = refusals_of(*module, 1);
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_EQ(refusals[0].instruction, "k");
  EXPECT_EQ(refusals[0].more, 0);
}

// What has no form in parts is named as the text has it, once, whatever reads
// its parts; so is a product of complex numbers across ranks, which no
// collective of parts computes.
TEST(Refusals, NameComplexOpsByTheirOwnNameAndLine) {
  const auto module = parse_inlined(
      "HloModule m, num_partitions=2\n"
      "mul {\n a = c64[] parameter(0)\n b = c64[] parameter(1)\n"
      " ROOT m = c64[] multiply(a, b)\n}\n"
      "ENTRY e {\n z = c64[4] parameter(0)\n"
      " w = c64[4] erf(z), metadata={op_name=\"jit(step)/erf\" "
      "source_file=\"step.py\" source_line=7}\n"
      " p = c64[4] all-reduce(w), replica_groups={{0,1}}, channel_id=1, "
      "use_global_device_ids=true, to_apply=mul, metadata={op_name="
      "\"jit(step)/prod\" source_file=\"step.py\" source_line=8}\n"
      " q = f32[4] real(p)\n"
      " ROOT t = (c64[4], f32[4]) tuple(p, q)\n}\n");
  ASSERT_TRUE(module) << module.error().message;
  const std::vector<Refusal> refusals = refusals_of(*module, 2);
  ASSERT_EQ(refusals.size(), 2U);
  EXPECT_EQ(refusals[0].instruction, "w (\"jit(step)/erf\", step.py:7)");
  EXPECT_EQ(refusals[0].reason, "erf of complex numbers does not run");
  EXPECT_EQ(refusals[0].advice, "write it on real and imaginary parts");
  EXPECT_EQ(refusals[1].instruction, "p (\"jit(step)/prod\", step.py:8)");
  EXPECT_EQ(refusals[1].reason, "all-reduce of complex numbers does not run");
}

TEST(Refusals, NameTheTargetOfACallWithATupleResult) {
  const std::string message = refusal_of(
      "x = f32[4] parameter(0)\n"
      "t = (f32[4], f32[4]) custom-call(x), custom_call_target=\"mine\"\n"
      "ROOT c = f32[4] get-tuple-element(t), index=1\n");
  EXPECT_NE(message.find("custom-call \"mine\" with a tuple result"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace reprise

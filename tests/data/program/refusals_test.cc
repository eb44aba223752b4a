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
  } kCases[] = {{"x = f32[8] parameter(0)\n"
                 "ROOT f = c64[5] fft(x), fft_type=RFFT, fft_length={8}\n",
                 "product with a matrix of cosines"},
                {"x = f32[4] parameter(0)\n ROOT c = c64[4] complex(x, x)\n",
                 "real and imaginary parts"},
                {"x = f32[4] parameter(0)\n ROOT c = f8e4m3fn[4] convert(x)\n",
                 "keep that part in bf16"},
                {"x = f32[4] parameter(0)\n ROOT c = f32[4] custom-call(x), "
                 "custom_call_target=\"xla_ffi_python_cpu_callback\"\n",
                 "without jax.debug.print"},
                {"x = f32[4] parameter(0)\n ROOT c = f32[4] custom-call(x), "
                 "custom_call_target=\"__cublas$gemm\"\n",
                 "export on CPU"},
                {"x = f32[4,4] parameter(0)\n"
                 "t = (f32[4,4], f32[3], s32[]) custom-call(x), "
                 "custom_call_target=\"lapack_sgehrd_ffi\"\n"
                 "ROOT c = f32[4,4] get-tuple-element(t), index=0\n",
                 "of LAPACK run"},
                {"a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                 "ROOT r = f32[4] rng(a, b), distribution=rng_uniform\n",
                 "jax.random with keys"}};
  for (const auto& one : kCases) {
    const std::string message = refusal_of(one.body);
    EXPECT_NE(message.find(one.advice), std::string::npos)
        << one.body << message;
  }
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

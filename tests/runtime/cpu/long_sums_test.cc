// Sums of a million positive numbers, which by sixteen lanes alone are 1e-4
// off: what clipping by the norm of many gradients multiplies all of them with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

/// Relative distance of a sum of squares from the exact one.
double sum_is_off(const std::string& shape, const std::string& dimensions,
                  size_t count) {
  TextProgram program(
      fmt::format(
          "HloModule m\nsum {{\n  a = f32[] parameter(0)\n"
          "  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}}\n"
          "ENTRY main {{\n  x = f32[{0}] parameter(0)\n"
          "  zero = f32[] constant(0)\n"
          "  square = f32[{0}] multiply(x, x)\n  ROOT r = f32[] "
          "reduce(square, zero), dimensions={{{1}}}, to_apply=sum\n}}\n",
          shape, dimensions),
      1, false);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0.5F, 1.0F);
  std::vector<float> values(count);
  double exact = 0;
  for (float& value : values) {
    value = uniform(random);
    exact += static_cast<double>(value) * static_cast<double>(value);
  }
  std::memcpy(program.executor().parameter(0).data(), values.data(),
              count * sizeof(float));
  EXPECT_TRUE(program.executor().run_step(0));
  float got = 0;
  std::memcpy(&got, program.executor().output(0).data(), sizeof got);
  return std::fabs(static_cast<double>(got) - exact) / exact;
}

TEST(LongSums, AreExactToTheLastDigits) {
  EXPECT_LT(sum_is_off("4000000", "0", 4000000), 1e-6);
  EXPECT_LT(sum_is_off("1024,4096", "0,1", 1024 * 4096), 1e-6);
  EXPECT_LT(sum_is_off("2,2,1000000", "0,1,2", 4000000), 1e-6);
  EXPECT_LT(sum_is_off("1000000,2,2", "0,1,2", 4000000), 1e-6);
}

}  // namespace
}  // namespace reprise

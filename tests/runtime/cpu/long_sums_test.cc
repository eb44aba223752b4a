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

/// Sums over rows of what a kernel makes, by so many threads.
std::vector<float> column_sums(size_t rows, size_t columns, size_t threads) {
  TextProgram program(
      fmt::format("HloModule m\nsum {{\n  a = f32[] parameter(0)\n"
                  "  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}}\n"
                  "ENTRY main {{\n  x = f32[{0},{1}] parameter(0)\n"
                  "  zero = f32[] constant(0)\n  ROOT r = f32[{1}] "
                  "reduce(x, zero), dimensions={{0}}, to_apply=sum\n}}\n",
                  rows, columns),
      threads, false);
  std::vector<float> values(rows * columns);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 1009) * 0.37F;
  std::memcpy(program.executor().parameter(0).data(), values.data(),
              values.size() * sizeof(float));
  EXPECT_TRUE(program.executor().run_step(0));
  std::vector<float> sums(columns);
  std::memcpy(sums.data(), program.executor().output(0).data(),
              columns * sizeof(float));
  for (size_t j = 0; j < columns; ++j) {
    double exact = 0;
    for (size_t i = 0; i < rows; ++i)
      exact += static_cast<double>(values[i * columns + j]);
    EXPECT_NEAR(static_cast<double>(sums[j]), exact, 3e-6 * exact) << j;
  }
  return sums;
}

// Blocks of 50, of 16 and 64 rows; and a prime number of rows in one.
TEST(LongSums, OverRowsAreByBlocksAndTheSameForAnyNumberOfThreads) {
  for (const size_t rows : {1000, 128, 16384, 997}) {
    EXPECT_EQ(column_sums(rows, 700, 1), column_sums(rows, 700, 3)) << rows;
  }
}

}  // namespace
}  // namespace reprise

// Dots that oneDNN does not take as they are, in every order of their
// dimensions, against plain sums: of 8-bit integers, of which f32 adds up no
// more than 258 to 1024 exactly, of wider ones, which wrap, and of f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

struct DotExtents {
  int64_t rows, columns, depth;
};

/// Tiles in full and in part, and depths over what f32 adds up exactly.
constexpr DotExtents kExtents[] = {
    {1, 1, 1}, {4, 16, 3}, {7, 35, 40}, {3, 5, 1100}, {260, 300, 520}};

template <typename T>
std::vector<T> drawn(size_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    if constexpr (std::is_floating_point_v<T>) {
      value = std::normal_distribution<T>()(random);
    } else {
      value = static_cast<T>(random());
      if (seed % 2 == 0) value = std::numeric_limits<T>::min();
      if (seed % 3 == 0) value = std::numeric_limits<T>::max();
    }
  }
  return values;
}

/// [rows, depth] or [depth, rows] of `values`.
template <typename T>
T element(const std::vector<T>& values, bool depth_first, int64_t rows,
          int64_t depth, int64_t row, int64_t along) {
  return values[static_cast<size_t>(depth_first ? along * rows + row
                                                : row * depth + along)];
}

/// `left` and `right` are converted to `wide` first.
template <typename Left, typename Right, typename Out>
void expect_sums(const char* left, const char* right, const char* out,
                 uint32_t seed, const char* wide = nullptr) {
  for (const auto& [rows, columns, depth] : kExtents) {
    for (const int order : {0, 1, 2, 3}) {
      const bool left_deep = (order & 1) != 0, right_deep = (order & 2) != 0;
      const auto shape = [&](const char* type, bool deep, int64_t free) {
        return fmt::format("{}[{},{}]", type, deep ? depth : free,
                           deep ? free : depth);
      };
      const std::string text = fmt::format(
          "HloModule m\nENTRY main {{\n  p = {} parameter(0)\n"
          "  q = {} parameter(1)\n  a = {} convert(p)\n"
          "  b = {} convert(q)\n  ROOT r = {}[{},{}] dot(a, b), "
          "lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}\n}}\n",
          shape(left, left_deep, rows), shape(right, right_deep, columns),
          shape(wide == nullptr ? left : wide, left_deep, rows),
          shape(wide == nullptr ? right : wide, right_deep, columns), out, rows,
          columns, left_deep ? 0 : 1, right_deep ? 0 : 1);
      TextProgram program(text, order % 2 == 0 ? 2 : 1);
      const auto a = drawn<Left>(static_cast<size_t>(rows * depth), seed);
      const auto b =
          drawn<Right>(static_cast<size_t>(columns * depth), seed + 6);
      std::memcpy(program.executor().parameter(0).data(), a.data(),
                  a.size() * sizeof(Left));
      std::memcpy(program.executor().parameter(1).data(), b.data(),
                  b.size() * sizeof(Right));
      ASSERT_TRUE(program.executor().run_step(0));
      const auto* got =
          reinterpret_cast<const Out*>(program.executor().output(0).data());
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          using Sum = std::conditional_t<std::is_floating_point_v<Out>, double,
                                         uint64_t>;
          Sum sum = 0, size = 0;
          for (int64_t d = 0; d < depth; ++d) {
            const Sum product =
                static_cast<Sum>(element(a, left_deep, rows, depth, i, d)) *
                static_cast<Sum>(element(b, right_deep, columns, depth, j, d));
            sum += product;
            if constexpr (std::is_floating_point_v<Sum>)
              size += std::fabs(product);
          }
          const Out value = got[i * columns + j];
          if constexpr (std::is_floating_point_v<Out>) {
            // Of either order of adding up.
            ASSERT_NEAR(value, sum, size * 1e-15 * std::sqrt(depth))
                << text << i << ", " << j;
          } else {
            ASSERT_EQ(value, static_cast<Out>(sum)) << text << i << ", " << j;
          }
        }
      }
    }
  }
}

TEST(DotRoutine, AddsUpIntegersExactly) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    expect_sums<int8_t, int8_t, int32_t>("s8", "s8", "s32", seed);
    expect_sums<uint8_t, uint8_t, int32_t>("u8", "u8", "s32", seed);
    expect_sums<int8_t, uint8_t, int64_t>("s8", "u8", "s64", seed);
    expect_sums<int8_t, int8_t, int8_t>("s8", "s8", "s8", seed);
    expect_sums<int32_t, int32_t, int32_t>("s32", "s32", "s32", seed);
    expect_sums<uint16_t, uint16_t, uint16_t>("u16", "u16", "u16", seed);
    expect_sums<int64_t, int64_t, int64_t>("s64", "s64", "s64", seed);
    expect_sums<int8_t, int8_t, int32_t>("s8", "s8", "s32", seed, "s32");
    expect_sums<uint8_t, int8_t, int64_t>("u8", "s8", "s64", seed, "s64");
    expect_sums<int16_t, int16_t, int32_t>("s16", "s16", "s32", seed, "s32");
  }
}

class DotRoutineOf : public testing::TestWithParam<const char*> {};

TEST_P(DotRoutineOf, GivesTheSameBitsByAnyNumberOfThreads) {
  const std::string text = fmt::format(
      "HloModule m\nENTRY main {{\n  a = {0}[700,300] parameter(0)\n"
      "  b = {0}[300,500] parameter(1)\n  ROOT r = {0}[700,500] dot(a, b), "
      "lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n",
      GetParam());
  std::vector<std::byte> alone;
  for (const size_t threads : {1, 2, 3}) {
    TextProgram program(text, threads);
    std::mt19937 random(3);
    for (uint32_t i = 0; i < 2; ++i) {
      const auto to = program.executor().parameter(i);
      for (size_t at = 0; at < to.size(); at += 2) {
        // Halves from 1 to 2, and their negatives; so are doubles of four.
        const auto half = static_cast<uint16_t>((random() & 0x83ff) | 0x3c00);
        std::memcpy(&to[at], &half, sizeof half);
      }
    }
    for (int step = 0; step < 8; ++step)
      ASSERT_TRUE(program.executor().run_step(0));
    const auto bytes = program.executor().output(0);
    if (alone.empty()) alone.assign(bytes.begin(), bytes.end());
    EXPECT_EQ(std::memcmp(alone.data(), bytes.data(), bytes.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DotRoutineOf, testing::Values("f16", "f64"));

TEST(DotRoutine, AddsUpF64) {
  expect_sums<double, double, double>("f64", "f64", "f64", 1);
}

}  // namespace
}  // namespace reprise

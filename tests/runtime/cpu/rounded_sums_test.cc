// Sums of bf16 and f16, which round at each element and so depend on the order:
// XLA's, windows of 32 along each dimension one element after the other, and
// their sums again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "data/element.h"
#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

constexpr size_t kWindow = 32;

double rounded(PrimitiveType type, double value) {
  std::array<std::byte, 2> bytes{};
  store_element(type, value, bytes.data());
  return load_element(type, bytes.data());
}

/// A matrix, of one row where one dimension is summed.
struct SummedBlock {
  size_t rows = 1, columns = 1;
  std::vector<double> values;
};

double sum_in_order(PrimitiveType type, const SummedBlock& all, size_t row,
                    size_t column, size_t rows, size_t columns) {
  double sum = 0;
  for (size_t i = row; i < row + rows; ++i) {
    for (size_t j = column; j < column + columns; ++j)
      sum = rounded(type, sum + all.values[i * all.columns + j]);
  }
  return sum;
}

size_t window_of(size_t extent) { return std::min(extent, kWindow); }

/// Zeros around, as many before as after, to whole windows.
SummedBlock padded(const SummedBlock& all) {
  const auto whole = [](size_t extent) {
    const size_t window = window_of(extent);
    return (extent + window - 1) / window * window;
  };
  SummedBlock more{whole(all.rows), whole(all.columns), {}};
  more.values.resize(more.rows * more.columns);
  const size_t above = (more.rows - all.rows) / 2;
  const size_t before = (more.columns - all.columns) / 2;
  for (size_t i = 0; i < all.values.size(); ++i) {
    more.values[(above + i / all.columns) * more.columns + before +
                i % all.columns] = all.values[i];
  }
  return more;
}

double sum_by_windows(PrimitiveType type, SummedBlock all) {
  while (all.rows > kWindow || all.columns > kWindow) {
    const SummedBlock parts = padded(all);
    const size_t rows = window_of(all.rows), columns = window_of(all.columns);
    all = {parts.rows / rows, parts.columns / columns, {}};
    for (size_t i = 0; i < all.rows; ++i) {
      for (size_t j = 0; j < all.columns; ++j) {
        all.values.push_back(
            sum_in_order(type, parts, i * rows, j * columns, rows, columns));
      }
    }
  }
  return sum_in_order(type, all, 0, 0, all.rows, all.columns);
}

struct SummedShape {
  size_t batch, rows, columns;
  bool squared;  ///< The sum is of squares, made in the same kernel.
};

std::string sum_program(const char* type, const SummedShape& of, bool squared) {
  return fmt::format(
      "HloModule m\nsum {{\n  a = {0}[] parameter(0)\n"
      "  b = {0}[] parameter(1)\n  ROOT c = {0}[] add(a, b)\n}}\n"
      "ENTRY main {{\n  x = {0}[{1},{2},{3}] parameter(0)\n"
      "  zero = {0}[] constant(0)\n"
      "  y = {0}[{1},{2},{3}] {4}\n  ROOT r = {0}[{1}] "
      "reduce(y, zero), dimensions={{1,2}}, to_apply=sum\n}}\n",
      type, of.batch, of.rows, of.columns,
      squared ? "multiply(x, x)" : "negate(x)");
}

/// All prefixes, or suffixes, of a line: of blocks of 16 each by itself, in
/// order, and what stands before or after its block.
std::vector<double> scanned(PrimitiveType type, const std::vector<double>& line,
                            bool is_reverse) {
  constexpr size_t kBlock = 16;
  const auto in_order = [&](size_t from, size_t to) {
    double sum = 0;
    for (; from < to; ++from) sum = rounded(type, sum + line[from]);
    return sum;
  };
  std::vector<double> totals, result;
  for (size_t begin = 0; begin < line.size(); begin += kBlock)
    totals.push_back(in_order(begin, std::min(begin + kBlock, line.size())));
  if (totals.size() > 1) totals = scanned(type, totals, is_reverse);
  for (size_t i = 0; i < line.size(); ++i) {
    const size_t block = i / kBlock, begin = block * kBlock;
    const double own = is_reverse
                           ? in_order(i, std::min(begin + kBlock, line.size()))
                           : in_order(begin, i + 1);
    const size_t other = is_reverse ? block + 1 : block - 1;
    result.push_back(other < totals.size() ? rounded(type, own + totals[other])
                                           : own);
  }
  return result;
}

TEST(RoundedScans, AreInXlasOrder) {
  for (const PrimitiveType type : {PrimitiveType::kBF16, PrimitiveType::kF16}) {
    for (const size_t count : {16, 17, 40, 300}) {
      for (const bool is_reverse : {false, true}) {
        TextProgram program(
            fmt::format(
                "HloModule m\nsum {{\n  a = {0}[] parameter(0)\n"
                "  b = {0}[] parameter(1)\n  ROOT c = {0}[] add(a, b)\n}}\n"
                "ENTRY main {{\n  x = {0}[2,{1}] parameter(0)\n"
                "  zero = {0}[] constant(0)\n  ROOT r = {0}[2,{1}] "
                "reduce-window(x, zero), window={{size=1x{1} pad=0_0x{2}}}, "
                "to_apply=sum\n}}\n",
                type == PrimitiveType::kBF16 ? "bf16" : "f16", count,
                is_reverse ? fmt::format("0_{}", count - 1)
                           : fmt::format("{}_0", count - 1)),
            1, false);
        std::mt19937 random(5);
        std::uniform_real_distribution<double> uniform(0.0, 2.0);
        std::byte* x = program.executor().parameter(0).data();
        std::vector<double> line[2];
        for (size_t i = 0; i < 2 * count; ++i, x += 2) {
          store_element(type, uniform(random), x);
          line[i / count].push_back(load_element(type, x));
        }
        ASSERT_TRUE(program.executor().run_step(0));
        const std::byte* got = program.executor().output(0).data();
        for (const std::vector<double>& one : line) {
          for (const double expected : scanned(type, one, is_reverse)) {
            ASSERT_EQ(load_element(type, got), expected)
                << count << " " << is_reverse;
            got += 2;
          }
        }
      }
    }
  }
}

class RoundedSums : public testing::TestWithParam<SummedShape> {};

TEST_P(RoundedSums, AreInXlasOrder) {
  const SummedShape& of = GetParam();
  for (const PrimitiveType type : {PrimitiveType::kBF16, PrimitiveType::kF16}) {
    const char* name = type == PrimitiveType::kBF16 ? "bf16" : "f16";
    TextProgram program(sum_program(name, of, of.squared), 1, false);
    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform(-1.0, 2.0);
    std::byte* x = program.executor().parameter(0).data();
    std::vector<SummedBlock> blocks(of.batch);
    for (SummedBlock& block : blocks) {
      block.rows = of.rows;
      block.columns = of.columns;
      for (size_t i = 0; i < of.rows * of.columns; ++i, x += 2) {
        store_element(type, uniform(random), x);
        const double value = load_element(type, x);
        block.values.push_back(of.squared ? rounded(type, value * value)
                                          : -value);
      }
    }
    EXPECT_TRUE(program.executor().run_step(0));
    const std::byte* sum = program.executor().output(0).data();
    for (size_t b = 0; b < of.batch; ++b, sum += 2) {
      EXPECT_EQ(load_element(type, sum), sum_by_windows(type, blocks[b]))
          << name << " " << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RoundedSums,
    testing::Values(SummedShape{40, 1, 9, true}, SummedShape{40, 1, 24, false},
                    SummedShape{100, 1, 32, true}, SummedShape{6, 1, 100, true},
                    SummedShape{5, 1, 3000, false}, SummedShape{3, 4, 8, true},
                    SummedShape{3, 20, 30, false}, SummedShape{2, 40, 70, true},
                    SummedShape{1, 200, 1100, false},
                    SummedShape{7, 40, 1, true}));

}  // namespace
}  // namespace reprise

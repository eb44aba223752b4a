// A dot with its epilogue gives the bits of the dot and then, one rounding
// each, the steps of the epilogue; of a multiply-add, one for both.
#include "runtime/cpu/dot_epilogue_pass.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "runtime/cpu/dot.h"
#include "tests/testing/matrix_view.h"

namespace reprise {
namespace {

struct Shape3 {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  std::vector<size_t> lhs, rhs, out;  ///< Memory orders.
};

/// What follows the product.
struct Steps {
  float alpha = 1;
  bool multiply_add = false, bias = false, accumulate = false, relu = false;
};

std::vector<float> random_values(size_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

std::byte* bytes(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

/// One program op after the other; a volatile keeps each rounding.
float stepwise(float product, const Steps& steps, float bias, float addend) {
  volatile float value = product;
  if (steps.multiply_add) {
    value = std::fma(value, steps.alpha, steps.bias ? bias : addend);
    if (steps.bias && steps.accumulate) value = value + addend;
  } else {
    if (steps.alpha != 1) value = value * steps.alpha;
    if (steps.bias) value = value + bias;
    if (steps.accumulate) value = value + addend;
  }
  // HLO's maximum(x, 0): NaN stays, and of two equal values the second.
  if (steps.relu) value = std::isnan(value) || value > 0 ? value : 0.0F;
  return value;
}

DotSpec spec_of(const Shape3& shape, const Steps& steps) {
  const auto with = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> dimensions = shape.batch;
    dimensions.push_back(rows);
    dimensions.push_back(columns);
    return dimensions;
  };
  DotSpec spec{.lhs = view(with(shape.m, shape.k), shape.lhs),
               .rhs = view(with(shape.k, shape.n), shape.rhs),
               .out = view(with(shape.m, shape.n), shape.out)};
  spec.alpha = steps.alpha;
  spec.multiply_add = steps.multiply_add;
  if (steps.bias) spec.bias.emplace();
  if (steps.accumulate) spec.accumulate.emplace();
  if (steps.relu) spec.activation = DotActivation::kRelu;
  return spec;
}

void expect_stepwise(const Shape3& shape, const Steps& steps, uint32_t seed) {
  const DotSpec spec = spec_of(shape, steps), plain = spec_of(shape, {});
  size_t batches = 1;
  for (const int64_t b : shape.batch) batches *= static_cast<size_t>(b);
  const auto m = static_cast<size_t>(shape.m), n = static_cast<size_t>(shape.n),
             k = static_cast<size_t>(shape.k);
  std::mt19937 random(seed);
  std::vector<float> lhs = random_values(batches * m * k, random),
                     rhs = random_values(batches * k * n, random),
                     bias = random_values(n, random),
                     addend = random_values(batches * m * n, random),
                     product(batches * m * n, -7), out(batches * m * n, 7);
  DotLibrary library;
  const auto dot = library.bind(
      plain, {.lhs = bytes(lhs), .rhs = bytes(rhs), .out = bytes(product)});
  ASSERT_TRUE(dot && dot->run());
  const auto fused = library.bind(spec, {.lhs = bytes(lhs),
                                         .rhs = bytes(rhs),
                                         .out = bytes(out),
                                         .bias = bytes(bias),
                                         .accumulate = bytes(addend)});
  ASSERT_TRUE(fused) << fused.error().message;
  ASSERT_TRUE(fused->run());
  EXPECT_EQ(fused->implementation(), dot->implementation());
  for (int64_t b = 0; b < static_cast<int64_t>(batches); ++b) {
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        const auto at = static_cast<size_t>(offset(spec.out, b, i, j));
        const float expected = stepwise(
            product[at], steps, bias[static_cast<size_t>(j)], addend[at]);
        ASSERT_EQ(std::bit_cast<uint32_t>(out[at]),
                  std::bit_cast<uint32_t>(expected))
            << b << " " << i << " " << j;
      }
    }
  }
}

const std::vector<Steps>& all_steps() {
  static const std::vector<Steps> steps = {
      {.bias = true},
      {.accumulate = true},
      {.relu = true},
      {.alpha = 0.7F},
      {.alpha = 0.7F, .multiply_add = true, .bias = true},
      {.alpha = 0.3F, .multiply_add = true, .accumulate = true},
      {.alpha = 0.6F, .multiply_add = true, .bias = true, .accumulate = true},
      {.bias = true, .relu = true},
      {.bias = true, .accumulate = true},
      {.alpha = -1.3F, .bias = true, .accumulate = true, .relu = true}};
  return steps;
}

class DotEpiloguePassTest : public testing::TestWithParam<Shape3> {};

TEST_P(DotEpiloguePassTest, GivesTheBitsOfOneStepAfterTheOther) {
  uint32_t seed = 1;
  for (const Steps& steps : all_steps()) {
    SCOPED_TRACE(seed);
    expect_stepwise(GetParam(), steps, seed++);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, DotEpiloguePassTest,
    testing::Values(
        Shape3{{}, 64, 32, 48, {0, 1}, {0, 1}, {0, 1}},
        Shape3{{}, 64, 32, 48, {1, 0}, {1, 0}, {0, 1}},
        Shape3{{}, 1, 33, 48, {0, 1}, {0, 1}, {0, 1}},
        Shape3{{}, 7, 3, 1, {0, 1}, {0, 1}, {0, 1}},
        Shape3{{}, 13, 10, 1023, {0, 1}, {1, 0}, {0, 1}},
        // Longer than a piece of the pass, and not whole pieces.
        Shape3{{}, 3, 5001, 17, {0, 1}, {0, 1}, {0, 1}},
        Shape3{{}, 31, 62, 3000, {1, 0}, {0, 1}, {0, 1}},
        Shape3{{6}, 16, 8, 24, {0, 1, 2}, {0, 2, 1}, {0, 1, 2}},
        // Batches whose rows lie apart: [position, batch, feature].
        Shape3{{5}, 9, 8, 24, {1, 0, 2}, {0, 1, 2}, {1, 0, 2}},
        Shape3{{3, 4}, 16, 16, 8, {0, 2, 1, 3}, {0, 3, 1, 2}, {0, 2, 1, 3}}));

TEST(DotEpiloguePass, HoldsForRandomShapes) {
  std::mt19937 random(11);
  for (uint32_t i = 0; i < 60; ++i) {
    const auto upto = [&](uint32_t bound) {
      return static_cast<int64_t>(1 + random() % bound);
    };
    const bool lhs = random() % 2 == 0, rhs = random() % 2 == 0;
    const Shape3 shape{.batch = {},
                       .m = upto(80),
                       .n = 1 + upto(80),
                       .k = upto(random() % 5 == 0 ? 2000 : 200),
                       .lhs = {lhs ? 0U : 1U, lhs ? 1U : 0U},
                       .rhs = {rhs ? 0U : 1U, rhs ? 1U : 0U},
                       .out = {0, 1}};
    SCOPED_TRACE(fmt::format("{} x {} x {}", shape.m, shape.n, shape.k));
    expect_stepwise(shape, all_steps()[random() % all_steps().size()], i);
  }
}

TEST(DotEpiloguePass, KeepsNaNAndMakesMinusZeroPlus) {
  // 1 x 1 times 1 x 4, so the product is the row itself.
  std::vector<float> one{1},
      row{std::numeric_limits<float>::quiet_NaN(), -0.0F, -2, 3}, out(4);
  DotSpec spec{.lhs = view({1, 1}, {0, 1}),
               .rhs = view({1, 4}, {0, 1}),
               .out = view({1, 4}, {0, 1})};
  spec.activation = DotActivation::kRelu;
  const auto pass = DotEpiloguePass::make(spec, {.out = bytes(row)});
  ASSERT_TRUE(pass) << pass.error().message;
  pass->run();
  EXPECT_TRUE(std::isnan(row[0]));
  EXPECT_EQ(std::bit_cast<uint32_t>(row[1]), 0U);
  EXPECT_EQ(row[2], 0);
  EXPECT_EQ(row[3], 3);
}

TEST(DotEpiloguePass, RefusesWhatItCannotDoExactly) {
  DotSpec spec{.type = PrimitiveType::kBF16,
               .result_type = PrimitiveType::kBF16,
               .lhs = view({8, 4}, {0, 1}),
               .rhs = view({4, 6}, {0, 1}),
               .out = view({8, 6}, {0, 1})};
  spec.bias.emplace();
  DotLibrary library;
  const auto half = library.bind(spec, {});
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(half.error().message, "a dot of bf16 with an epilogue");
  spec.type = spec.result_type = PrimitiveType::kF32;
  spec.out = view({8, 6}, {1, 0});
  const auto apart = library.bind(spec, {});
  ASSERT_FALSE(apart);
  EXPECT_EQ(apart.error().message, "an epilogue over columns of stride 8");
}

}  // namespace
}  // namespace reprise

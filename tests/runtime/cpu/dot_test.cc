#include "runtime/cpu/dot.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "data/parallel.h"
#include "runtime/cpu/dot_parts.h"
#include "runtime/cpu/wide_vectors.h"
#include "tests/testing/matrix_view.h"

namespace reprise {
namespace {

struct Case {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  std::vector<size_t> lhs, rhs, out;  ///< Memory orders.
};

class Dot : public testing::TestWithParam<Case> {};

TEST_P(Dot, EqualsTheDefinitionForAnyStrides) {
  const Case& c = GetParam();
  const auto with = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> dimensions = c.batch;
    dimensions.push_back(rows);
    dimensions.push_back(columns);
    return dimensions;
  };
  int64_t batches = 1;
  for (const int64_t b : c.batch) batches *= b;
  DotSpec spec{.lhs = view(with(c.m, c.k), c.lhs),
               .rhs = view(with(c.k, c.n), c.rhs),
               .out = view(with(c.m, c.n), c.out)};
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> lhs(static_cast<size_t>(batches * c.m * c.k)),
      rhs(static_cast<size_t>(batches * c.k * c.n)),
      out(static_cast<size_t>(batches * c.m * c.n));
  for (float& value : lhs) value = uniform(random);
  for (float& value : rhs) value = uniform(random);
  DotLibrary library;
  const auto call =
      library.bind(spec, {.lhs = reinterpret_cast<std::byte*>(lhs.data()),
                          .rhs = reinterpret_cast<std::byte*>(rhs.data()),
                          .out = reinterpret_cast<std::byte*>(out.data())});
  ASSERT_TRUE(call) << call.error().message;
  ASSERT_TRUE(call->run());
  EXPECT_EQ(call->implementation().find("ref"), std::string::npos)
      << call->implementation();
  if (has_fma()) {
    const bool is_long = c.m == 1 && c.n == 1 && c.k > 1024;
    EXPECT_EQ(call->implementation() == "vector",
              (c.m == 1 || c.n == 1) && !is_long);
  }
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double expected = 0;
        for (int64_t l = 0; l < c.k; ++l) {
          expected += static_cast<double>(
                          lhs[static_cast<size_t>(offset(spec.lhs, b, i, l))]) *
                      rhs[static_cast<size_t>(offset(spec.rhs, b, l, j))];
        }
        // k products of at most 1, each rounded at most twice to 24 bits.
        const double bound = static_cast<double>(c.k) * 1.2e-7 *
                             std::sqrt(static_cast<double>(c.k));
        ASSERT_NEAR(out[static_cast<size_t>(offset(spec.out, b, i, j))],
                    expected, bound);
      }
    }
  }
  const std::vector<float> first = out;
  ASSERT_TRUE(call->run());
  EXPECT_EQ(first, out);
}

uint16_t rounded(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
double widened(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

TEST_P(Dot, OfBf16IsSummedInF32AndRoundedOnce) {
  const Case& c = GetParam();
  const auto with = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> dimensions = c.batch;
    dimensions.insert(dimensions.end(), {rows, columns});
    return dimensions;
  };
  int64_t batches = 1;
  for (const int64_t b : c.batch) batches *= b;
  DotSpec spec{.type = PrimitiveType::kBF16,
               .result_type = PrimitiveType::kBF16,
               .lhs = view(with(c.m, c.k), c.lhs),
               .rhs = view(with(c.k, c.n), c.rhs),
               .out = view(with(c.m, c.n), c.out)};
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<uint16_t> lhs(static_cast<size_t>(batches * c.m * c.k)),
      rhs(static_cast<size_t>(batches * c.k * c.n)),
      out(static_cast<size_t>(batches * c.m * c.n));
  for (uint16_t& value : lhs) value = rounded(uniform(random));
  for (uint16_t& value : rhs) value = rounded(uniform(random));
  DotLibrary library;
  const auto call =
      library.bind(spec, {.lhs = reinterpret_cast<std::byte*>(lhs.data()),
                          .rhs = reinterpret_cast<std::byte*>(rhs.data()),
                          .out = reinterpret_cast<std::byte*>(out.data())});
  ASSERT_TRUE(call) << call.error().message;
  ASSERT_TRUE(call->run());
  // The same, not rounded.
  std::vector<float> sums(out.size());
  spec.result_type = PrimitiveType::kF32;
  const auto wide =
      library.bind(spec, {.lhs = reinterpret_cast<std::byte*>(lhs.data()),
                          .rhs = reinterpret_cast<std::byte*>(rhs.data()),
                          .out = reinterpret_cast<std::byte*>(sums.data())});
  ASSERT_TRUE(wide) << wide.error().message;
  ASSERT_TRUE(wide->run());
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double expected = 0;
        for (int64_t l = 0; l < c.k; ++l) {
          expected +=
              widened(lhs[static_cast<size_t>(offset(spec.lhs, b, i, l))]) *
              widened(rhs[static_cast<size_t>(offset(spec.rhs, b, l, j))]);
        }
        // As above, and half a unit in the last of 8 bits.
        const double sum_bound = static_cast<double>(c.k) * 1.2e-7 *
                                 std::sqrt(static_cast<double>(c.k));
        const auto at = static_cast<size_t>(offset(spec.out, b, i, j));
        ASSERT_NEAR(widened(out[at]), expected,
                    sum_bound + std::abs(expected) / 256);
        ASSERT_NEAR(sums[at], expected, sum_bound);
      }
    }
  }
}

// Every bf16, in every third row of a matrix, times one: by the product of f32
// exactly itself, NaN quiet; and one value of f32 that lies between two.
TEST(WidenedDot, KeepsWhatBf16HoldsAndRoundsToTheNearestEven) {
  constexpr int64_t kCount = 1 << 16;
  std::vector<uint16_t> lhs(3 * kCount), rhs{rounded(1), 0}, out(kCount);
  for (size_t i = 0; i < kCount; ++i) lhs[3 * i] = static_cast<uint16_t>(i);
  const DotSpec spec{
      .type = PrimitiveType::kBF16,
      .result_type = PrimitiveType::kBF16,
      .lhs = {.location = {}, .dimensions = {kCount, 1}, .strides = {3, 1}},
      .rhs = {.location = {}, .dimensions = {1, 1}, .strides = {1, 1}},
      .out = {.location = {}, .dimensions = {kCount, 1}, .strides = {1, 1}}};
  WidenedDot::Scratch scratch;
  const WidenedDot dot(spec, reinterpret_cast<std::byte*>(lhs.data()),
                       reinterpret_cast<std::byte*>(rhs.data()),
                       reinterpret_cast<std::byte*>(out.data()), scratch);
  dot.load();
  const auto* wide = reinterpret_cast<const float*>(dot.lhs());
  auto* product = reinterpret_cast<float*>(dot.out());
  std::copy(wide, wide + kCount, product);
  dot.store();
  for (size_t i = 0; i < kCount; ++i) {
    const bool is_nan = (i & 0x7fff) > 0x7f80;
    ASSERT_EQ(out[i], is_nan ? i | 0x40 : i);
  }
  const std::pair<uint32_t, uint16_t> ties[] = {
      {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
      {0x7f7fffff, 0x7f80}, {0x80008000, 0x8000}, {0x00018000, 0x0002}};
  for (size_t i = 0; i < std::size(ties); ++i)
    product[i] = std::bit_cast<float>(ties[i].first);
  dot.store();
  for (size_t i = 0; i < std::size(ties); ++i)
    EXPECT_EQ(out[i], ties[i].second) << std::hex << ties[i].first;
}

/// Bits of the whole dot and of its parts, over the same operands; how many
/// parts there were.
size_t expect_same_bits_in_parts(const DotSpec& spec, size_t count) {
  TrialOperands whole(plain_dot(spec)), parted(plain_dot(spec));
  std::vector<float> bias(
      static_cast<size_t>(spec.out.dimensions[spec.out.dimensions.size() - 1]));
  std::vector<float> accumulate(whole.result().size() / sizeof(float));
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& value : bias) value = uniform(random);
  for (float& value : accumulate) value = uniform(random);
  const auto with = [&](DotMemory memory) {
    if (spec.bias) memory.bias = reinterpret_cast<std::byte*>(bias.data());
    if (spec.accumulate)
      memory.accumulate = reinterpret_cast<std::byte*>(accumulate.data());
    return memory;
  };
  DotLibrary library;
  PartTrials trials;
  const auto call = library.bind(spec, with(whole.memory()));
  const auto parts =
      library.bind_parts(spec, with(parted.memory()), count, &trials);
  EXPECT_TRUE(call) << call.error().message;
  EXPECT_TRUE(parts) << parts.error().message;
  if (!call || !parts || parts->empty()) return 0;
  EXPECT_TRUE(call->run());
  ThreadTeam team(parts->size(), [] {});
  team.run(parts->size(),
           [&](size_t part) { EXPECT_TRUE((*parts)[part].run()); });
  EXPECT_TRUE(whole.result() == parted.result());
  return parts->size();
}

TEST_P(Dot, HasItsBitsInParts) {
  const Case& c = GetParam();
  size_t shared = 0;
  for (const int64_t scale : {1, 4}) {
    const auto with = [&](int64_t rows, int64_t columns) {
      std::vector<int64_t> dimensions = c.batch;
      dimensions.insert(dimensions.end(), {rows * scale, columns * scale});
      return dimensions;
    };
    for (const PrimitiveType type :
         {PrimitiveType::kF32, PrimitiveType::kBF16}) {
      DotSpec spec{.type = type,
                   .lhs = view(with(c.m, c.k), c.lhs),
                   .rhs = view(with(c.k, c.n), c.rhs),
                   .out = view(with(c.m, c.n), c.out)};
      if (type == PrimitiveType::kF32 && spec.out.strides.back() == 1 &&
          spec.out.dimensions.back() > 1) {
        spec.alpha = 0.5F;
        spec.bias = Location{};
        spec.accumulate = Location{};
        spec.activation = DotActivation::kRelu;
      }
      for (const size_t count : {2, 3, 5})
        shared += expect_same_bits_in_parts(spec, count);
    }
  }
  // Or the test tests nothing; one product of two vectors has no parts.
  const bool is_one = c.batch.empty() && c.m == 1 && c.n == 1;
  EXPECT_EQ(shared > 0, !is_one);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Dot,
    testing::Values(
        Case{{}, 64, 32, 48, {0, 1}, {0, 1}, {0, 1}},
        Case{{}, 64, 32, 48, {1, 0}, {0, 1}, {0, 1}},
        Case{{}, 64, 32, 48, {0, 1}, {1, 0}, {0, 1}},
        Case{{}, 64, 32, 48, {1, 0}, {1, 0}, {0, 1}},
        Case{{}, 64, 32, 48, {0, 1}, {0, 1}, {1, 0}},
        Case{{}, 10, 1024, 512, {1, 0}, {0, 1}, {0, 1}},
        Case{{}, 128, 1, 64, {0, 1}, {1, 0}, {1, 0}},
        Case{{}, 128, 1, 64, {1, 0}, {0, 1}, {0, 1}},
        Case{{}, 1, 128, 64, {1, 0}, {1, 0}, {1, 0}},
        Case{{}, 64, 128, 1, {1, 0}, {1, 0}, {0, 1}},
        Case{{}, 131, 1, 67, {0, 1}, {0, 1}, {0, 1}},
        Case{{}, 4099, 1, 7, {0, 1}, {0, 1}, {0, 1}},
        Case{{}, 2051, 1, 9, {1, 0}, {0, 1}, {0, 1}},
        Case{{}, 1, 37, 66, {0, 1}, {0, 1}, {0, 1}},
        Case{{}, 1, 37, 66, {0, 1}, {1, 0}, {0, 1}},
        Case{{3, 2}, 1, 21, 19, {0, 2, 1, 3}, {0, 2, 1, 3}, {0, 1, 2, 3}},
        Case{{4}, 21, 1, 19, {1, 0, 2}, {2, 0, 1}, {1, 0, 2}},
        Case{{5}, 16, 1, 24, {0, 1, 2}, {0, 2, 1}, {2, 0, 1}},
        // Vectors with vectors: both without gaps, one, and too long.
        Case{{64}, 1, 1, 96, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}},
        Case{{3, 2}, 1, 1, 37, {0, 1, 2, 3}, {0, 2, 1, 3}, {1, 0, 2, 3}},
        Case{{9}, 1, 1, 21, {2, 0, 1}, {0, 2, 1}, {0, 1, 2}},
        Case{{9}, 1, 1, 21, {0, 2, 1}, {1, 2, 0}, {0, 1, 2}},
        Case{{}, 1, 1, 1024, {0, 1}, {0, 1}, {0, 1}},
        Case{{}, 1, 1, 1025, {0, 1}, {0, 1}, {0, 1}},
        Case{{6}, 16, 8, 24, {0, 1, 2}, {0, 2, 1}, {0, 1, 2}},
        Case{{3, 4}, 16, 16, 8, {0, 2, 1, 3}, {0, 2, 1, 3}, {0, 1, 2, 3}},
        Case{{3, 4}, 16, 16, 8, {0, 2, 1, 3}, {0, 3, 1, 2}, {0, 2, 1, 3}},
        Case{{3, 4}, 16, 16, 8, {0, 1, 3, 2}, {0, 1, 2, 3}, {0, 3, 1, 2}}));

}  // namespace
}  // namespace reprise

#include "runtime/cuda/cublas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/cuda/cublas_shape.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/testing/matrix_view.h"

namespace reprise {
namespace {

int64_t elements_of(const MatrixView& view) {
  int64_t elements = 1;
  for (const int64_t dimension : view.dimensions) elements *= dimension;
  return elements;
}

// A 2 x 3 row-major result of row-major operands: its transpose is the
// column-major product of the transposed operands, which are the same memory.
TEST(MatrixProduct, SwapsOperandsForARowMajorResult) {
  const DotSpec spec{.lhs = view({2, 4}, {0, 1}),
                     .rhs = view({4, 3}, {0, 1}),
                     .out = view({2, 3}, {0, 1})};
  const auto product = matrix_product(spec);
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_TRUE(product->swapped);
  EXPECT_EQ(product->m, 3);
  EXPECT_EQ(product->n, 2);
  EXPECT_EQ(product->k, 4);
  EXPECT_EQ(product->a, (ColumnMajor{.rows = 3, .columns = 4, .leading = 3}));
  EXPECT_EQ(product->b, (ColumnMajor{.rows = 4, .columns = 2, .leading = 4}));
  EXPECT_EQ(product->out, (ColumnMajor{.rows = 3, .columns = 2, .leading = 3}));
  EXPECT_EQ(product->offsets, std::vector<MatrixOffsets>(1));
}

// Attention: batch and heads of [batch, position, head, feature] do not nest
// (strides 16 * 3 * 8 and 8), so the larger of them is strided and the other
// one looped over.
TEST(MatrixProduct, LoopsOverBatchDimensionsThatDoNotNest) {
  const DotSpec spec{.lhs = view({2, 3, 16, 8}, {0, 2, 1, 3}),
                     .rhs = view({2, 3, 8, 16}, {0, 3, 1, 2}),
                     .out = view({2, 3, 16, 16}, {0, 1, 2, 3})};
  const auto product = matrix_product(spec);
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->batches, 3);
  EXPECT_EQ(product->a.batch_stride, 8);
  EXPECT_EQ(product->out.batch_stride, 16 * 16);
  EXPECT_EQ(product->offsets,
            (std::vector<MatrixOffsets>{{0, 0, 0},
                                        {16 * 3 * 8, 16 * 3 * 8, 3 * 256}}));
}

TEST(MatrixProduct, MergesBatchDimensionsThatNest) {
  const DotSpec spec{.lhs = view({2, 3, 4, 8}, {0, 1, 2, 3}),
                     .rhs = view({2, 3, 8, 4}, {0, 1, 2, 3}),
                     .out = view({2, 3, 4, 4}, {0, 1, 2, 3})};
  const auto product = matrix_product(spec);
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->batches, 6);
  EXPECT_EQ(product->offsets.size(), 1U);
}

TEST(MatrixProduct, RefusesMatricesWithoutAUnitStride) {
  const DotSpec spec{.lhs = view({2, 4, 8}, {1, 2, 0}),
                     .rhs = view({2, 8, 4}, {0, 1, 2}),
                     .out = view({2, 4, 4}, {0, 1, 2})};
  const auto product = matrix_product(spec);
  ASSERT_FALSE(product);
  EXPECT_EQ(product.error().kind, ErrorKind::kUnsupported);
}

struct Case {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  std::vector<size_t> lhs, rhs, out;  ///< Memory orders.
  PrimitiveType type = PrimitiveType::kF32;
};

float from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

/// Small numbers, exact in bf16.
struct Operand {
  Operand(int64_t elements, PrimitiveType type, uint32_t seed)
      : values(static_cast<size_t>(elements)), bytes() {
    std::mt19937 random(seed);
    for (float& value : values)
      value = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
    for (const float value : values) {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      const size_t size = type == PrimitiveType::kF32 ? 4 : 2;
      if (size == 2) bits >>= 16;
      const auto* from = reinterpret_cast<const std::byte*>(&bits);
      bytes.insert(bytes.end(), from, from + size);
    }
  }
  std::vector<float> values;
  std::vector<std::byte> bytes;
};

class Cublas : public testing::TestWithParam<Case> {
 protected:
  // Runs the dot on the fake device and gives back the output's bytes.
  std::vector<std::byte> run(const DotSpec& spec, const Operand& lhs,
                             const Operand& rhs, size_t out_bytes);
};

std::vector<std::byte> Cublas::run(const DotSpec& spec, const Operand& lhs,
                                   const Operand& rhs, size_t out_bytes) {
  std::vector<std::byte> back(out_bytes);
  const auto context = DeviceContext::open(0);
  EXPECT_TRUE(context) << context.error().message;
  const Driver& driver = (*context)->driver();
  const auto library = CublasLibrary::create(driver, {});
  EXPECT_TRUE(library) << library.error().message;
  const auto stream = make_stream(driver, false);
  const auto a = DeviceMemory::allocate(driver, lhs.bytes.size()),
             b = DeviceMemory::allocate(driver, rhs.bytes.size()),
             out = DeviceMemory::allocate(driver, out_bytes);
  EXPECT_TRUE(write_device(driver, a->address(), lhs.bytes));
  EXPECT_TRUE(write_device(driver, b->address(), rhs.bytes));
  const auto call =
      (*library)->bind(spec, a->address(), b->address(), out->address());
  EXPECT_TRUE(call) << call.error().message;
  const Status enqueued = call->enqueue(stream->get());
  EXPECT_TRUE(enqueued) << enqueued.error().message;
  driver.stream_synchronize(stream->get());
  driver.copy_to_host(back.data(), out->address(), out_bytes);
  return back;
}

TEST_P(Cublas, EqualsTheDefinitionForAnyStrides) {
  const Case& c = GetParam();
  const auto with = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> dimensions = c.batch;
    dimensions.push_back(rows);
    dimensions.push_back(columns);
    return dimensions;
  };
  int64_t batches = 1;
  for (const int64_t b : c.batch) batches *= b;
  const DotSpec spec{.type = c.type,
                     .lhs = view(with(c.m, c.k), c.lhs),
                     .rhs = view(with(c.k, c.n), c.rhs),
                     .out = view(with(c.m, c.n), c.out)};
  const Operand lhs(elements_of(spec.lhs), c.type, 1),
      rhs(elements_of(spec.rhs), c.type, 2);
  const size_t width = c.type == PrimitiveType::kF32 ? 4 : 2;
  fake_cuda_clear();
  const std::vector<std::byte> out =
      run(spec, lhs, rhs, static_cast<size_t>(elements_of(spec.out)) * width);
  EXPECT_STREQ(fake_cuda_report(), "");
  EXPECT_EQ(fake_cuda_live_objects(), 0);
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        // Products of eighths are multiples of 1/64 below 64 · 48: f32 sums are
        // exact.
        float expected = 0;
        for (int64_t l = 0; l < c.k; ++l) {
          expected +=
              lhs.values[static_cast<size_t>(offset(spec.lhs, b, i, l))] *
              rhs.values[static_cast<size_t>(offset(spec.rhs, b, l, j))];
        }
        const size_t at = static_cast<size_t>(offset(spec.out, b, i, j));
        if (width == 4) {
          float value = 0;
          std::memcpy(&value, &out[4 * at], sizeof value);
          ASSERT_EQ(value, expected) << b << " " << i << " " << j;
        } else {
          uint16_t value = 0;
          std::memcpy(&value, &out[2 * at], sizeof value);
          // Rounded once, to 8 bits of mantissa.
          ASSERT_NEAR(from_bf16(value), expected, std::abs(expected) / 256);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Cublas,
    testing::Values(
        Case{{}, 64, 32, 48, {0, 1}, {0, 1}, {0, 1}},
        Case{{}, 64, 32, 48, {1, 0}, {0, 1}, {0, 1}},
        Case{{}, 64, 32, 48, {0, 1}, {1, 0}, {0, 1}},
        Case{{}, 64, 32, 48, {1, 0}, {1, 0}, {0, 1}},
        Case{{}, 64, 32, 48, {0, 1}, {0, 1}, {1, 0}},
        Case{{}, 64, 1, 48, {0, 1}, {0, 1}, {0, 1}},
        Case{{}, 1, 32, 48, {0, 1}, {0, 1}, {0, 1}},
        Case{{}, 64, 32, 1, {0, 1}, {0, 1}, {0, 1}},
        Case{{6}, 16, 8, 24, {0, 1, 2}, {0, 2, 1}, {0, 1, 2}},
        Case{{3, 4}, 16, 16, 8, {0, 2, 1, 3}, {0, 2, 1, 3}, {0, 1, 2, 3}},
        Case{{3, 4}, 16, 16, 8, {0, 2, 1, 3}, {0, 3, 1, 2}, {0, 2, 1, 3}},
        Case{{3, 4}, 16, 16, 8, {0, 1, 3, 2}, {0, 1, 2, 3}, {0, 3, 1, 2}},
        Case{{}, 64, 32, 48, {0, 1}, {1, 0}, {0, 1}, PrimitiveType::kBF16},
        Case{{6},
             16,
             8,
             24,
             {0, 1, 2},
             {0, 2, 1},
             {0, 1, 2},
             PrimitiveType::kBF16}));

TEST(CublasLibrary, RefusesTypesByName) {
  const auto context = DeviceContext::open(0);
  const auto library = CublasLibrary::create((*context)->driver(), {});
  ASSERT_TRUE(library) << library.error().message;
  const auto call = (*library)->bind({.type = PrimitiveType::kS32,
                                      .lhs = view({2, 2}, {0, 1}),
                                      .rhs = view({2, 2}, {0, 1}),
                                      .out = view({2, 2}, {0, 1})},
                                     0, 0, 0);
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(call.error().message, "dot of s32 on a GPU");
}

}  // namespace
}  // namespace reprise

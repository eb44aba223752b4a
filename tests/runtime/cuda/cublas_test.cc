#include "runtime/cuda/cublas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "runtime/cuda/cublas_shape.h"
#include "runtime/kernels/element_ops.h"
#include "tests/runtime/cuda/fake_cublas.h"
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

struct DotCase {
  std::vector<int64_t> batch;
  int64_t m, n, k;
  std::vector<size_t> lhs, rhs, out;  ///< Memory orders.
  PrimitiveType type = PrimitiveType::kF32;
  bool gives_f32 = false;  ///< Whatever the type.
};

/// Small numbers, exact in 16 bits.
struct Operand {
  Operand(int64_t elements, PrimitiveType type, uint32_t seed)
      : values(static_cast<size_t>(elements)), bytes() {
    std::mt19937 random(seed);
    for (float& value : values)
      value = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
    const auto width = static_cast<size_t>(memory_bytes(type));
    bytes.resize(values.size() * width);
    for (size_t i = 0; i < values.size(); ++i) {
      std::byte* at = &bytes[i * width];
      if (type == PrimitiveType::kF64) {
        to_memory<double>(type, values[i], at);
      } else {
        to_memory<float>(type, values[i], at);
      }
    }
  }
  std::vector<float> values;
  std::vector<std::byte> bytes;
};

/// A fake device with operands on it, for dots.
class Multiplier {
 public:
  Multiplier() {
    auto context = DeviceContext::open(0);
    EXPECT_TRUE(context) << context.error().message;
    context_ = std::move(*context);
    auto library = CublasLibrary::create(driver(), {});
    EXPECT_TRUE(library) << library.error().message;
    library_ = std::move(*library);
    auto stream = make_stream(driver(), false);
    EXPECT_TRUE(stream) << stream.error().message;
    stream_ = std::move(*stream);
  }

  CUdeviceptr place(const std::vector<std::byte>& bytes) {
    auto memory = DeviceMemory::allocate(driver(), bytes.size());
    EXPECT_TRUE(memory && write_device(driver(), memory->address(), bytes));
    placed_.push_back(std::move(*memory));
    return placed_.back().address();
  }
  CublasLibrary& library() { return *library_; }
  CublasLibrary::Call bind(const DotSpec& spec, const CublasMemory& memory) {
    const auto call = library_->bind(spec, memory);
    EXPECT_TRUE(call) << call.error().message;
    return *call;
  }
  /// The bytes at `out` once the call ran.
  std::vector<std::byte> run(const CublasLibrary::Call& call, CUdeviceptr out,
                             size_t out_bytes) {
    std::vector<std::byte> back(out_bytes);
    const Status enqueued = call.enqueue(stream_.get());
    EXPECT_TRUE(enqueued) << enqueued.error().message;
    driver().stream_synchronize(stream_.get());
    driver().copy_to_host(back.data(), out, out_bytes);
    return back;
  }

 private:
  const Driver& driver() const { return context_->driver(); }
  std::shared_ptr<const DeviceContext> context_;
  std::unique_ptr<CublasLibrary> library_;
  CudaStream stream_;
  std::vector<DeviceMemory> placed_;
};

/// Element (i, j) of matrix b of the plain product.
float product_at(const DotSpec& spec, const Operand& lhs, const Operand& rhs,
                 int64_t b, int64_t i, int64_t j) {
  float sum = 0;
  for (int64_t l = 0; l < spec.lhs.dimensions.back(); ++l) {
    sum += lhs.values[static_cast<size_t>(offset(spec.lhs, b, i, l))] *
           rhs.values[static_cast<size_t>(offset(spec.rhs, b, l, j))];
  }
  return sum;
}

class Cublas : public testing::TestWithParam<DotCase> {};

TEST_P(Cublas, EqualsTheDefinitionForAnyStrides) {
  const DotCase& c = GetParam();
  const auto with = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> dimensions = c.batch;
    dimensions.push_back(rows);
    dimensions.push_back(columns);
    return dimensions;
  };
  int64_t batches = 1;
  for (const int64_t b : c.batch) batches *= b;
  const PrimitiveType result_type = c.gives_f32 ? PrimitiveType::kF32 : c.type;
  const DotSpec spec{.type = c.type,
                     .result_type = result_type,
                     .lhs = view(with(c.m, c.k), c.lhs),
                     .rhs = view(with(c.k, c.n), c.rhs),
                     .out = view(with(c.m, c.n), c.out)};
  const Operand lhs(elements_of(spec.lhs), c.type, 1),
      rhs(elements_of(spec.rhs), c.type, 2);
  const auto width = static_cast<size_t>(memory_bytes(result_type));
  fake_cuda_clear();
  const size_t out_bytes = static_cast<size_t>(elements_of(spec.out)) * width;
  std::vector<std::byte> out(out_bytes);
  {
    Multiplier device;
    const CUdeviceptr result = device.place(out);
    out = device.run(device.bind(spec, {.lhs = device.place(lhs.bytes),
                                        .rhs = device.place(rhs.bytes),
                                        .out = result}),
                     result, out_bytes);
  }
  EXPECT_STREQ(fake_cuda_report(), "");
  EXPECT_EQ(fake_cuda_live_objects(), 0);
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        // Products of eighths are multiples of 1/64 below 64 · 48: f32 sums are
        // exact.
        const float expected = product_at(spec, lhs, rhs, b, i, j);
        const size_t at = static_cast<size_t>(offset(spec.out, b, i, j));
        const std::byte* made = &out[width * at];
        const double value = result_type == PrimitiveType::kF64
                                 ? from_memory<double>(result_type, made)
                                 : from_memory<float>(result_type, made);
        // 16 bits are rounded once, to 8 bits of mantissa or 11.
        const double allowed = width > 2 ? 0
                               : result_type == PrimitiveType::kBF16
                                   ? 1.0 / 256
                                   : 1.0 / 2048;
        ASSERT_NEAR(value, expected, std::abs(expected) * allowed)
            << b << " " << i << " " << j;
      }
    }
  }
}

DotCase batched(PrimitiveType type, bool gives_f32 = false) {
  return {{6}, 16, 8, 24, {0, 1, 2}, {0, 2, 1}, {0, 1, 2}, type, gives_f32};
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Cublas,
    testing::Values(
        DotCase{{}, 64, 32, 48, {0, 1}, {0, 1}, {0, 1}},
        DotCase{{}, 64, 32, 48, {1, 0}, {0, 1}, {0, 1}},
        DotCase{{}, 64, 32, 48, {0, 1}, {1, 0}, {0, 1}},
        DotCase{{}, 64, 32, 48, {1, 0}, {1, 0}, {0, 1}},
        DotCase{{}, 64, 32, 48, {0, 1}, {0, 1}, {1, 0}},
        DotCase{{}, 64, 1, 48, {0, 1}, {0, 1}, {0, 1}},
        DotCase{{}, 1, 32, 48, {0, 1}, {0, 1}, {0, 1}},
        DotCase{{}, 64, 32, 1, {0, 1}, {0, 1}, {0, 1}},
        DotCase{{6}, 16, 8, 24, {0, 1, 2}, {0, 2, 1}, {0, 1, 2}},
        DotCase{{3, 4}, 16, 16, 8, {0, 2, 1, 3}, {0, 2, 1, 3}, {0, 1, 2, 3}},
        DotCase{{3, 4}, 16, 16, 8, {0, 2, 1, 3}, {0, 3, 1, 2}, {0, 2, 1, 3}},
        DotCase{{3, 4}, 16, 16, 8, {0, 1, 3, 2}, {0, 1, 2, 3}, {0, 3, 1, 2}},
        DotCase{{}, 64, 32, 48, {0, 1}, {1, 0}, {0, 1}, PrimitiveType::kBF16},
        batched(PrimitiveType::kBF16), batched(PrimitiveType::kBF16, true),
        batched(PrimitiveType::kF16), batched(PrimitiveType::kF16, true),
        batched(PrimitiveType::kF64)));

struct EpilogueCase {
  DotCase dot;
  bool bias = false, accumulate = false, relu = false;
  float alpha = 1;
};

class CublasEpilogue : public testing::TestWithParam<EpilogueCase> {};

TEST_P(CublasEpilogue, EqualsTheDefinition) {
  const EpilogueCase& e = GetParam();
  const DotCase& c = e.dot;
  const auto with = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> dimensions = c.batch;
    dimensions.push_back(rows);
    dimensions.push_back(columns);
    return dimensions;
  };
  DotSpec spec{.lhs = view(with(c.m, c.k), c.lhs),
               .rhs = view(with(c.k, c.n), c.rhs),
               .out = view(with(c.m, c.n), c.out)};
  spec.alpha = e.alpha;
  if (e.bias) spec.bias.emplace();
  if (e.accumulate) spec.accumulate.emplace();
  if (e.relu) spec.activation = DotActivation::kRelu;
  const Operand lhs(elements_of(spec.lhs), c.type, 1),
      rhs(elements_of(spec.rhs), c.type, 2), bias(c.n, c.type, 3),
      other(c.n, c.type, 4), addend(elements_of(spec.out), c.type, 5);
  const auto count = static_cast<size_t>(elements_of(spec.out));
  const int64_t batches = elements_of(spec.out) / (c.m * c.n);
  fake_cuda_clear();
  {
    Multiplier device;
    const CUdeviceptr result = device.place(std::vector<std::byte>(4 * count));
    CublasMemory memory{.lhs = device.place(lhs.bytes),
                        .rhs = device.place(rhs.bytes),
                        .out = result,
                        .bias = device.place(bias.bytes),
                        .accumulate = device.place(addend.bytes)};
    const auto call = device.bind(spec, memory);
    // A call of the same shape with another bias does not change this one's.
    memory.bias = device.place(other.bytes);
    device.run(device.bind(spec, memory), result, 4 * count);
    const auto out = device.run(call, result, 4 * count);
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
          // Multiples of 1/128 below 2^17 / 128: every f32 step is exact.
          float expected = product_at(spec, lhs, rhs, b, i, j);
          const auto at = static_cast<size_t>(offset(spec.out, b, i, j));
          expected *= e.alpha;
          if (e.bias) expected += bias.values[static_cast<size_t>(j)];
          if (e.accumulate) expected += addend.values[at];
          if (e.relu) expected = std::max(expected, 0.0F);
          float value = 0;
          std::memcpy(&value, &out[4 * at], sizeof value);
          ASSERT_EQ(value, expected) << b << " " << i << " " << j;
        }
      }
    }
  }
  EXPECT_STREQ(fake_cuda_report(), "");
  EXPECT_EQ(fake_cuda_live_objects(), 0);
}

const DotCase kRows{{}, 64, 32, 48, {0, 1}, {0, 1}, {0, 1}};
const DotCase kTurned{{}, 64, 32, 48, {1, 0}, {1, 0}, {0, 1}};
const DotCase kOneRow{{}, 1, 32, 48, {0, 1}, {0, 1}, {0, 1}};
const DotCase kColumns{{}, 64, 32, 48, {0, 1}, {0, 1}, {1, 0}};
const DotCase kBatch{{6}, 16, 8, 24, {0, 1, 2}, {0, 2, 1}, {0, 1, 2}};
const DotCase kLoop{{3, 4},       16,           16,          8,
                    {0, 2, 1, 3}, {0, 3, 1, 2}, {0, 2, 1, 3}};
INSTANTIATE_TEST_SUITE_P(
    Epilogues, CublasEpilogue,
    testing::Values(
        EpilogueCase{.dot = kRows, .bias = true},
        EpilogueCase{.dot = kRows, .accumulate = true},
        EpilogueCase{.dot = kRows, .relu = true},
        EpilogueCase{.dot = kRows, .alpha = 0.5F},
        EpilogueCase{.dot = kTurned, .bias = true, .relu = true},
        EpilogueCase{.dot = kOneRow, .bias = true, .accumulate = true},
        EpilogueCase{
            .dot = kColumns, .accumulate = true, .relu = true, .alpha = 0.5F},
        EpilogueCase{.dot = kBatch, .bias = true, .relu = true},
        EpilogueCase{.dot = kLoop,
                     .bias = true,
                     .accumulate = true,
                     .relu = true,
                     .alpha = -0.5F}));

TEST(MatrixProduct, RefusesEpiloguesThatTheLibraryLacks) {
  DotSpec spec{.lhs = view({8, 4}, {0, 1}),
               .rhs = view({4, 6}, {0, 1}),
               .out = view({8, 6}, {1, 0})};
  spec.bias.emplace();
  const auto apart = matrix_product(spec);
  ASSERT_FALSE(apart);
  EXPECT_EQ(apart.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(apart.error().message,
            "a dot with a bias along columns of stride 8");
  spec.out = view({8, 6}, {0, 1});
  spec.type = spec.result_type = PrimitiveType::kBF16;
  const auto half = matrix_product(spec);
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().message, "a dot of bf16 with an epilogue");
}

TEST(CublasLibrary, RefusesTypesByName) {
  const auto context = DeviceContext::open(0);
  const auto library = CublasLibrary::create((*context)->driver(), {});
  ASSERT_TRUE(library) << library.error().message;
  const auto call = (*library)->bind({.type = PrimitiveType::kS32,
                                      .lhs = view({2, 2}, {0, 1}),
                                      .rhs = view({2, 2}, {0, 1}),
                                      .out = view({2, 2}, {0, 1})},
                                     {});
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(call.error().message, "dot of s32 on a GPU");
}

}  // namespace
}  // namespace reprise

// A row-major matrix is its transpose in column-major order, so out = lhs · rhs
// becomes outᵀ = rhsᵀ · lhsᵀ where the output's rows are contiguous, and stays
// as it is where its columns are. Batch dimensions whose strides nest in all
// three matrices are merged into one.
#include "runtime/cuda/cublas_shape.h"

#include <algorithm>
#include <array>
#include <utility>

namespace reprise {
namespace {

/// One batch dimension, with the strides of lhs, rhs and output.
struct BatchDimension {
  int64_t size = 1;
  std::array<int64_t, 3> strides{};
};

std::vector<BatchDimension> batch_dimensions(const DotSpec& spec) {
  std::vector<BatchDimension> batch;
  for (size_t i = 0; i + 2 < spec.out.dimensions.size(); ++i) {
    if (spec.out.dimensions[i] == 1) continue;
    batch.push_back(
        {spec.out.dimensions[i],
         {spec.lhs.strides[i], spec.rhs.strides[i], spec.out.strides[i]}});
  }
  return batch;
}

bool nests(const BatchDimension& outer, const BatchDimension& inner) {
  for (size_t i = 0; i < 3; ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.size) return false;
  }
  return true;
}

// Joins any two dimensions that are one; their order does not matter.
void merge(std::vector<BatchDimension>& batch) {
  for (size_t outer = 0; outer < batch.size(); ++outer) {
    for (size_t inner = 0; inner < batch.size(); ++inner) {
      if (outer == inner || !nests(batch[outer], batch[inner])) continue;
      batch[inner].size *= batch[outer].size;
      batch.erase(batch.begin() + static_cast<ptrdiff_t>(outer));
      return merge(batch);
    }
  }
}

struct Matrix {
  int64_t rows = 1, columns = 1, row_stride = 1, column_stride = 1;
};

// Strides of extents of 1 are free; they are set to make the other one count.
Matrix matrix_of(const MatrixView& view) {
  const size_t n = view.dimensions.size();
  Matrix matrix{view.dimensions[n - 2], view.dimensions[n - 1],
                view.strides[n - 2], view.strides[n - 1]};
  if (matrix.columns == 1)
    matrix.column_stride = matrix.row_stride == 1 ? matrix.rows : 1;
  if (matrix.rows == 1)
    matrix.row_stride = matrix.column_stride == 1 ? matrix.columns : 1;
  return matrix;
}

Matrix transposed(const Matrix& matrix) {
  return {matrix.columns, matrix.rows, matrix.column_stride, matrix.row_stride};
}

Result<ColumnMajor> column_major(const Matrix& matrix) {
  if (matrix.row_stride == 1 && matrix.column_stride >= matrix.rows) {
    return ColumnMajor{.rows = matrix.rows,
                       .columns = matrix.columns,
                       .leading = matrix.column_stride};
  }
  if (matrix.column_stride == 1 && matrix.row_stride >= matrix.columns) {
    return ColumnMajor{.rows = matrix.columns,
                       .columns = matrix.rows,
                       .leading = matrix.row_stride,
                       .transposed = true};
  }
  return fail(ErrorKind::kUnsupported,
              "a dot's matrix of {} x {} with strides {} and {}", matrix.rows,
              matrix.columns, matrix.row_stride, matrix.column_stride);
}

// Offsets of all combinations of the dimensions given.
std::vector<MatrixOffsets> all_offsets(
    const std::vector<BatchDimension>& dimensions) {
  std::vector<MatrixOffsets> offsets(1);
  for (const BatchDimension& dimension : dimensions) {
    std::vector<MatrixOffsets> longer;
    for (const MatrixOffsets& at : offsets) {
      for (int64_t i = 0; i < dimension.size; ++i) {
        longer.push_back({at.a + i * dimension.strides[0],
                          at.b + i * dimension.strides[1],
                          at.out + i * dimension.strides[2]});
      }
    }
    offsets = std::move(longer);
  }
  return offsets;
}

// A library's bias runs along the rows of its column-major result, so along our
// columns where the transpose is computed.
Status check_epilogue(const DotSpec& spec, bool swapped) {
  if (spec.is_plain()) return {};
  if (spec.result_type != PrimitiveType::kF32) {
    return fail(ErrorKind::kUnsupported, "a dot of {} with an epilogue",
                primitive_type_name(spec.type));
  }
  if (spec.bias && !swapped) {
    return fail(ErrorKind::kUnsupported,
                "a dot with a bias along columns of stride {}",
                spec.out.strides.back());
  }
  return {};
}

}  // namespace

Result<MatrixProduct> matrix_product(const DotSpec& spec) {
  const Matrix out = matrix_of(spec.out);
  const bool swap = out.row_stride != 1;
  const Status runs = check_epilogue(spec, swap);
  if (!runs) return pass(runs.error());
  std::vector<BatchDimension> batch = batch_dimensions(spec);
  merge(batch);
  if (swap) {
    for (BatchDimension& dimension : batch)
      std::swap(dimension.strides[0], dimension.strides[1]);
  }
  MatrixProduct product;
  product.type = spec.type;
  product.result_type = spec.result_type;
  product.swapped = swap;
  product.alpha = spec.alpha;
  product.has_bias = spec.bias.has_value();
  product.has_accumulate = spec.accumulate.has_value();
  product.activation = spec.activation;
  const Matrix lhs = matrix_of(spec.lhs), rhs = matrix_of(spec.rhs);
  const Result<ColumnMajor> a = column_major(swap ? transposed(rhs) : lhs);
  if (!a) return pass(a.error());
  const Result<ColumnMajor> b = column_major(swap ? transposed(lhs) : rhs);
  if (!b) return pass(b.error());
  const Result<ColumnMajor> result = column_major(swap ? transposed(out) : out);
  if (!result) return pass(result.error());
  if (result->transposed) {
    return fail(ErrorKind::kUnsupported, "a dot's result of strides {} and {}",
                out.row_stride, out.column_stride);
  }
  product.a = *a;
  product.b = *b;
  product.out = *result;
  product.m = swap ? out.columns : out.rows;
  product.n = swap ? out.rows : out.columns;
  product.k = lhs.columns;
  const auto largest = std::max_element(
      batch.begin(), batch.end(),
      [](const auto& x, const auto& y) { return x.size < y.size; });
  if (largest != batch.end()) {
    product.batches = largest->size;
    product.a.batch_stride = largest->strides[0];
    product.b.batch_stride = largest->strides[1];
    product.out.batch_stride = largest->strides[2];
    batch.erase(largest);
  }
  product.offsets = all_offsets(batch);
  return product;
}

}  // namespace reprise

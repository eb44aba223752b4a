// Rows of matrices added and turned, in vectors of 4 elements where the machine
// has them; the bits are the same without.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "runtime/cpu/matrix_factorization.h"

namespace reprise {

/// to += factor * from; they do not overlap.
void add_row(double factor, const double* from, size_t count, double* to);

/// to += factors[0] * from, += factors[1] * (from + apart), and so on, in that
/// order.
void add_four_rows(const std::array<double, 4>& factors, const double* from,
                   size_t apart, size_t count, double* to);

/// to += factor(i) * row i of `from`, i from `first` to `last`, in that order;
/// elements from `column` on.
template <typename Factor>
void add_rows(const DenseMatrix& from, size_t first, size_t last,
              const Factor& factor, size_t column, size_t count, double* to) {
  size_t i = first;
  for (; i + 4 <= last; i += 4) {
    add_four_rows({factor(i), factor(i + 1), factor(i + 2), factor(i + 3)},
                  from.row(i) + column, from.columns, count, to);
  }
  for (; i < last; ++i) add_row(factor(i), from.row(i) + column, count, to);
}

/// x and y become c x - s y and s x + c y.
void turn_rows(double c, double s, size_t count, double* x, double* y);

/// Columns of `to` from `first` on, reflected by I - tau v v^T: v is 0 before
/// place k, 1 there, and then what stands in column k of `vectors`.
void reflect(const DenseMatrix& vectors, size_t k, double tau, size_t first,
             DenseMatrix* to);

DenseMatrix identity(size_t n);

/// Columns of `a` in another order.
DenseMatrix columns_in_order(const DenseMatrix& a,
                             const std::vector<size_t>& order);

}  // namespace reprise

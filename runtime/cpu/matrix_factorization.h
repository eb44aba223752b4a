// Dense linear algebra in f64, as LAPACK defines it, on small matrices: loops
// without blocks, cubic in the extents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise {

/// Row-major.
struct DenseMatrix {
  DenseMatrix() = default;
  DenseMatrix(size_t row_count, size_t column_count)
      : rows(row_count),
        columns(column_count),
        values(row_count * column_count) {}

  double& operator()(size_t row, size_t column) {
    return values[row * columns + column];
  }
  double operator()(size_t row, size_t column) const {
    return values[row * columns + column];
  }
  double* row(size_t at) { return values.data() + at * columns; }
  const double* row(size_t at) const { return values.data() + at * columns; }
  DenseMatrix transpose() const;

  size_t rows = 0, columns = 0;
  std::vector<double> values;
};

/// The lower factor l of a = l lᵀ, zero above its diagonal, from a's lower
/// triangle. Returns 0, or the number from 1 of the first pivot that is not
/// positive; the rest is then NaN.
int32_t factor_cholesky(DenseMatrix* a);

/// x of a x = b in place of b; `a` is triangular.
void solve_triangular(const DenseMatrix& a, bool lower, bool unit_diagonal,
                      DenseMatrix* b);

/// P a = l u with partial pivoting, in place (getrf). pivots[k]: the row, from
/// 1, that row k was exchanged with. Returns 0, or the number from 1 of the
/// first pivot that is zero.
int32_t factor_lu(DenseMatrix* a, std::vector<int32_t>* pivots);

/// Householder's reflectors below the diagonal, r above (geqrf); returns their
/// factors tau.
std::vector<double> factor_qr(DenseMatrix* a);

/// The first columns of the product of reflectors, in place (orgqr).
void householder_product(const std::vector<double>& tau, DenseMatrix* a);

/// Eigenvalues of a symmetric matrix, ascending; its columns become the
/// vectors, whose signs are free (symmetric_eigen.cc). All NaN where an element
/// is not finite.
std::vector<double> symmetric_eigen(DenseMatrix* a);

/// x of a x = b in place of b, of a tridiagonal `a` (gtsv): lower[i] stands
/// before the diagonal in row i, upper[i] behind it. The diagonals become those
/// of the upper factor, `lower` its second upper one, from element 1. Returns
/// 0, or the number from 1 of the first pivot that is zero.
int32_t solve_tridiagonal(std::vector<double>* lower,
                          std::vector<double>* diagonal,
                          std::vector<double>* upper, DenseMatrix* b);

struct SingularValues {
  DenseMatrix u, vt;
  std::vector<double> values;  ///< Descending.
};

/// a = u diag(values) vt, with as many columns of u and rows of vt as asked
/// for; signs are free. By one-sided rotations (Hestenes).
SingularValues singular_values(const DenseMatrix& a, size_t u_columns,
                               size_t vt_rows);

}  // namespace reprise

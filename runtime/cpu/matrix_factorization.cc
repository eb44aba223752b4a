// The textbook forms (Golub and Van Loan, Matrix Computations): pivots and
// signs of reflectors are LAPACK's, so that factors come out the same.
#include "runtime/cpu/matrix_factorization.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/cpu/matrix_rows.h"

namespace reprise {
namespace {

/// Sweeps of rotations: convergence is quadratic; ten are more than enough.
constexpr int kMostSweeps = 40;

/// Cosine and sine that annul the off-diagonal element of [[p, q], [q, r]].
std::pair<double, double> rotation(double p, double q, double r) {
  const double theta = (r - p) / (2 * q);
  const double t = std::copysign(1.0, theta) /
                   (std::fabs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1);
  return {c, t * c};
}

/// Columns p and q of `a` turned.
void rotate_columns(DenseMatrix* a, size_t p, size_t q, double c, double s) {
  for (size_t i = 0; i < a->rows; ++i) {
    const double x = (*a)(i, p), y = (*a)(i, q);
    (*a)(i, p) = c * x - s * y;
    (*a)(i, q) = s * x + c * y;
  }
}

double product_of_columns(const DenseMatrix& a, size_t p, size_t q) {
  double sum = 0;
  for (size_t i = 0; i < a.rows; ++i) sum += a(i, p) * a(i, q);
  return sum;
}

/// Makes column j a unit vector at right angles to those before it: what is
/// left of the axis that they hold least of.
void complete_column(DenseMatrix* u, size_t j) {
  for (size_t axis = 0; axis < u->rows; ++axis) {
    for (size_t i = 0; i < u->rows; ++i) (*u)(i, j) = i == axis ? 1 : 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t k = 0; k < j; ++k) {
        const double along = product_of_columns(*u, k, j);
        for (size_t i = 0; i < u->rows; ++i) (*u)(i, j) -= along * (*u)(i, k);
      }
    }
    const double norm = std::sqrt(product_of_columns(*u, j, j));
    if (norm * norm * static_cast<double>(u->rows) < 0.5) continue;
    for (size_t i = 0; i < u->rows; ++i) (*u)(i, j) /= norm;
    return;
  }
}

/// Columns of `work` and of `v` turned until those of `work` are at right
/// angles.
void orthogonalize(DenseMatrix* work, DenseMatrix* v) {
  const double small = std::numeric_limits<double>::epsilon();
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool turned = false;
    for (size_t p = 0; p + 1 < work->columns; ++p) {
      for (size_t q = p + 1; q < work->columns; ++q) {
        const double pp = product_of_columns(*work, p, p),
                     qq = product_of_columns(*work, q, q),
                     pq = product_of_columns(*work, p, q);
        if (!(std::fabs(pq) > small * std::sqrt(pp * qq))) continue;
        const auto [c, s] = rotation(pp, pq, qq);
        rotate_columns(work, p, q, c, s);
        rotate_columns(v, p, q, c, s);
        turned = true;
      }
    }
    if (!turned) return;
  }
}

/// Of a matrix with at least as many rows as columns.
SingularValues tall_singular_values(const DenseMatrix& a, size_t u_columns,
                                    size_t v_columns) {
  DenseMatrix work = a, v = identity(a.columns);
  orthogonalize(&work, &v);
  std::vector<double> norms(a.columns);
  for (size_t j = 0; j < a.columns; ++j)
    norms[j] = std::sqrt(product_of_columns(work, j, j));
  std::vector<size_t> order(a.columns);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return norms[x] > norms[y]; });
  SingularValues found;
  for (const size_t j : order) found.values.push_back(norms[j]);
  order.resize(std::min(v_columns, order.size()));
  found.vt = columns_in_order(v, order).transpose();
  found.u = DenseMatrix(a.rows, u_columns);
  const double least = found.values.empty()
                           ? 0
                           : found.values[0] *
                                 std::numeric_limits<double>::epsilon() *
                                 static_cast<double>(a.rows);
  for (size_t j = 0; j < u_columns; ++j) {
    if (j >= found.values.size() || found.values[j] <= least) {
      complete_column(&found.u, j);
      continue;
    }
    for (size_t i = 0; i < a.rows; ++i)
      found.u(i, j) = work(i, order[j]) / found.values[j];
  }
  return found;
}

}  // namespace

DenseMatrix DenseMatrix::transpose() const {
  DenseMatrix turned(columns, rows);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) turned(j, i) = (*this)(i, j);
  }
  return turned;
}

int32_t factor_cholesky(DenseMatrix* a) {
  DenseMatrix& l = *a;
  std::vector<double> column(l.rows);
  for (size_t j = 0; j < l.rows; ++j) {
    if (!(l(j, j) > 0)) {
      std::fill(l.values.begin(), l.values.end(),
                std::numeric_limits<double>::quiet_NaN());
      return static_cast<int32_t>(j) + 1;
    }
    l(j, j) = std::sqrt(l(j, j));
    for (size_t i = j + 1; i < l.rows; ++i) {
      column[i] = l(i, j) /= l(j, j);
      l(j, i) = 0;
      add_row(-column[i], &column[j + 1], i - j, l.row(i) + j + 1);
    }
  }
  return 0;
}

void solve_triangular(const DenseMatrix& a, bool lower, bool unit_diagonal,
                      DenseMatrix* b) {
  const size_t n = a.rows;
  for (size_t step = 0; step < n; ++step) {
    const size_t i = lower ? step : n - 1 - step;
    const size_t from = lower ? 0 : i + 1, to = lower ? i : n;
    double* const row = b->row(i);
    add_rows(
        *b, from, to, [&](size_t k) { return -a(i, k); }, 0, b->columns, row);
    if (unit_diagonal) continue;
    for (size_t c = 0; c < b->columns; ++c) row[c] /= a(i, i);
  }
}

int32_t factor_lu(DenseMatrix* a, std::vector<int32_t>* pivots) {
  DenseMatrix& m = *a;
  const size_t count = std::min(m.rows, m.columns);
  pivots->assign(count, 0);
  int32_t info = 0;
  for (size_t k = 0; k < count; ++k) {
    size_t best = k;
    for (size_t i = k + 1; i < m.rows; ++i) {
      if (std::fabs(m(i, k)) > std::fabs(m(best, k))) best = i;
    }
    (*pivots)[k] = static_cast<int32_t>(best) + 1;
    for (size_t j = 0; best != k && j < m.columns; ++j)
      std::swap(m(k, j), m(best, j));
    if (m(k, k) == 0) {
      if (info == 0) info = static_cast<int32_t>(k) + 1;
      continue;
    }
    for (size_t i = k + 1; i < m.rows; ++i) {
      m(i, k) /= m(k, k);
      add_row(-m(i, k), m.row(k) + k + 1, m.columns - k - 1, m.row(i) + k + 1);
    }
  }
  return info;
}

std::vector<double> factor_qr(DenseMatrix* a) {
  DenseMatrix& m = *a;
  std::vector<double> tau(std::min(m.rows, m.columns), 0.0);
  for (size_t k = 0; k < tau.size(); ++k) {
    double below = 0;
    for (size_t i = k + 1; i < m.rows; ++i) below += m(i, k) * m(i, k);
    if (below == 0) continue;  // H is the identity (larfg).
    const double alpha = m(k, k);
    const double beta = -std::copysign(std::sqrt(alpha * alpha + below), alpha);
    tau[k] = (beta - alpha) / beta;
    for (size_t i = k + 1; i < m.rows; ++i) m(i, k) /= alpha - beta;
    m(k, k) = beta;
    reflect(m, k, tau[k], k + 1, &m);
  }
  return tau;
}

void householder_product(const std::vector<double>& tau, DenseMatrix* a) {
  DenseMatrix q(a->rows, a->columns);
  for (size_t i = 0; i < std::min(q.rows, q.columns); ++i) q(i, i) = 1;
  for (size_t k = tau.size(); k-- > 0;) {
    reflect(*a, k, tau[k], 0, &q);
  }
  *a = std::move(q);
}

SingularValues singular_values(const DenseMatrix& a, size_t u_columns,
                               size_t vt_rows) {
  if (a.rows >= a.columns) return tall_singular_values(a, u_columns, vt_rows);
  SingularValues turned =
      tall_singular_values(a.transpose(), vt_rows, u_columns);
  return {.u = turned.vt.transpose(),
          .vt = turned.u.transpose(),
          .values = std::move(turned.values)};
}

int32_t solve_tridiagonal(std::vector<double>* lower,
                          std::vector<double>* diagonal,
                          std::vector<double>* upper, DenseMatrix* b) {
  std::vector<double>&d = *diagonal, &u = *upper;
  double* const l = lower->data() + 1;  // l[i] stands in row i + 1.
  const size_t n = d.size();
  for (size_t i = 0; i + 1 < n; ++i) {
    const bool has_next = i + 2 < n;
    const bool exchanges = std::fabs(l[i]) > std::fabs(d[i]);
    if (exchanges) {
      std::swap(d[i], l[i]);
      std::swap(u[i], d[i + 1]);
      for (size_t k = 0; k < b->columns; ++k)
        std::swap((*b)(i, k), (*b)(i + 1, k));
    }
    if (d[i] == 0) return static_cast<int32_t>(i + 1);
    const double factor = l[i] / d[i];
    d[i + 1] -= factor * u[i];
    for (size_t k = 0; k < b->columns; ++k)
      (*b)(i + 1, k) -= factor * (*b)(i, k);
    l[i] = 0;
    if (exchanges && has_next) {
      l[i] = u[i + 1];
      u[i + 1] *= -factor;
    }
  }
  if (n > 0 && d[n - 1] == 0) return static_cast<int32_t>(n);
  for (size_t i = n; i-- > 0;) {
    for (size_t k = 0; k < b->columns; ++k) {
      double& x = (*b)(i, k);
      if (i + 1 < n) x -= u[i] * (*b)(i + 1, k);
      if (i + 2 < n) x -= l[i] * (*b)(i + 2, k);
      x /= d[i];
    }
  }
  return 0;
}

}  // namespace reprise

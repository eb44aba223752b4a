// Eigenvalues of symmetric matrices: reflections make the matrix tridiagonal,
// and shifted QL steps diagonal, n^2 rotations of n elements. Jacobi's
// rotations, which came before, took eight times as long (64 x 64).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/cpu/matrix_factorization.h"
#include "runtime/cpu/matrix_rows.h"

namespace reprise {
namespace {

/// Steps for one eigenvalue: two are usual.
constexpr int kMostSteps = 60;

/// Householder's reduction (Golub and Van Loan, algorithm 8.3.1): the diagonal;
/// `off`: what stands beside it; `a` becomes the reflections' product, which
/// turns the tridiagonal matrix back.
std::vector<double> make_tridiagonal(DenseMatrix* a, std::vector<double>* off) {
  DenseMatrix& m = *a;
  const size_t n = m.rows;
  DenseMatrix reflections(n, n);
  std::vector<double> tau(n, 0.0), diagonal(n);
  for (size_t k = 0; k + 1 < n; ++k) {
    double below = 0;
    for (size_t i = k + 2; i < n; ++i) below += m(k, i) * m(k, i);
    (*off)[k] = m(k, k + 1);
    if (below == 0) continue;
    const double alpha = m(k, k + 1);
    const double beta = -std::copysign(std::sqrt(alpha * alpha + below), alpha);
    (*off)[k] = beta;
    tau[k] = (beta - alpha) / beta;
    std::vector<double> v(n, 0.0), w(n, 0.0);
    v[k + 1] = 1;
    for (size_t i = k + 2; i < n; ++i) v[i] = m(k, i) / (alpha - beta);
    for (size_t i = k + 1; i < n; ++i) reflections(i, k + 1) = v[i];
    add_rows(
        m, k + 1, n, [&](size_t i) { return tau[k] * v[i]; }, k + 1, n - k - 1,
        w.data() + k + 1);
    double along = 0;
    for (size_t i = k + 1; i < n; ++i) along += w[i] * v[i];
    add_row(-tau[k] / 2 * along, v.data(), n, w.data());
    for (size_t i = k + 1; i < n; ++i) {
      add_row(-v[i], w.data() + k + 1, n - k - 1, m.row(i) + k + 1);
      add_row(-w[i], v.data() + k + 1, n - k - 1, m.row(i) + k + 1);
    }
  }
  for (size_t i = 0; i < n; ++i) diagonal[i] = m(i, i);
  m = identity(n);
  for (size_t k = n; k-- > 1;) reflect(reflections, k, tau[k - 1], k, &m);
  return diagonal;
}

/// sqrt(x^2 + y^2), without the care of std::hypot where none is needed.
double length_of(double x, double y) {
  const double square = x * x + y * y;
  return square > 1e-280 && square < 1e280 ? std::sqrt(square)
                                           : std::hypot(x, y);
}

/// The least index from `l` on after which the matrix falls into two.
size_t end_of_block(const std::vector<double>& d, const std::vector<double>& e,
                    size_t l) {
  size_t m = l;
  while (m + 1 < d.size() &&
         !(std::fabs(e[m]) <= std::numeric_limits<double>::epsilon() *
                                  (std::fabs(d[m]) + std::fabs(d[m + 1]))))
    ++m;
  return m;
}

/// One step of QL with an implicit shift (Bowdler, Martin, Reinsch and
/// Wilkinson 1968, as in EISPACK's tql2) on rows l to m.
void shift_once(std::vector<double>* diagonal, std::vector<double>* off,
                size_t l, size_t m, DenseMatrix* vectors) {
  std::vector<double>&d = *diagonal, &e = *off;
  double g = (d[l + 1] - d[l]) / (2 * e[l]);
  g = d[m] - d[l] + e[l] / (g + std::copysign(length_of(g, 1), g));
  double s = 1, c = 1, p = 0;
  for (size_t i = m; i-- > l;) {
    const double f = s * e[i], b = c * e[i];
    const double r = length_of(f, g);
    e[i + 1] = r;
    if (r == 0) {
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    const double turned = (d[i] - g) * s + 2 * c * b;
    p = s * turned;
    d[i + 1] = g + p;
    g = c * turned - b;
    turn_rows(c, s, vectors->columns, vectors->row(i), vectors->row(i + 1));
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0;
}

/// The eigenvalues of a tridiagonal matrix in place of its diagonal; rows of
/// `vectors` are turned with it.
void diagonalize(std::vector<double>* diagonal, std::vector<double>* off,
                 DenseMatrix* vectors) {
  for (size_t l = 0; l < diagonal->size(); ++l) {
    for (int step = 0; step < kMostSteps; ++step) {
      const size_t m = end_of_block(*diagonal, *off, l);
      if (m == l) break;
      shift_once(diagonal, off, l, m, vectors);
    }
  }
}

}  // namespace

std::vector<double> symmetric_eigen(DenseMatrix* a) {
  const size_t n = a->rows;
  if (!std::ranges::all_of(a->values,
                           [](double x) { return std::isfinite(x); })) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    std::fill(a->values.begin(), a->values.end(), kNan);
    return std::vector<double>(n, kNan);
  }
  // Squares of elements neither vanish nor overflow.
  double most = 0;
  for (const double x : a->values) most = std::max(most, std::fabs(x));
  const bool is_far = most > 0 && (most < 1e-100 || most > 1e100);
  const double unit = is_far ? most : 1;
  for (double& x : a->values) x /= unit;
  std::vector<double> off(n, 0.0);
  std::vector<double> values = make_tridiagonal(a, &off);
  DenseMatrix vectors = a->transpose();
  diagonalize(&values, &off, &vectors);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return values[x] < values[y]; });
  *a = columns_in_order(vectors.transpose(), order);
  std::vector<double> sorted;
  sorted.reserve(n);
  for (const size_t i : order) sorted.push_back(values[i] * unit);
  return sorted;
}

}  // namespace reprise

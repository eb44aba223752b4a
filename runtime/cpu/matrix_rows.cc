#include "runtime/cpu/matrix_rows.h"

#include "runtime/cpu/wide_vectors.h"

namespace reprise {
namespace {

[[gnu::always_inline]] inline void add_each(double factor, const double* from,
                                            size_t count, double* to) {
  for (size_t i = 0; i < count; ++i) to[i] += factor * from[i];
}
REPRISE_WITH_AVX2 void add_in_fours(double factor, const double* from,
                                    size_t count, double* to) {
  add_each(factor, from, count, to);
}

[[gnu::always_inline]] inline void add_four_each(
    const std::array<double, 4>& factors, const double* from, size_t apart,
    size_t count, double* to) {
  const double *const a = from, *const b = a + apart, *const c = b + apart,
                      *const d = c + apart;
  const auto [f, g, h, k] = factors;
  for (size_t i = 0; i < count; ++i)
    to[i] = (((to[i] + f * a[i]) + g * b[i]) + h * c[i]) + k * d[i];
}
REPRISE_WITH_AVX2 void add_four_in_fours(const std::array<double, 4>& factors,
                                         const double* from, size_t apart,
                                         size_t count, double* to) {
  add_four_each(factors, from, apart, count, to);
}

[[gnu::always_inline]] inline void turn_each(double c, double s, size_t count,
                                             double* x, double* y) {
  for (size_t i = 0; i < count; ++i) {
    const double a = x[i], b = y[i];
    x[i] = c * a - s * b;
    y[i] = s * a + c * b;
  }
}
REPRISE_WITH_AVX2 void turn_in_fours(double c, double s, size_t count,
                                     double* x, double* y) {
  turn_each(c, s, count, x, y);
}

}  // namespace

void add_row(double factor, const double* from, size_t count, double* to) {
  if (has_avx2()) return add_in_fours(factor, from, count, to);
  add_each(factor, from, count, to);
}

void add_four_rows(const std::array<double, 4>& factors, const double* from,
                   size_t apart, size_t count, double* to) {
  if (has_avx2()) return add_four_in_fours(factors, from, apart, count, to);
  add_four_each(factors, from, apart, count, to);
}

void turn_rows(double c, double s, size_t count, double* x, double* y) {
  if (has_avx2()) return turn_in_fours(c, s, count, x, y);
  turn_each(c, s, count, x, y);
}

void reflect(const DenseMatrix& vectors, size_t k, double tau, size_t first,
             DenseMatrix* to) {
  if (first >= to->columns) return;
  const size_t count = to->columns - first;
  std::vector<double> sums(to->row(k) + first, to->row(k) + to->columns);
  add_rows(
      *to, k + 1, to->rows, [&](size_t i) { return vectors(i, k); }, first,
      count, sums.data());
  for (double& sum : sums) sum *= tau;
  add_row(-1, sums.data(), count, to->row(k) + first);
  for (size_t i = k + 1; i < to->rows; ++i)
    add_row(-vectors(i, k), sums.data(), count, to->row(i) + first);
}

DenseMatrix identity(size_t n) {
  DenseMatrix one(n, n);
  for (size_t i = 0; i < n; ++i) one(i, i) = 1;
  return one;
}

DenseMatrix columns_in_order(const DenseMatrix& a,
                             const std::vector<size_t>& order) {
  DenseMatrix sorted(a.rows, order.size());
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < order.size(); ++j) sorted(i, j) = a(i, order[j]);
  }
  return sorted;
}

}  // namespace reprise

#include "runtime/cpu/perturbed_solve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>
#include <vector>

namespace reprise {
namespace {

template <typename T>
using RealOf = decltype(std::real(T()));

template <typename T>
class PerturbedSolve {
 public:
  PerturbedSolve(size_t n, size_t columns, T* x)
      : n_(n), columns_(columns), x_(x), upper_(n), row_(columns) {}

  void run(const T* lower, const T* diagonal, const T* upper) {
    eliminate(lower, diagonal, upper);
    for (size_t k = n_; k-- > 0;) substitute(k);
  }

 private:
  using Real = RealOf<T>;
  using Limits = std::numeric_limits<Real>;

  T& x(size_t row, size_t column) { return x_[column * n_ + row]; }

  /// Rows k and k + 1, of which the first stays.
  void eliminate(const T* lower, const T* diagonal, const T* upper) {
    upper_[0] = {diagonal[0], n_ > 1 ? upper[0] : T(0), T(0)};
    note(upper_[0]);
    Real scale = size(upper_[0]);
    for (size_t k = 0; k + 1 < n_; ++k) {
      Row& own = upper_[k];
      const Row next = {lower[k + 1], diagonal[k + 1],
                        k + 2 < n_ ? upper[k + 1] : T(0)};
      const Real next_scale = size(next);
      const bool stays =
          next[0] == T(0) ||
          std::abs(next[0]) / next_scale <=
              (own[0] == T(0) ? Real(0) : std::abs(own[0]) / scale);
      const T factor = next[0] == T(0) ? T(0)
                       : stays         ? next[0] / own[0]
                                       : own[0] / next[0];
      const Row above = stays ? own : next, below = stays ? next : own;
      for (size_t c = 0; c < columns_; ++c) {
        if (!stays) std::swap(x(k, c), x(k + 1, c));
        x(k + 1, c) -= factor * x(k, c);
      }
      own = above;
      upper_[k + 1] = {below[1] - factor * above[1],
                       below[2] - factor * above[2], T(0)};
      scale = stays ? next_scale : size(upper_[k + 1]);
      if (k + 2 < n_) note(own);
    }
    largest_ = std::max(largest_, std::abs(upper_[n_ - 1][0]));
  }

  void substitute(size_t k) {
    for (size_t c = 0; c < columns_; ++c) {
      row_[c] = x(k, c);
      if (k + 1 < n_) row_[c] -= upper_[k][1] * x(k + 1, c);
      if (k + 2 < n_) row_[c] -= upper_[k][2] * x(k + 2, c);
    }
    const T inverse = T(1) / usable_pivot(upper_[k][0]);
    for (size_t c = 0; c < columns_; ++c) x(k, c) = row_[c] * inverse;
  }

  /// By which neither row_ nor 1 overflows when divided; may scale row_ with
  /// it.
  T usable_pivot(T pivot) {
    constexpr Real kSmall = Limits::min(), kLarge = 1 / kSmall;
    Real step = std::copysign(std::max(Limits::epsilon() * largest_, kSmall),
                              std::real(pivot));
    Real most = 0;
    for (const T& value : row_) most = std::max(most, std::abs(value));
    for (Real now = std::abs(pivot); now < 1; now = std::abs(pivot)) {
      const bool is_tiny = now < kSmall;
      if (is_tiny && now != 0 && most * kSmall <= now) {
        for (T& value : row_) value *= kLarge;
        return pivot * kLarge;
      }
      if (!is_tiny && most <= now * kLarge) break;
      pivot += step;
      step *= 2;
    }
    return pivot;
  }

  using Row = std::array<T, 3>;

  static Real size(const Row& row) {
    return std::abs(row[0]) + std::abs(row[1]) + std::abs(row[2]);
  }
  void note(const Row& row) {
    for (const T& value : row) largest_ = std::max(largest_, std::abs(value));
  }

  size_t n_, columns_;
  T* x_;
  std::vector<Row> upper_;  ///< [row] the diagonal's element and two beside it.
  std::vector<T> row_;
  Real largest_ = 0;
};

}  // namespace

template <typename T>
void perturbed_solve(size_t n, size_t columns, const T* lower,
                     const T* diagonal, const T* upper, T* b) {
  PerturbedSolve<T>(n, columns, b).run(lower, diagonal, upper);
}

template void perturbed_solve(size_t, size_t, const float*, const float*,
                              const float*, float*);
template void perturbed_solve(size_t, size_t, const double*, const double*,
                              const double*, double*);
template void perturbed_solve(size_t, size_t, const std::complex<float>*,
                              const std::complex<float>*,
                              const std::complex<float>*, std::complex<float>*);
template void perturbed_solve(size_t, size_t, const std::complex<double>*,
                              const std::complex<double>*,
                              const std::complex<double>*,
                              std::complex<double>*);

}  // namespace reprise

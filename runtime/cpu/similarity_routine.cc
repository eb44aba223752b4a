// What JAX's own calls do around LAPACK's is here too: matrices that are not
// finite, eigenvectors of conjugate pairs.
#include "runtime/cpu/similarity_routine.h"

#include <algorithm>
#include <complex>

#include "runtime/cpu/lapack.h"
#include "runtime/cpu/matrix_elements.h"

namespace reprise {
namespace {

/// What jaxlib says of a matrix that it does not give to geev.
constexpr int32_t kNotFinite = -4;

template <typename T>
class SimilarityRoutine final : public Routine {
 public:
  explicit SimilarityRoutine(const MatrixCall& call)
      : arrays_(call),
        operation_(call.operation()),
        n_(call.operand_extents(0).rows) {}

  bool run() override {
    for (size_t m = 0; m < arrays_.call().matrices(); ++m) {
      arrays_.load(0, m, &a_);
      compute(m);
    }
    return true;
  }

 private:
  using Real = lapack::Real<T>;
  using Complex = std::complex<Real>;

  void compute(size_t matrix) {
    switch (operation_.kind) {
      case MatrixKind::kSymmetricEigen:
        return symmetric_eigen(matrix);
      case MatrixKind::kEigen:
        return eigen(matrix);
      case MatrixKind::kSchur:
        return schur(matrix);
      case MatrixKind::kHessenberg:
        return hessenberg(matrix);
      default:
        return tridiagonal(matrix);
    }
  }

  /// All NaN where an element is not finite: divide and conquer may not end.
  void symmetric_eigen(size_t matrix) {
    const bool lower = operation_.lower;
    diagonal_.assign(n_, not_a_number<Real>());
    int32_t info = 0;
    if (is_finite(lower ? Read::kLower : Read::kUpper, n_, a_)) {
      info = lapack::syevd(operation_.vectors, lower, fortran(n_), a_.data(),
                           diagonal_.data(), &space_);
    } else {
      std::ranges::fill(a_, not_a_number<T>());
    }
    arrays_.store(a_, 0, matrix);
    arrays_.store(diagonal_, 1, matrix);
    arrays_.put_integers(2, matrix, {&info, 1});
  }

  void eigen(size_t matrix) {
    values_.assign(n_, not_a_number<Complex>());
    left_.assign(n_ * n_, T(0));
    right_.assign(n_ * n_, T(0));
    int32_t info = kNotFinite;
    if (is_finite(Read::kWhole, n_, a_)) {
      info =
          lapack::geev(fortran(n_), a_.data(), values_.data(),
                       operation_.left_vectors ? left_.data() : nullptr,
                       operation_.vectors ? right_.data() : nullptr, &space_);
    }
    const size_t first = operation_.packed_vectors ? 1 : 0;
    arrays_.store(values_, first, matrix);
    store_vectors(left_, first + 1, matrix);
    store_vectors(right_, first + 2, matrix);
    arrays_.put_integers(first + 3, matrix, {&info, 1});
  }

  void store_vectors(const lapack::Array<T>& vectors, size_t result,
                     size_t matrix) {
    if constexpr (!lapack::kIsComplex<T>) {
      if (!operation_.packed_vectors) {
        unpack(vectors);
        return arrays_.store(unpacked_, result, matrix);
      }
    }
    arrays_.store(vectors, result, matrix);
  }

  /// Of a conjugate pair's two columns, real and imaginary part of its first
  /// vector.
  void unpack(const lapack::Array<Real>& vectors) {
    unpacked_.resize(vectors.size());
    for (size_t column = 0; column < n_; ++column) {
      const Real* real = &vectors[column * n_];
      Complex* to = &unpacked_[column * n_];
      const bool is_pair = values_[column].imag() != 0 && column + 1 < n_;
      for (size_t i = 0; i < n_; ++i) {
        to[i] = {real[i], is_pair ? real[n_ + i] : Real(0)};
        if (is_pair) to[n_ + i] = std::conj(to[i]);
      }
      if (is_pair) ++column;
    }
  }

  void schur(size_t matrix) {
    values_.resize(n_);
    right_.assign(n_ * n_, T(0));
    const int32_t info =
        lapack::gees(fortran(n_), a_.data(), values_.data(),
                     operation_.vectors ? right_.data() : nullptr, &space_);
    const int32_t sorted = 0;
    arrays_.store(a_, 0, matrix);
    arrays_.store(right_, 1, matrix);
    arrays_.store(values_, 2, matrix);
    arrays_.put_integers(3, matrix, {&sorted, 1});
    arrays_.put_integers(4, matrix, {&info, 1});
  }

  void hessenberg(size_t matrix) {
    factors_.resize(n_ - 1);
    const int32_t info =
        lapack::gehrd(fortran(n_), operation_.low, operation_.high, a_.data(),
                      factors_.data(), &space_);
    arrays_.store(a_, 0, matrix);
    arrays_.store(factors_, 1, matrix);
    arrays_.put_integers(2, matrix, {&info, 1});
  }

  void tridiagonal(size_t matrix) {
    diagonal_.resize(n_);
    beside_.resize(n_ - 1);
    factors_.resize(n_ - 1);
    const int32_t info = lapack::sytrd(operation_.lower, fortran(n_), a_.data(),
                                       diagonal_.data(), beside_.data(),
                                       factors_.data(), &space_);
    arrays_.store(a_, 0, matrix);
    arrays_.store(diagonal_, 1, matrix);
    arrays_.store(beside_, 2, matrix);
    arrays_.store(factors_, 3, matrix);
    arrays_.put_integers(4, matrix, {&info, 1});
  }

  const MatrixElements<T> arrays_;
  const MatrixOperation operation_;
  const size_t n_;
  lapack::Array<T> a_, left_, right_, factors_;
  lapack::Array<Real> diagonal_, beside_;
  lapack::Array<Complex> values_, unpacked_;
  lapack::Workspace<T> space_;
};

}  // namespace

std::unique_ptr<Routine> make_similarity_routine(const MatrixCall& call) {
  return matrix_routine_of_type<SimilarityRoutine>(call);
}

}  // namespace reprise

// What a routine on matrices reads and writes of its arrays, as LAPACK takes
// numbers: column-major, complex ones whole.
#pragma once

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <memory>

#include "runtime/cpu/lapack.h"
#include "runtime/cpu/matrix_call.h"

namespace reprise {

/// The triangle of an n by n matrix that is read, or all of it.
enum class Read : uint8_t { kLower, kUpper, kWhole };

template <typename T>
bool is_finite(const T& value) {
  return std::isfinite(std::real(value)) && std::isfinite(std::imag(value));
}

template <typename T>
bool is_finite(Read read, size_t rows, const lapack::Array<T>& column_major) {
  for (size_t i = 0; i < column_major.size(); ++i) {
    const size_t row = i % rows, column = i / rows;
    if (read == Read::kLower ? row < column
                             : read == Read::kUpper && row > column)
      continue;
    if (!is_finite(column_major[i])) return false;
  }
  return true;
}

template <typename T>
constexpr T not_a_number() {
  constexpr lapack::Real<T> kNaN =
      std::numeric_limits<lapack::Real<T>>::quiet_NaN();
  if constexpr (lapack::kIsComplex<T>) {
    return {kNaN, kNaN};
  } else {
    return kNaN;
  }
}

/// Extents in the integers of LAPACK. MatrixCall holds them to these.
inline int32_t fortran(size_t extent) { return static_cast<int32_t>(extent); }

/// T: of the numbers of a matrix, float or double, real or complex.
template <typename T>
class MatrixElements {
 public:
  template <typename Number>
  using Real = lapack::Real<Number>;

  explicit MatrixElements(const MatrixCall& call) : call_(call) {}

  [[nodiscard]] const MatrixCall& call() const { return call_; }

  /// Numbers of one matrix of an operand.
  struct Source {
    const Real<T>*real, *imaginary;

    T operator[](size_t place) const {
      if constexpr (lapack::kIsComplex<T>) {
        return {real[place], imaginary[place]};
      } else {
        return real[place];
      }
    }
  };
  [[nodiscard]] Source source(size_t operand, size_t matrix) const {
    const size_t from = matrix * call_.operand_extents(operand).elements();
    Source found{call_.operand<Real<T>>(operand) + from, nullptr};
    if constexpr (lapack::kIsComplex<T>)
      found.imaginary = call_.operand<Real<T>>(operand, 1) + from;
    return found;
  }

  /// Those of a result: a part may have no reader, and then is null.
  template <typename Number>
  struct Target {
    Real<T>*real, *imaginary;

    void put(size_t place, const Number& value) const {
      if (real != nullptr) real[place] = std::real(value);
      if (imaginary != nullptr) imaginary[place] = std::imag(value);
    }
  };
  template <typename Number>
  Target<Number> target(size_t result, size_t matrix) const {
    const size_t from = matrix * call_.result_extents(result).elements();
    Target<Number> found{call_.result<Real<T>>(result), nullptr};
    if (found.real != nullptr) found.real += from;
    if constexpr (lapack::kIsComplex<Number>) {
      found.imaginary = call_.result<Real<T>>(result, 1);
      if (found.imaginary != nullptr) found.imaginary += from;
    }
    return found;
  }

  /// A matrix of an operand, column-major.
  void load(size_t operand, size_t matrix, lapack::Array<T>* to) const {
    const MatrixExtents extents = call_.operand_extents(operand);
    const Source from = source(operand, matrix);
    to->resize(extents.elements());
    for (size_t column = 0; column < extents.columns; ++column) {
      for (size_t row = 0; row < extents.rows; ++row)
        (*to)[column * extents.rows + row] =
            from[row * extents.columns + column];
    }
  }

  template <typename Number>
  void store(const lapack::Array<Number>& from, size_t result,
             size_t matrix) const {
    if (call_.is_dropped(result)) return;
    const MatrixExtents extents = call_.result_extents(result);
    const auto to = target<Number>(result, matrix);
    for (size_t row = 0; row < extents.rows; ++row) {
      for (size_t column = 0; column < extents.columns; ++column)
        to.put(row * extents.columns + column,
               from[column * extents.rows + row]);
    }
  }

  /// One matrix's s32 of an operand.
  void get_integers(size_t operand, size_t matrix,
                    lapack::Array<int32_t>* to) const {
    to->resize(call_.operand_extents(operand).elements());
    std::memcpy(to->data(),
                call_.operand<int32_t>(operand) + matrix * to->size(),
                to->size() * sizeof(int32_t));
  }

  void put_integers(size_t result, size_t matrix,
                    std::span<const int32_t> values) const {
    if (call_.is_dropped(result)) return;
    std::memcpy(call_.result<int32_t>(result) + matrix * values.size(),
                values.data(), values.size_bytes());
  }

 private:
  MatrixCall call_;
};

/// The routine of a class for the type of a call's numbers.
template <template <typename> class OfType>
std::unique_ptr<Routine> matrix_routine_of_type(const MatrixCall& call) {
  const bool is_single = call.type() == PrimitiveType::kF32;
  if (call.operation().complex) {
    if (is_single) return std::make_unique<OfType<std::complex<float>>>(call);
    return std::make_unique<OfType<std::complex<double>>>(call);
  }
  if (is_single) return std::make_unique<OfType<float>>(call);
  return std::make_unique<OfType<double>>(call);
}

}  // namespace reprise

// One dimension of a transform: lines of an array gathered, transformed, and
// scattered into another, several at once.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/cpu/fourier.h"

namespace reprise {

enum class FourierKind { kForward, kBackward, kFromReal, kToReal };

/// The parts of an array; null where it has none or nobody reads it.
template <typename T>
struct ComplexArray {
  T *re = nullptr, *im = nullptr;
};

/// T: float or double, of arrays and lines alike, as XLA computes them. Real
/// lines of even length are transformed as complex ones of half of it, even
/// elements as real parts and odd ones as imaginary parts (source: Press et
/// al., Numerical Recipes, 12.3). Read only once built.
template <typename T>
class FourierLines {
 public:
  /// `kind` of this dimension: kForward or kBackward for the others of a
  /// transform from or to real arrays. `outer` and `inner`: lines around it.
  FourierLines(FourierKind kind, size_t length, size_t outer, size_t inner);

  /// Which lines are transformed together, a block after the other.
  size_t blocks() const { return (lines_ + at_once_ - 1) / at_once_; }
  /// Elements of scratch memory for one block.
  size_t scratch_elements() const;
  size_t length() const { return length_; }
  /// Operations of all lines, as FFTs are counted: 5 N log2 N, half of it for
  /// real lines.
  double flops() const;

  /// Transforms block `block` of `from` into `to`, times `scale`. Blocks write
  /// elements of their own.
  void run(size_t block, ComplexArray<T> from, ComplexArray<T> to, T scale,
           T* scratch) const;

 private:
  bool is_half() const { return !turns_.empty(); }
  void read(size_t first, size_t lines, ComplexArray<T> from, T* re,
            T* im) const;
  void write(size_t first, size_t lines, T* re, T* im, T scale,
             ComplexArray<T> to) const;
  template <typename Change>
  void each_pair(size_t lines, T* re, T* im, const Change& change) const;
  void split_halves(size_t lines, T* re, T* im) const;
  void join_halves(size_t lines, T* re, T* im) const;
  void mirror(size_t lines, T* re, T* im) const;

  FourierKind kind_;
  size_t length_, inner_, lines_;
  size_t spectrum_;  ///< Elements of a line's complex side.
  FourierPlan<T> plan_;
  std::vector<Twiddle<T>> turns_;  ///< [k] exp(-2 pi i k / N), k to N / 4.
  size_t at_once_;
};

extern template class FourierLines<float>;
extern template class FourierLines<double>;

}  // namespace reprise

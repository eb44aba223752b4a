// The discrete Fourier transform of any length.
//
// Our own, because of Debian's libraries FFTW and GSL are GPL, which
// reprise-train must not link, and KISS FFT is of f32 alone and takes N p steps
// for a prime factor p.
#pragma once

#include <cstddef>
#include <vector>

namespace reprise {

/// A factor on the unit circle.
template <typename T>
struct Twiddle {
  T re = 1, im = 0;
};

/// exp(-2 pi i j / length).
template <typename T>
Twiddle<T> root_of_unity(size_t j, size_t length);

/// Elements between arrays that are used together, so that they do not lie a
/// multiple of 4096 bytes apart: loads of one would wait for stores to another.
template <typename T>
constexpr size_t kFourierApart = 320 / sizeof(T);

/// Tables of one length, for lines of T: float or double. Mixed radix, in order
/// without a permutation (Stockham; source: P. N. Swarztrauber, FFT algorithms
/// for vector computers, 1984); lengths with a prime factor over kMostRadix by
/// a convolution of a convenient one (source: L. I. Bluestein, 1970). Read only
/// once built.
template <typename T>
class FourierPlan {
 public:
  static constexpr size_t kMostRadix = 31;

  /// Requires: length > 0.
  explicit FourierPlan(size_t length);

  size_t length() const { return length_; }
  /// Elements of `work` for so many lines.
  size_t work_elements(size_t lines) const;

  /// Transforms `lines` lines at once, in place: element j of line l lies at
  /// `re[j * lines + l]`. Forward: X[k] = sum of x[j] exp(-2 pi i j k / N). The
  /// backward one, not scaled, is that with `re` and `im` exchanged. The bits
  /// of a line may depend on its place among the lines: on whether a vector
  /// takes it. Cost: O(N log N) a line.
  void run(T* re, T* im, size_t lines, T* work) const;

  /// One pass over all elements, a radix of the length.
  struct Stage {
    size_t radix = 1;
    size_t groups = 1;  ///< Of what is left to transform, a radix each.
    /// [group][output] exp(-2 pi i group output / (radix groups)).
    std::vector<Twiddle<T>> twiddles;
    std::vector<Twiddle<T>> roots;  ///< [j] exp(-2 pi i j / radix).
  };

 private:
  void build_stages();
  void build_convolution();
  void convolve(T* re, T* im, size_t lines, T* work) const;

  size_t length_;
  std::vector<Stage> stages_;
  /// Where the length has a large prime factor.
  std::vector<FourierPlan> inner_;       ///< One, the convolution's.
  std::vector<Twiddle<T>> chirp_;        ///< [j] exp(-pi i j^2 / N).
  std::vector<Twiddle<T>> transformed_;  ///< Of the chirp's inverse, scaled.
};

extern template class FourierPlan<float>;
extern template class FourierPlan<double>;

}  // namespace reprise

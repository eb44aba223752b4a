// The discrete Fourier transform of any length.
//
// Our own, because of Debian's libraries FFTW and GSL are GPL, which
// reprise-train must not link, and KISS FFT is of f32 alone and takes N p steps
// for a prime factor p. Computed in f64 whatever the arrays hold: so that of
// f32 is exact to its last bits.
#pragma once

#include <cstddef>
#include <vector>

namespace reprise {

/// Tables of one length. Mixed radix, in order without a permutation (Stockham;
/// source: P. N. Swarztrauber, FFT algorithms for vector computers, 1984);
/// lengths with a prime factor over kMostRadix by a convolution of a power of
/// two (source: L. I. Bluestein, 1970). Read only once built.
class FourierPlan {
 public:
  static constexpr size_t kMostRadix = 31;

  /// Requires: length > 0.
  explicit FourierPlan(size_t length);

  /// f64 elements of `work` for each line.
  [[nodiscard]] size_t work_elements() const;

  /// Transforms `lines` lines at once, in place: element j of line l lies at
  /// `re[j * lines + l]`. Forward: X[k] = sum of x[j] exp(-2 pi i j k / N). The
  /// backward one, not scaled, is that with `re` and `im` exchanged.
  /// Cost: O(N log N) a line.
  void run(double* re, double* im, size_t lines, double* work) const;

 private:
  struct Twiddle {
    double re = 1, im = 0;
  };
  struct Stage {
    size_t radix = 1;
    size_t groups = 1;  ///< Of what is left to transform, a radix each.
    /// [group][output] exp(-2 pi i group output / (radix groups)).
    std::vector<Twiddle> twiddles;
    std::vector<Twiddle> roots;  ///< [j] exp(-2 pi i j / radix).
  };

  static Twiddle root(size_t j, size_t length);
  void build_stages();
  void build_convolution();
  static void run_stage(const Stage& stage, size_t stride, const double* re,
                        const double* im, double* to_re, double* to_im);
  static void run_quarters(const Stage& stage, size_t stride, const double* re,
                           const double* im, double* to_re, double* to_im);
  void run_stages(double* re, double* im, size_t lines, double* work) const;
  void convolve(double* re, double* im, size_t lines, double* work) const;

  size_t length_;
  std::vector<Stage> stages_;
  /// Where the length has a large prime factor.
  std::vector<FourierPlan> power_;    ///< One, of a power of two.
  std::vector<Twiddle> chirp_;        ///< [j] exp(-pi i j^2 / N).
  std::vector<Twiddle> transformed_;  ///< Of the chirp's inverse, scaled.
};

}  // namespace reprise

// Every kind, length and place of a dimension against sums of 2 pi i j k / N.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <vector>

#include "runtime/cpu/fourier_lines.h"

namespace reprise {
namespace {

using Line = std::vector<std::complex<double>>;

/// Lengths with every radix, with a prime over the largest, odd and even.
constexpr size_t kLengths[] = {
    1,  2,  3,  4,   5,   6,   7,   8,    9,    12,   15,   16,
    18, 22, 30, 31,  35,  37,  48,  62,   64,   74,   81,   96,
    97, 98, 99, 100, 128, 210, 256, 1000, 1021, 1024, 2042, 4096};

Line transformed(const Line& line, double sign) {
  const size_t length = line.size();
  Line roots(length), sums(length);
  for (size_t j = 0; j < length; ++j) {
    const double turns = static_cast<double>(j) / static_cast<double>(length);
    roots[j] = std::polar(1.0, sign * 2 * std::numbers::pi * turns);
  }
  for (size_t k = 0; k < length; ++k) {
    double re = 0, im = 0;
    for (size_t j = 0, turn = 0; j < length; ++j) {
      const std::complex<double> root = roots[turn], x = line[j];
      re += x.real() * root.real() - x.imag() * root.imag();
      im += x.real() * root.imag() + x.imag() * root.real();
      turn += k;
      if (turn >= length) turn -= length;
    }
    sums[k] = {re, im};
  }
  return sums;
}

/// An array [outer, length, inner] of a transform's input and output.
template <typename T>
struct Transform {
  FourierKind kind;
  size_t length, outer, inner;
  size_t in, out;  ///< Elements of a line.
  std::vector<T> re, im, to_re, to_im;

  Transform(FourierKind of, size_t n, size_t before, size_t after,
            unsigned seed)
      : kind(of),
        length(n),
        outer(before),
        inner(after),
        in(of == FourierKind::kToReal ? n / 2 + 1 : n),
        out(of == FourierKind::kFromReal ? n / 2 + 1 : n),
        re(outer * in * inner),
        im(re.size()),
        to_re(outer * out * inner, T{-7}),
        to_im(to_re) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (T& value : re) value = static_cast<T>(normal(random));
    for (T& value : im) value = static_cast<T>(normal(random));
  }

  void run(T scale) {
    const FourierLines<T> lines(kind, length, outer, inner);
    std::vector<T> scratch(lines.scratch_elements());
    const bool from_real = kind == FourierKind::kFromReal;
    const bool to_real = kind == FourierKind::kToReal;
    for (size_t block = 0; block < lines.blocks(); ++block) {
      lines.run(block, {re.data(), from_real ? nullptr : im.data()},
                {to_re.data(), to_real ? nullptr : to_im.data()}, scale,
                scratch.data());
    }
  }

  Line input(size_t line) const {
    Line values(length);
    for (size_t j = 0; j < in; ++j) {
      const size_t at = line / inner * in * inner + j * inner + line % inner;
      const bool is_real =
          kind == FourierKind::kFromReal ||
          (kind == FourierKind::kToReal && (j == 0 || 2 * j == length));
      values[j] = {re[at], is_real ? 0.0 : static_cast<double>(im[at])};
      if (kind == FourierKind::kToReal && j > 0)
        values[length - j] = std::conj(values[j]);
    }
    return values;
  }

  /// The worst difference of all lines, in shares of the root of the length.
  double error(T scale) const {
    const bool is_backward =
        kind == FourierKind::kBackward || kind == FourierKind::kToReal;
    double worst = 0;
    for (size_t line = 0; line < outer * inner; ++line) {
      const Line sums = transformed(input(line), is_backward ? 1 : -1);
      for (size_t j = 0; j < out; ++j) {
        const size_t at = line / inner * out * inner + j * inner + line % inner;
        const auto expected = sums[j] * static_cast<double>(scale);
        const bool is_real = kind == FourierKind::kToReal;
        const std::complex<double> got(
            to_re[at], is_real ? 0.0 : static_cast<double>(to_im[at]));
        worst = std::max(worst, std::abs(got - expected));
      }
    }
    return worst / std::sqrt(static_cast<double>(length));
  }
};

template <typename T>
void expect_sums(double tolerance) {
  unsigned seed = 0;
  for (const size_t length : kLengths) {
    const bool is_long = length > 300;
    for (const FourierKind kind :
         {FourierKind::kForward, FourierKind::kBackward, FourierKind::kFromReal,
          FourierKind::kToReal}) {
      const bool is_innermost =
          kind == FourierKind::kFromReal || kind == FourierKind::kToReal;
      for (const size_t outer : {1U, is_long ? 2U : 41U}) {
        for (const size_t inner : {1U, 5U, 33U}) {
          if (inner > 1 && (is_innermost || is_long)) continue;
          Transform<T> made(kind, length, outer, inner, ++seed);
          made.run(T{0.5});
          EXPECT_LT(made.error(T{0.5}), tolerance)
              << length << " kind " << static_cast<int>(kind) << " in ["
              << outer << ", " << length << ", " << inner << "]";
        }
      }
    }
  }
}

TEST(Fourier, OfF32IsTheSums) { expect_sums<float>(2e-6); }

TEST(Fourier, OfF64IsTheSums) { expect_sums<double>(1e-12); }

// A line of small numbers beside one of large ones, as rows of a batch are.
TEST(Fourier, LinesDoNotDisturbEachOther) {
  Transform<float> made(FourierKind::kFromReal, 64, 2, 1, 1);
  std::vector<float> alone = made.re;
  for (size_t j = 0; j < 64; ++j) made.re[j] *= 1e8F;
  made.run(1);
  const std::vector<float> beside_large = made.to_re;
  made.re = alone;
  made.run(1);
  for (size_t k = 0; k < made.out; ++k)
    EXPECT_EQ(beside_large[made.out + k], made.to_re[made.out + k]) << k;
}

}  // namespace
}  // namespace reprise

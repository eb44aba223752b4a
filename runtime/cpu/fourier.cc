// A stage of radix r takes, of m groups, elements p, p + m, p + 2 m … and
// writes r outputs side by side, each turned by its twiddle; `stride` elements
// that are treated alike, lines among them, lie innermost, so that the inner
// loops run over neighbours.
#include "runtime/cpu/fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace reprise {
namespace {

size_t power_of_two_from(size_t least) {
  size_t power = 1;
  while (power < least) power *= 2;
  return power;
}

/// The radices of a length, the large ones first; empty where one is too large.
std::vector<size_t> radices_of(size_t length) {
  std::vector<size_t> radices;
  for (size_t radix = 3; radix <= FourierPlan::kMostRadix; radix += 2) {
    for (; length % radix == 0; length /= radix) radices.push_back(radix);
  }
  std::reverse(radices.begin(), radices.end());
  for (; length % 4 == 0; length /= 4) radices.push_back(4);
  for (; length % 2 == 0; length /= 2) radices.push_back(2);
  if (length > 1) radices.clear();
  return radices;
}

}  // namespace

/// Of an eighth of the circle, turned to where it belongs: exact at quarters.
FourierPlan::Twiddle FourierPlan::root(size_t j, size_t length) {
  const size_t eighths = 8 * (j % length) / length;
  const auto turn = [&](size_t quarters) {
    // The angle beyond so many quarters, negative before them.
    const double apart = 4.0 * static_cast<double>(j % length) -
                         static_cast<double>(quarters * length);
    return apart / static_cast<double>(length) * std::numbers::pi / 2;
  };
  const size_t quarters = (eighths + 1) / 2;
  const double angle = turn(quarters);
  const double cosine = std::cos(angle), sine = std::sin(angle);
  switch (quarters % 4) {
    case 0:
      return {cosine, -sine};
    case 1:
      return {-sine, -cosine};
    case 2:
      return {-cosine, sine};
    default:
      return {sine, cosine};
  }
}

FourierPlan::FourierPlan(size_t length) : length_(length) {
  build_stages();
  if (stages_.empty() && length > 1) build_convolution();
}

void FourierPlan::build_stages() {
  size_t left = length_;
  for (const size_t radix : radices_of(length_)) {
    Stage& stage = stages_.emplace_back();
    stage.radix = radix;
    stage.groups = left / radix;
    for (size_t group = 0; group < stage.groups; ++group) {
      for (size_t k = 0; k < radix; ++k)
        stage.twiddles.push_back(root(group * k, left));
    }
    for (size_t j = 0; j < radix; ++j) stage.roots.push_back(root(j, radix));
    left = stage.groups;
  }
}

void FourierPlan::build_convolution() {
  const size_t power = power_of_two_from(2 * length_ - 1);
  power_.emplace_back(power);
  std::vector<double> re(power), im(power), work(power_[0].work_elements());
  for (size_t j = 0; j < length_; ++j) {
    const Twiddle turned = root(j * j % (2 * length_), 2 * length_);
    chirp_.push_back(turned);
    for (const size_t place : {j, (power - j) % power}) {
      re[place] = turned.re;
      im[place] = -turned.im;
    }
  }
  power_[0].run(re.data(), im.data(), 1, work.data());
  const auto scale = static_cast<double>(power);
  for (size_t k = 0; k < power; ++k)
    transformed_.push_back({re[k] / scale, im[k] / scale});
}

size_t FourierPlan::work_elements() const {
  if (power_.empty()) return 2 * length_;
  const FourierPlan& power = power_[0];
  return 2 * power.length_ + power.work_elements();
}

void FourierPlan::run(double* re, double* im, size_t lines,
                      double* work) const {
  if (power_.empty()) return run_stages(re, im, lines, work);
  convolve(re, im, lines, work);
}

void FourierPlan::run_stages(double* re, double* im, size_t lines,
                             double* work) const {
  double* from[] = {re, im};
  double* to[] = {work, work + length_ * lines};
  size_t stride = lines;
  for (const Stage& stage : stages_) {
    run_stage(stage, stride, from[0], from[1], to[0], to[1]);
    std::swap(from, to);
    stride *= stage.radix;
  }
  if (from[0] == re) return;
  std::copy_n(from[0], length_ * lines, re);
  std::copy_n(from[1], length_ * lines, im);
}

/// A radix of 4: products with 1, -i, -1 and i are none.
void FourierPlan::run_quarters(const Stage& stage, size_t stride,
                               const double* re, const double* im,
                               double* to_re, double* to_im) {
  const size_t apart = stage.groups * stride;
  for (size_t group = 0; group < stage.groups; ++group) {
    const Twiddle* const turn = &stage.twiddles[group * 4];
    const double* const x_re = re + group * stride;
    const double* const x_im = im + group * stride;
    double* __restrict__ const y_re = to_re + group * 4 * stride;
    double* __restrict__ const y_im = to_im + group * 4 * stride;
    const auto put = [&](size_t k, size_t q, double real, double imaginary) {
      y_re[k * stride + q] = turn[k].re * real - turn[k].im * imaginary;
      y_im[k * stride + q] = turn[k].re * imaginary + turn[k].im * real;
    };
    for (size_t q = 0; q < stride; ++q) {
      const size_t r = q + apart, s = r + apart, t = s + apart;
      const double even_re = x_re[q] + x_re[s], even_im = x_im[q] + x_im[s];
      const double turned_re = x_re[q] - x_re[s], turned_im = x_im[q] - x_im[s];
      const double odd_re = x_re[r] + x_re[t], odd_im = x_im[r] + x_im[t];
      const double cross_re = x_im[r] - x_im[t], cross_im = x_re[t] - x_re[r];
      put(0, q, even_re + odd_re, even_im + odd_im);
      put(1, q, turned_re + cross_re, turned_im + cross_im);
      put(2, q, even_re - odd_re, even_im - odd_im);
      put(3, q, turned_re - cross_re, turned_im - cross_im);
    }
  }
}

void FourierPlan::run_stage(const Stage& stage, size_t stride, const double* re,
                            const double* im, double* to_re, double* to_im) {
  if (stage.radix == 4)
    return run_quarters(stage, stride, re, im, to_re, to_im);
  const size_t radix = stage.radix, apart = stage.groups * stride;
  for (size_t group = 0; group < stage.groups; ++group) {
    const double* const from_re = re + group * stride;
    const double* const from_im = im + group * stride;
    for (size_t k = 0; k < radix; ++k) {
      const size_t at = (group * radix + k) * stride;
      const Twiddle turn = stage.twiddles[group * radix + k];
      double* __restrict__ const out_re = to_re + at;
      double* __restrict__ const out_im = to_im + at;
      std::copy_n(from_re, stride, out_re);
      std::copy_n(from_im, stride, out_im);
      for (size_t j = 1; j < radix; ++j) {
        const Twiddle w = stage.roots[j * k % radix];
        const double* const x_re = from_re + j * apart;
        const double* const x_im = from_im + j * apart;
        for (size_t q = 0; q < stride; ++q) {
          out_re[q] += w.re * x_re[q] - w.im * x_im[q];
          out_im[q] += w.re * x_im[q] + w.im * x_re[q];
        }
      }
      for (size_t q = 0; q < stride; ++q) {
        const double real = out_re[q];
        out_re[q] = turn.re * real - turn.im * out_im[q];
        out_im[q] = turn.re * out_im[q] + turn.im * real;
      }
    }
  }
}

/// x[j] c[j], convolved with 1 / c and turned by c: j k = (j^2 + k^2 -
/// (k - j)^2) / 2.
void FourierPlan::convolve(double* re, double* im, size_t lines,
                           double* work) const {
  const FourierPlan& power = power_[0];
  double* const wide_re = work;
  double* const wide_im = work + power.length_ * lines;
  double* const inner = wide_im + power.length_ * lines;
  const auto turn = [&](const std::vector<Twiddle>& by, size_t count,
                        const double* from_re, const double* from_im,
                        double* to_re, double* to_im) {
    for (size_t j = 0; j < count; ++j) {
      for (size_t l = j * lines; l < (j + 1) * lines; ++l) {
        const double real = from_re[l], imaginary = from_im[l];
        to_re[l] = real * by[j].re - imaginary * by[j].im;
        to_im[l] = real * by[j].im + imaginary * by[j].re;
      }
    }
  };
  turn(chirp_, length_, re, im, wide_re, wide_im);
  std::fill(wide_re + length_ * lines, wide_im, 0.0);
  std::fill(wide_im + length_ * lines, inner, 0.0);
  power.run(wide_re, wide_im, lines, inner);
  turn(transformed_, power.length_, wide_re, wide_im, wide_re, wide_im);
  power.run(wide_im, wide_re, lines, inner);
  turn(chirp_, length_, wide_re, wide_im, re, im);
}

}  // namespace reprise

// A stage of radix r takes, of m groups, elements p, p + m, p + 2 m … and
// writes r outputs side by side, each turned by its twiddle; `stride` elements
// that are treated alike, lines among them, lie innermost, so that the inner
// loops run over neighbours, in the widest vectors that the machine has.
#include "runtime/cpu/fourier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "runtime/cpu/wide_vectors.h"

namespace reprise {
namespace {

#define REPRISE_INLINE [[gnu::always_inline]] inline

/// The radices of a length, the large ones first; empty where one is too large.
std::vector<size_t> radices_of(size_t length, size_t most) {
  std::vector<size_t> radices;
  for (size_t radix = 3; radix <= most; radix += 2) {
    for (; length % radix == 0; length /= radix) radices.push_back(radix);
  }
  std::reverse(radices.begin(), radices.end());
  for (; length % 4 == 0; length /= 4) radices.push_back(4);
  for (; length % 2 == 0; length /= 2) radices.push_back(2);
  if (length > 1) radices.clear();
  return radices;
}

/// A length from `least` on that takes few passes over few elements: of factors
/// 2, 3 and 5, at most a power of two.
size_t convenient_length(size_t least) {
  // A pass of a radix beside one of radix 4: by loads, stores and products.
  const auto pass = [](size_t radix) {
    return radix == 2 ? 0.8 : radix == 5 ? 1.6 : 1.0;
  };
  size_t best = 0;
  double best_cost = 0;
  for (size_t fives = 1; fives < 5 * least; fives *= 5) {
    for (size_t threes = fives; threes < 3 * least; threes *= 3) {
      size_t length = threes;
      while (length < least) length *= 2;
      double cost = 0;
      for (const size_t radix : radices_of(length, 5)) cost += pass(radix);
      cost *= static_cast<double>(length);
      if (best != 0 && cost >= best_cost) continue;
      best = length;
      best_cost = cost;
    }
  }
  return best;
}

/// Elements of a stage's group: `radix` inputs `apart` from each other, outputs
/// `stride` from each other.
template <typename T>
struct StageGroup {
  const T *re, *im;
  T *to_re, *to_im;
  size_t apart, stride;
  const Twiddle<T>* turns;
};

/// Numbers of neighbours: V is T itself or a vector of it.
template <typename V>
struct Complex {
  V re, im;

  REPRISE_INLINE Complex operator+(const Complex& o) const {
    return {re + o.re, im + o.im};
  }
  REPRISE_INLINE Complex operator-(const Complex& o) const {
    return {re - o.re, im - o.im};
  }
  /// By -i.
  REPRISE_INLINE Complex quarter_back() const { return {im, -re}; }
  template <typename T>
  REPRISE_INLINE Complex operator*(Twiddle<T> w) const {
    return {re * w.re - im * w.im, re * w.im + im * w.re};
  }
};

template <typename V, typename T>
REPRISE_INLINE Complex<V> load(const StageGroup<T>& group, size_t place) {
  Complex<V> value;
  std::memcpy(&value.re, group.re + place, sizeof(V));
  std::memcpy(&value.im, group.im + place, sizeof(V));
  return value;
}
template <typename V, typename T>
REPRISE_INLINE void store(const StageGroup<T>& group, size_t place,
                          const Complex<V>& value) {
  std::memcpy(group.to_re + place, &value.re, sizeof(V));
  std::memcpy(group.to_im + place, &value.im, sizeof(V));
}

struct Halves {
  template <typename V, typename T>
  REPRISE_INLINE void step(const StageGroup<T>& group, size_t q) const {
    const auto a = load<V>(group, q), b = load<V>(group, q + group.apart);
    store(group, q, a + b);
    store(group, q + group.stride, (a - b) * group.turns[1]);
  }
};

/// A radix of 4: products with 1, -i, -1 and i are none.
struct Quarters {
  template <typename V, typename T>
  REPRISE_INLINE void step(const StageGroup<T>& group, size_t q) const {
    const size_t apart = group.apart, stride = group.stride;
    const auto a = load<V>(group, q), b = load<V>(group, q + apart),
               c = load<V>(group, q + 2 * apart),
               d = load<V>(group, q + 3 * apart);
    const auto even = a + c, less = a - c, odd = b + d,
               cross = (b - d).quarter_back();
    store(group, q, even + odd);
    store(group, q + stride, (less + cross) * group.turns[1]);
    store(group, q + 2 * stride, (even - odd) * group.turns[2]);
    store(group, q + 3 * stride, (less - cross) * group.turns[3]);
  }
};

/// Odd radices: roots in pairs that are each other's conjugates, so that sums
/// and differences of the inputs in pairs take half of the products.
template <typename T>
struct Odd {
  size_t radix;
  const Twiddle<T>* roots;

  template <typename V>
  REPRISE_INLINE void step(const StageGroup<T>& group, size_t q) const {
    constexpr size_t kMostPairs = FourierPlan<T>::kMostRadix / 2;
    const auto first = load<V>(group, q);
    Complex<V> sums[kMostPairs + 1], lesses[kMostPairs + 1];
    auto all = first;
    const size_t pairs = radix / 2;
    for (size_t j = 1; j <= pairs; ++j) {
      const auto a = load<V>(group, q + j * group.apart),
                 b = load<V>(group, q + (radix - j) * group.apart);
      sums[j] = a + b;
      lesses[j] = a - b;
      all = all + sums[j];
    }
    store(group, q, all);
    for (size_t k = 1; k <= pairs; ++k) {
      Complex<V> even = first, odd{V{}, V{}};
      for (size_t j = 1, place = k; j <= pairs; ++j) {
        const Twiddle<T> root = roots[place];
        even.re += sums[j].re * root.re;
        even.im += sums[j].im * root.re;
        odd.re -= lesses[j].im * root.im;
        odd.im += lesses[j].re * root.im;
        place += k;
        if (place >= radix) place -= radix;
      }
      store(group, q + k * group.stride, (even + odd) * group.turns[k]);
      store(group, q + (radix - k) * group.stride,
            (even - odd) * group.turns[radix - k]);
    }
  }
};

/// Places from `q` on, in vectors of kBytes, then of half as many, then alone.
template <size_t kBytes, typename T, typename Radix>
REPRISE_INLINE void run_places(const Radix& radix, const StageGroup<T>& group,
                               size_t q) {
  if constexpr (kBytes > sizeof(T)) {
    typedef T Vector __attribute__((vector_size(kBytes)));
    constexpr size_t kLanes = kBytes / sizeof(T);
    for (; q + kLanes <= group.stride; q += kLanes)
      radix.template step<Vector>(group, q);
    run_places<(kBytes > 16 ? kBytes / 2 : sizeof(T))>(radix, group, q);
  } else {
    for (; q < group.stride; ++q) radix.template step<T>(group, q);
  }
}

template <size_t kBytes, typename T, typename Radix>
REPRISE_INLINE void run_groups(const typename FourierPlan<T>::Stage& stage,
                               size_t stride, const T* re, const T* im,
                               T* to_re, T* to_im, const Radix& radix) {
  for (size_t g = 0; g < stage.groups; ++g) {
    const size_t from = g * stride, to = from * stage.radix;
    const StageGroup<T> group{re + from,
                              im + from,
                              to_re + to,
                              to_im + to,
                              stage.groups * stride,
                              stride,
                              &stage.twiddles[g * stage.radix]};
    run_places<kBytes>(radix, group, 0);
  }
}

/// Between the line's own arrays and `work`, by turns; copied back at the end.
template <size_t kBytes, typename T>
REPRISE_INLINE void run_stages(
    const std::vector<typename FourierPlan<T>::Stage>& stages, size_t elements,
    size_t lines, T* re, T* im, T* work) {
  T* from[] = {re, im};
  T* to[] = {work, work + elements + kFourierApart<T>};
  size_t stride = lines;
  for (const auto& stage : stages) {
    const auto run = [&](const auto& radix) __attribute__((always_inline)) {
      run_groups<kBytes>(stage, stride, from[0], from[1], to[0], to[1], radix);
    };
    if (stage.radix == 4) {
      run(Quarters{});
    } else if (stage.radix == 2) {
      run(Halves{});
    } else {
      run(Odd<T>{stage.radix, stage.roots.data()});
    }
    std::swap(from, to);
    stride *= stage.radix;
  }
  if (from[0] == re) return;
  std::copy_n(from[0], elements, re);
  std::copy_n(from[1], elements, im);
}

template <typename T>
using RunStages = void (*)(const std::vector<typename FourierPlan<T>::Stage>&,
                           size_t elements, size_t lines, T* re, T* im,
                           T* work);

#if defined(__x86_64__)
template <typename T>
__attribute__((target("avx512f"))) void run_stages_by_64(
    const std::vector<typename FourierPlan<T>::Stage>& stages, size_t elements,
    size_t lines, T* re, T* im, T* work) {
  run_stages<64>(stages, elements, lines, re, im, work);
}
template <typename T>
REPRISE_WITH_FMA void run_stages_by_32(
    const std::vector<typename FourierPlan<T>::Stage>& stages, size_t elements,
    size_t lines, T* re, T* im, T* work) {
  run_stages<32>(stages, elements, lines, re, im, work);
}
#endif
template <typename T>
void run_stages_by_16(const std::vector<typename FourierPlan<T>::Stage>& stages,
                      size_t elements, size_t lines, T* re, T* im, T* work) {
  run_stages<16>(stages, elements, lines, re, im, work);
}

/// In vectors of as many bytes as the machine has.
template <typename T>
RunStages<T> widest_run() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return run_stages_by_64<T>;
  if (has_fma()) return run_stages_by_32<T>;
#endif
  return run_stages_by_16<T>;
}

}  // namespace

/// Of an eighth of the circle, turned to where it belongs: exact at quarters.
template <typename T>
Twiddle<T> root_of_unity(size_t j, size_t length) {
  const size_t eighths = 8 * (j % length) / length;
  const size_t quarters = (eighths + 1) / 2;
  // The angle beyond so many quarters, negative before them.
  const double apart = 4.0 * static_cast<double>(j % length) -
                       static_cast<double>(quarters * length);
  const double angle =
      apart / static_cast<double>(length) * std::numbers::pi / 2;
  const auto cosine = static_cast<T>(std::cos(angle)),
             sine = static_cast<T>(std::sin(angle));
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

template <typename T>
FourierPlan<T>::FourierPlan(size_t length) : length_(length) {
  build_stages();
  if (stages_.empty() && length > 1) build_convolution();
}

template <typename T>
void FourierPlan<T>::build_stages() {
  size_t left = length_;
  for (const size_t radix : radices_of(length_, kMostRadix)) {
    Stage& stage = stages_.emplace_back();
    stage.radix = radix;
    stage.groups = left / radix;
    for (size_t group = 0; group < stage.groups; ++group) {
      for (size_t k = 0; k < radix; ++k)
        stage.twiddles.push_back(root_of_unity<T>(group * k, left));
    }
    for (size_t j = 0; j < radix; ++j)
      stage.roots.push_back(root_of_unity<T>(j, radix));
    left = stage.groups;
  }
}

template <typename T>
void FourierPlan<T>::build_convolution() {
  const size_t length = convenient_length(2 * length_ - 1);
  inner_.emplace_back(length);
  std::vector<T> re(length), im(length), work(inner_[0].work_elements(1));
  for (size_t j = 0; j < length_; ++j) {
    const Twiddle<T> turned =
        root_of_unity<T>(j * j % (2 * length_), 2 * length_);
    chirp_.push_back(turned);
    for (const size_t place : {j, (length - j) % length}) {
      re[place] = turned.re;
      im[place] = -turned.im;
    }
  }
  inner_[0].run(re.data(), im.data(), 1, work.data());
  const auto scale = static_cast<T>(length);
  for (size_t k = 0; k < length; ++k)
    transformed_.push_back({re[k] / scale, im[k] / scale});
}

template <typename T>
size_t FourierPlan<T>::work_elements(size_t lines) const {
  if (inner_.empty()) return 2 * length_ * lines + kFourierApart<T>;
  const FourierPlan& inner = inner_[0];
  return 2 *
         (inner.length_ * lines + kFourierApart<T>)+inner.work_elements(lines);
}

template <typename T>
void FourierPlan<T>::run(T* re, T* im, size_t lines, T* work) const {
  if (!inner_.empty()) return convolve(re, im, lines, work);
  static const RunStages<T> run_stages = widest_run<T>();
  run_stages(stages_, length_ * lines, lines, re, im, work);
}

/// x[j] c[j], convolved with 1 / c and turned by c: j k = (j^2 + k^2 -
/// (k - j)^2) / 2.
template <typename T>
void FourierPlan<T>::convolve(T* re, T* im, size_t lines, T* work) const {
  const FourierPlan& inner = inner_[0];
  T* const wide_re = work;
  const size_t elements = inner.length_ * lines;
  T* const wide_im = wide_re + elements + kFourierApart<T>;
  T* const rest = wide_im + elements + kFourierApart<T>;
  const auto turn = [&](const std::vector<Twiddle<T>>& by, size_t count,
                        const T* from_re, const T* from_im, T* to_re,
                        T* to_im) {
    for (size_t j = 0; j < count; ++j) {
      for (size_t l = j * lines; l < (j + 1) * lines; ++l) {
        const T real = from_re[l], imaginary = from_im[l];
        to_re[l] = real * by[j].re - imaginary * by[j].im;
        to_im[l] = real * by[j].im + imaginary * by[j].re;
      }
    }
  };
  turn(chirp_, length_, re, im, wide_re, wide_im);
  std::fill(wide_re + length_ * lines, wide_re + elements, T{0});
  std::fill(wide_im + length_ * lines, wide_im + elements, T{0});
  inner.run(wide_re, wide_im, lines, rest);
  turn(transformed_, inner.length_, wide_re, wide_im, wide_re, wide_im);
  inner.run(wide_im, wide_re, lines, rest);
  turn(chirp_, length_, wide_re, wide_im, re, im);
}

template Twiddle<float> root_of_unity(size_t, size_t);
template Twiddle<double> root_of_unity(size_t, size_t);
template class FourierPlan<float>;
template class FourierPlan<double>;

}  // namespace reprise

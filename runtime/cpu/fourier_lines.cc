#include "runtime/cpu/fourier_lines.h"

#include <algorithm>
#include <cmath>

namespace reprise {
namespace {

/// Bytes of one array of a block: it, its imaginary part and the two of the
/// plan's work fill a core's first cache.
constexpr size_t kBlockBytes = 8192;
/// As many as fill a vector of 32 and of 128 bytes. Long lines, whose stages
/// are vectors from the third on, come one by one: others would leave the
/// second cache, too.
constexpr size_t kLeastLines = 8, kMostLines = 32, kLongLine = 1 << 14;
/// Elements of a line that are moved while those of the other lines beside them
/// stay in the cache.
constexpr size_t kTile = 16;

/// A dimension of an array: `count` elements a line, `inner` apart.
struct LineShape {
  size_t count, inner;

  size_t start(size_t line) const {
    return line / inner * count * inner + line % inner;
  }
  /// Calls move(element j of a line, line l, place in the array, lines from
  /// there on that lie side by side in both).
  template <typename Move>
  void each(size_t first, size_t lines, const Move& move) const {
    if (inner == 1) {
      for (size_t tile = 0; tile < count; tile += kTile) {
        const size_t end = std::min(count, tile + kTile);
        for (size_t l = 0; l < lines; ++l) {
          const size_t at = (first + l) * count;
          for (size_t j = tile; j < end; ++j) move(j, l, at + j, size_t{1});
        }
      }
      return;
    }
    for (size_t l = 0; l < lines;) {
      const size_t run = std::min(lines - l, inner - (first + l) % inner);
      const size_t at = start(first + l);
      for (size_t j = 0; j < count; ++j) move(j, l, at + j * inner, run);
      l += run;
    }
  }
};

template <typename T>
void gather(const LineShape& shape, const T* from, size_t first, size_t lines,
            T* line) {
  if (from == nullptr) {
    std::fill_n(line, shape.count * lines, T{0});
    return;
  }
  shape.each(first, lines, [&](size_t j, size_t l, size_t at, size_t run) {
    for (size_t i = 0; i < run; ++i) line[j * lines + l + i] = from[at + i];
  });
}

template <typename T>
void scatter(const LineShape& shape, const T* line, size_t first, size_t lines,
             T scale, T* to) {
  if (to == nullptr) return;
  shape.each(first, lines, [&](size_t j, size_t l, size_t at, size_t run) {
    for (size_t i = 0; i < run; ++i)
      to[at + i] = line[j * lines + l + i] * scale;
  });
}

bool has_real_side(FourierKind kind) {
  return kind == FourierKind::kFromReal || kind == FourierKind::kToReal;
}

}  // namespace

template <typename T>
FourierLines<T>::FourierLines(FourierKind kind, size_t length, size_t outer,
                              size_t inner)
    : kind_(kind),
      length_(length),
      inner_(inner),
      lines_(outer * inner),
      spectrum_(has_real_side(kind) ? length / 2 + 1 : length),
      plan_(has_real_side(kind) && length % 2 == 0 ? length / 2 : length) {
  if (plan_.length() < length) {
    for (size_t k = 0; k <= length / 4; ++k)
      turns_.push_back(root_of_unity<T>(k, length));
  }
  const size_t wanted = kBlockBytes / sizeof(T) / plan_.length();
  at_once_ = plan_.length() >= kLongLine
                 ? 1
                 : std::min(std::clamp(wanted / kLeastLines * kLeastLines,
                                       kLeastLines, kMostLines),
                            std::max<size_t>(lines_, 1));
}

template <typename T>
double FourierLines<T>::flops() const {
  const auto length = static_cast<double>(plan_.length());
  return 5 * length * std::log2(length + 1) * static_cast<double>(lines_);
}

/// Each part of a line holds the whole of it, or half and its middle.
template <typename T>
size_t FourierLines<T>::scratch_elements() const {
  const size_t part = (plan_.length() + 1) * at_once_ + kFourierApart<T>;
  return 2 * part + plan_.work_elements(at_once_);
}

template <typename T>
void FourierLines<T>::run(size_t block, ComplexArray<T> from,
                          ComplexArray<T> to, T scale, T* scratch) const {
  const size_t first = block * at_once_,
               lines = std::min(at_once_, lines_ - first);
  T* const re = scratch;
  T* const im = re + (plan_.length() + 1) * at_once_ + kFourierApart<T>;
  T* const work = im + (plan_.length() + 1) * at_once_ + kFourierApart<T>;
  read(first, lines, from, re, im);
  if (kind_ == FourierKind::kBackward || kind_ == FourierKind::kToReal) {
    plan_.run(im, re, lines, work);
  } else {
    plan_.run(re, im, lines, work);
  }
  write(first, lines, re, im, scale, to);
}

template <typename T>
void FourierLines<T>::read(size_t first, size_t lines, ComplexArray<T> from,
                           T* re, T* im) const {
  if (kind_ == FourierKind::kFromReal && is_half()) {
    const LineShape pairs{length_ / 2, 1};
    const T* const array = from.re;
    pairs.each(first, lines, [&](size_t j, size_t l, size_t at, size_t) {
      re[j * lines + l] = array[2 * at];
      im[j * lines + l] = array[2 * at + 1];
    });
    return;
  }
  const bool is_real = kind_ == FourierKind::kFromReal;
  const LineShape shape{is_real ? length_ : spectrum_, inner_};
  gather(shape, from.re, first, lines, re);
  gather(shape, is_real ? nullptr : from.im, first, lines, im);
  if (kind_ != FourierKind::kToReal) return;
  if (is_half()) {
    join_halves(lines, re, im);
  } else {
    mirror(lines, re, im);
  }
}

template <typename T>
void FourierLines<T>::write(size_t first, size_t lines, T* re, T* im, T scale,
                            ComplexArray<T> to) const {
  if (kind_ == FourierKind::kToReal && is_half()) {
    if (to.re == nullptr) return;
    const LineShape pairs{length_ / 2, 1};
    pairs.each(first, lines, [&](size_t j, size_t l, size_t at, size_t) {
      to.re[2 * at] = re[j * lines + l] * scale;
      to.re[2 * at + 1] = im[j * lines + l] * scale;
    });
    return;
  }
  if (kind_ == FourierKind::kFromReal && is_half()) split_halves(lines, re, im);
  const bool is_real = kind_ == FourierKind::kToReal;
  const LineShape shape{is_real ? length_ : spectrum_, inner_};
  scatter(shape, re, first, lines, scale, to.re);
  scatter(shape, im, first, lines, scale, is_real ? nullptr : to.im);
}

/// Calls change(exp(-2 pi i k / N), element k, element N / 2 - k) of each line,
/// for each pair once.
template <typename T>
template <typename Change>
void FourierLines<T>::each_pair(size_t lines, T* re, T* im,
                                const Change& change) const {
  const size_t half = length_ / 2;
  for (size_t k = 1; k <= half / 2; ++k) {
    const Twiddle<T> w = turns_[k];
    const size_t a = k * lines, b = (half - k) * lines;
    for (size_t l = 0; l < lines; ++l)
      change(w, re[a + l], im[a + l], re[b + l], im[b + l]);
  }
}

/// Z, the transform of x[2 j] + i x[2 j + 1], to that of x up to N / 2, of
/// which M = N / 2: with E and O those of the even and odd elements, Z = E + i
/// O and X[k] = E[k] + exp(-2 pi i k / N) O[k], and both are conjugates of
/// themselves at M - k.
template <typename T>
void FourierLines<T>::split_halves(size_t lines, T* re, T* im) const {
  const size_t half = length_ / 2;
  for (size_t l = 0; l < lines; ++l) {
    const T even = re[l], odd = im[l];
    re[l] = even + odd;
    re[half * lines + l] = even - odd;
    im[l] = im[half * lines + l] = 0;
  }
  each_pair(lines, re, im,
            [](Twiddle<T> w, T& a_re, T& a_im, T& b_re, T& b_im) {
              const T even_re = (a_re + b_re) / 2, even_im = (a_im - b_im) / 2;
              const T odd_re = (a_im + b_im) / 2, odd_im = (b_re - a_re) / 2;
              const T turned_re = w.re * odd_re - w.im * odd_im;
              const T turned_im = w.re * odd_im + w.im * odd_re;
              a_re = even_re + turned_re;
              a_im = even_im + turned_im;
              b_re = even_re - turned_re;
              b_im = turned_im - even_im;
            });
}

/// The way back, twice as large. What would be its own conjugate has no
/// imaginary part, whatever the array says.
template <typename T>
void FourierLines<T>::join_halves(size_t lines, T* re, T* im) const {
  const size_t half = length_ / 2;
  for (size_t l = 0; l < lines; ++l) {
    const T first = re[l], last = re[half * lines + l];
    re[l] = first + last;
    im[l] = first - last;
  }
  each_pair(lines, re, im,
            [](Twiddle<T> w, T& a_re, T& a_im, T& b_re, T& b_im) {
              const T even_re = a_re + b_re, even_im = a_im - b_im;
              const T less_re = a_re - b_re, less_im = a_im + b_im;
              const T odd_re = less_re * w.re + less_im * w.im;
              const T odd_im = less_im * w.re - less_re * w.im;
              a_re = even_re - odd_im;
              a_im = even_im + odd_re;
              b_re = even_re + odd_im;
              b_im = odd_re - even_im;
            });
}

/// The spectrum of a real line of odd length: its other half is the conjugate,
/// and what would be its own has no imaginary part.
template <typename T>
void FourierLines<T>::mirror(size_t lines, T* re, T* im) const {
  for (size_t j = spectrum_; j < length_; ++j) {
    for (size_t l = 0; l < lines; ++l) {
      re[j * lines + l] = re[(length_ - j) * lines + l];
      im[j * lines + l] = -im[(length_ - j) * lines + l];
    }
  }
  std::fill_n(im, lines, T{0});
}

template class FourierLines<float>;
template class FourierLines<double>;

}  // namespace reprise

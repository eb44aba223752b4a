// `fft` on parts: (re, im) or re alone to (re, im) or re alone, over up to
// three innermost dimensions, one after the other.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "data/hlo/hlo.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/fourier.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

/// Lines that are transformed at once, so that inner loops are long, and how
/// many elements of all of them stay in a core's cache.
constexpr size_t kMostLines = 16;
constexpr size_t kMostCached = 1 << 15;

/// The parts of an array; null where it has none or nobody reads it.
struct Parts {
  std::byte* re = nullptr;
  std::byte* im = nullptr;
};

/// One dimension of a transform.
struct LinePass {
  size_t length = 1;
  size_t read = 1, written = 1;  ///< Of the length; what is not read, mirrored.
  size_t outer = 1, inner = 1;   ///< Lines around it.
  FourierPlan plan;

  [[nodiscard]] size_t lines_at_once() const {
    return std::min(outer * inner,
                    std::clamp<size_t>(kMostCached / length, 1, kMostLines));
  }
  /// Where a line starts in an array that has `count` elements of it.
  [[nodiscard]] size_t start(size_t line, size_t count) const {
    return line / inner * count * inner + line % inner;
  }
};

enum class FourierKind { kForward, kBackward, kFromReal, kToReal };

bool is_backward(FourierKind kind) {
  return kind == FourierKind::kBackward || kind == FourierKind::kToReal;
}

/// Elements of arrays are T, those of lines f64.
template <typename T>
class Fourier final : public Routine {
 public:
  Fourier(const RoutineCall& call, FourierKind kind,
          std::vector<LinePass> passes)
      : call_(call), kind_(kind), passes_(std::move(passes)) {
    size_t most = 0;
    for (const LinePass& pass : passes_) {
      most = std::max(most, pass.lines_at_once() *
                                (2 * pass.length + pass.plan.work_elements()));
    }
    lines_bytes_ = RoutineScratch::aligned(most * sizeof(double));
    // What stands between passes has the shape of what is complex.
    const Shape& complex = kind == FourierKind::kFromReal
                               ? call.result_shape(0)
                               : call.operand_shape(0);
    if (passes_.size() > 1) {
      between_bytes_ =
          RoutineScratch::aligned(static_cast<size_t>(byte_size(complex)));
    }
    call_.scratch->reserve(lines_bytes_ + 2 * between_bytes_);
  }

  bool run() override {
    Parts from = parts_of(call_.operands);
    std::byte* const block = call_.scratch->data() + lines_bytes_;
    const Parts between{block, block + between_bytes_};
    double scale = 1;
    for (size_t i = 0; i < passes_.size(); ++i) {
      const bool is_last = i + 1 == passes_.size();
      if (is_backward(kind_)) scale /= static_cast<double>(passes_[i].length);
      run_pass(passes_[i], from, is_last ? parts_of(call_.results) : between,
               is_last ? scale : 1.0);
      from = between;
    }
    return true;
  }

 private:
  static Parts parts_of(const std::vector<std::span<std::byte>>& arrays) {
    const auto part = [&](size_t i) {
      return i < arrays.size() && !arrays[i].empty() ? arrays[i].data()
                                                     : nullptr;
    };
    return {part(0), part(1)};
  }

  void run_pass(const LinePass& pass, Parts from, Parts to,
                double scale) const {
    const size_t all = pass.outer * pass.inner, at_once = pass.lines_at_once();
    auto* const re = reinterpret_cast<double*>(call_.scratch->data());
    double* const im = re + at_once * pass.length;
    double* const work = im + at_once * pass.length;
    for (size_t first = 0; first < all; first += at_once) {
      const size_t lines = std::min(at_once, all - first);
      gather(pass, from.re, first, lines, re);
      gather(pass, from.im, first, lines, im);
      if (pass.read < pass.length) mirror(pass, lines, re, im);
      if (is_backward(kind_)) {
        pass.plan.run(im, re, lines, work);
      } else {
        pass.plan.run(re, im, lines, work);
      }
      scatter(pass, re, first, lines, scale, to.re);
      scatter(pass, im, first, lines, scale, to.im);
    }
  }

  static void gather(const LinePass& pass, const std::byte* from, size_t first,
                     size_t lines, double* line) {
    if (from == nullptr) {
      std::fill_n(line, pass.read * lines, 0.0);
      return;
    }
    const T* const array = reinterpret_cast<const T*>(from);
    for (size_t l = 0; l < lines; ++l) {
      const T* const at = array + pass.start(first + l, pass.read);
      for (size_t j = 0; j < pass.read; ++j)
        line[j * lines + l] = static_cast<double>(at[j * pass.inner]);
    }
  }

  /// The spectrum of a real array: its other half is the conjugate, and what
  /// would be its own conjugate has no imaginary part.
  static void mirror(const LinePass& pass, size_t lines, double* re,
                     double* im) {
    for (size_t j = pass.read; j < pass.length; ++j) {
      for (size_t l = 0; l < lines; ++l) {
        re[j * lines + l] = re[(pass.length - j) * lines + l];
        im[j * lines + l] = -im[(pass.length - j) * lines + l];
      }
    }
    std::fill_n(im, lines, 0.0);
    if (pass.length % 2 == 0)
      std::fill_n(im + pass.length / 2 * lines, lines, 0.0);
  }

  static void scatter(const LinePass& pass, const double* line, size_t first,
                      size_t lines, double scale, std::byte* to) {
    if (to == nullptr) return;
    T* const array = reinterpret_cast<T*>(to);
    for (size_t l = 0; l < lines; ++l) {
      T* const at = array + pass.start(first + l, pass.written);
      for (size_t j = 0; j < pass.written; ++j)
        at[j * pass.inner] = static_cast<T>(line[j * lines + l] * scale);
    }
  }

  RoutineCall call_;
  FourierKind kind_;
  std::vector<LinePass> passes_;
  size_t lines_bytes_ = 0, between_bytes_ = 0;
};

/// The passes over the innermost dimensions of `whole`, which has each in its
/// full length, in the order in which they run.
std::vector<LinePass> passes_of(FourierKind kind, const Shape& whole,
                                size_t count) {
  const size_t rank = whole.dimensions.size();
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) order.push_back(rank - 1 - i);
  if (kind == FourierKind::kToReal)
    std::rotate(order.begin(), order.begin() + 1, order.end());
  std::vector<LinePass> passes;
  for (const size_t dimension : order) {
    const auto length = static_cast<size_t>(whole.dimensions[dimension]);
    LinePass pass{.length = length,
                  .read = length,
                  .written = length,
                  .plan = FourierPlan(length)};
    const bool is_half = dimension == rank - 1;
    if (is_half && kind == FourierKind::kToReal) pass.read = length / 2 + 1;
    if (is_half && kind == FourierKind::kFromReal)
      pass.written = length / 2 + 1;
    const bool others_half =
        kind == FourierKind::kToReal || kind == FourierKind::kFromReal;
    for (size_t d = 0; d < rank; ++d) {
      auto extent = static_cast<size_t>(whole.dimensions[d]);
      if (d == rank - 1 && others_half) extent = extent / 2 + 1;
      if (d < dimension) pass.outer *= extent;
      if (d > dimension) pass.inner *= extent;
    }
    passes.push_back(std::move(pass));
  }
  return passes;
}

std::optional<FourierKind> kind_of(const Instruction& fft) {
  const Attribute* found = fft.find_attribute("fft_type");
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  const std::string name = raw == nullptr ? "" : raw->text;
  if (name == "FFT") return FourierKind::kForward;
  if (name == "IFFT") return FourierKind::kBackward;
  if (name == "RFFT") return FourierKind::kFromReal;
  if (name == "IRFFT") return FourierKind::kToReal;
  return std::nullopt;
}

/// Whether the arrays are those of the kind: real ones have the dimensions in
/// full length, their spectra half of the last.
bool fits(const RoutineCall& call, FourierKind kind,
          const std::vector<int64_t>& lengths) {
  const bool from_real = kind == FourierKind::kFromReal;
  const bool to_real = kind == FourierKind::kToReal;
  if (call.operands.size() != (from_real ? 1U : 2U) ||
      call.results.size() != (to_real ? 1U : 2U))
    return false;
  const Shape& whole = to_real ? call.result_shape(0) : call.operand_shape(0);
  const size_t rank = whole.dimensions.size();
  if ((whole.type != PrimitiveType::kF32 &&
       whole.type != PrimitiveType::kF64) ||
      lengths.empty() || lengths.size() > 3 || lengths.size() > rank)
    return false;
  for (size_t d = 0; d < lengths.size(); ++d) {
    if (whole.dimensions[rank - lengths.size() + d] != lengths[d]) return false;
  }
  std::vector<int64_t> wanted = whole.dimensions;
  if (from_real || to_real) wanted.back() = wanted.back() / 2 + 1;
  const auto is = [&](const Shape& shape, const std::vector<int64_t>& extents) {
    return shape.type == whole.type && shape.dimensions == extents;
  };
  const auto& in = to_real ? wanted : whole.dimensions;
  const auto& out = from_real ? wanted : whole.dimensions;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    if (!is(call.operand_shape(i), in)) return false;
  }
  for (size_t i = 0; i < call.results.size(); ++i) {
    if (!is(call.result_shape(i), out)) return false;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<Routine>> make_fourier(const RoutineCall& call) {
  const std::optional<FourierKind> kind = kind_of(call.instruction);
  const std::vector<int64_t> lengths =
      integer_list(call.instruction, "fft_length");
  if (!kind || !fits(call, *kind, lengths)) {
    return fail(ErrorKind::kUnsupported,
                "a transform of other than c64 or c128 numbers, over 1 to 3 "
                "innermost dimensions in full length");
  }
  const Shape& whole = *kind == FourierKind::kToReal ? call.result_shape(0)
                                                     : call.operand_shape(0);
  std::vector<LinePass> passes = passes_of(*kind, whole, lengths.size());
  if (whole.type == PrimitiveType::kF64)
    return std::make_unique<Fourier<double>>(call, *kind, std::move(passes));
  return std::make_unique<Fourier<float>>(call, *kind, std::move(passes));
}

}  // namespace reprise

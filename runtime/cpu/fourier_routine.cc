// `fft` on parts: (re, im) or re alone to (re, im) or re alone, over up to
// three innermost dimensions, one after the other.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "data/hlo/hlo.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/fourier_lines.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

bool is_backward(FourierKind kind) {
  return kind == FourierKind::kBackward || kind == FourierKind::kToReal;
}

/// The passes over the innermost dimensions of `whole`, which has each in its
/// full length, in the order in which they run.
template <typename T>
std::vector<FourierLines<T>> passes_of(FourierKind kind, const Shape& whole,
                                       size_t count) {
  const size_t rank = whole.dimensions.size();
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) order.push_back(rank - 1 - i);
  if (kind == FourierKind::kToReal)
    std::rotate(order.begin(), order.begin() + 1, order.end());
  const FourierKind others =
      is_backward(kind) ? FourierKind::kBackward : FourierKind::kForward;
  std::vector<FourierLines<T>> passes;
  for (const size_t dimension : order) {
    size_t outer = 1, inner = 1;
    for (size_t d = 0; d < rank; ++d) {
      auto extent = static_cast<size_t>(whole.dimensions[d]);
      if (d == rank - 1 && kind != others) extent = extent / 2 + 1;
      if (d < dimension) outer *= extent;
      if (d > dimension) inner *= extent;
    }
    passes.emplace_back(dimension == rank - 1 ? kind : others,
                        static_cast<size_t>(whole.dimensions[dimension]), outer,
                        inner);
  }
  return passes;
}

template <typename T>
class Fourier final : public Routine {
 public:
  Fourier(const RoutineCall& call, FourierKind kind, const Shape& whole,
          size_t dimensions)
      : call_(call), passes_(passes_of<T>(kind, whole, dimensions)), scale_(1) {
    size_t most = 1;
    for (const FourierLines<T>& pass : passes_) {
      if (is_backward(kind)) scale_ /= static_cast<T>(pass.length());
      lines_bytes_ = std::max(
          lines_bytes_,
          RoutineScratch::aligned(pass.scratch_elements() * sizeof(T)));
      shared_.emplace_back(
          call.team,
          call.team.parts(pass.flops() / kFlopsPerNs, pass.blocks()));
      most = std::max(most, shared_.back().count());
    }
    // What stands between passes has the shape of what is complex.
    const Shape& complex = kind == FourierKind::kFromReal
                               ? call.result_shape(0)
                               : call.operand_shape(0);
    if (passes_.size() > 1) {
      between_bytes_ =
          RoutineScratch::aligned(static_cast<size_t>(byte_size(complex)));
    }
    call_.scratch->reserve(most * lines_bytes_ + 2 * between_bytes_);
  }

  bool run() override {
    std::byte* const lines = call_.scratch->data() + 2 * between_bytes_;
    auto* const re = reinterpret_cast<T*>(call_.scratch->data());
    const ComplexArray<T> between{re, re + between_bytes_ / sizeof(T)};
    ComplexArray<T> from = parts_of(call_.operands);
    for (size_t i = 0; i < passes_.size(); ++i) {
      const FourierLines<T>& pass = passes_[i];
      const bool is_last = i + 1 == passes_.size();
      const ComplexArray<T> to = is_last ? parts_of(call_.results) : between;
      const auto run_part = [&](size_t part, size_t parts) {
        auto* const scratch = reinterpret_cast<T*>(lines + part * lines_bytes_);
        const size_t end = pass.blocks() * (part + 1) / parts;
        for (size_t block = pass.blocks() * part / parts; block < end; ++block)
          pass.run(block, from, to, is_last ? scale_ : T{1}, scratch);
        return true;
      };
      shared_[i].run(
          [&] { return run_part(0, 1); },
          [&](size_t part) { return run_part(part, shared_[i].count()); });
      from = between;
    }
    return true;
  }

 private:
  /// Of one core, to an order of magnitude.
  static constexpr double kFlopsPerNs = 10;

  static ComplexArray<T> parts_of(
      const std::vector<std::span<std::byte>>& arrays) {
    const auto part = [&](size_t i) {
      return i < arrays.size() && !arrays[i].empty()
                 ? reinterpret_cast<T*>(arrays[i].data())
                 : nullptr;
    };
    return {part(0), part(1)};
  }

  RoutineCall call_;
  std::vector<FourierLines<T>> passes_;
  std::vector<SharedParts> shared_;  ///< [pass]
  T scale_;
  size_t lines_bytes_ = 0, between_bytes_ = 0;
};

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
  if (whole.type == PrimitiveType::kF64)
    return std::make_unique<Fourier<double>>(call, *kind, whole,
                                             lengths.size());
  return std::make_unique<Fourier<float>>(call, *kind, whole, lengths.size());
}

}  // namespace reprise

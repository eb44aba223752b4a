#include "runtime/cpu/dot_parts.h"

#include <algorithm>
#include <cstdint>

#include "data/hlo/module.h"
#include "runtime/cpu/part_trials.h"

namespace reprise {
namespace {

/// What a border of the result cuts.
enum class Cut : uint8_t { kMatrices, kRows, kColumns };

/// Fewer rows or columns than a register block of oneDNN's are not cut.
constexpr int64_t kLeastRows = 32;

int64_t bytes_of(PrimitiveType type) { return primitive_type_bits(type) / 8; }

size_t dimension_of(const MatrixView& view, Cut cut) {
  const size_t n = view.dimensions.size();
  return cut == Cut::kMatrices ? 0 : cut == Cut::kRows ? n - 2 : n - 1;
}

/// Keeps [begin, end) of a dimension; returns how far its first byte moves.
int64_t keep(MatrixView* view, size_t dimension, int64_t begin, int64_t end,
             PrimitiveType type) {
  view->dimensions[dimension] = end - begin;
  return begin * view->strides[dimension] * bytes_of(type);
}

DotPart part_of(const DotSpec& spec, const DotMemory& memory, Cut cut,
                int64_t begin, int64_t end) {
  DotPart part{.spec = spec, .memory = memory};
  const int64_t out = keep(&part.spec.out, dimension_of(spec.out, cut), begin,
                           end, spec.result_type);
  part.memory.out += out;
  if (memory.accumulate != nullptr) part.memory.accumulate += out;
  if (cut != Cut::kColumns) {
    part.memory.lhs += keep(&part.spec.lhs, dimension_of(spec.lhs, cut), begin,
                            end, spec.type);
  }
  if (cut != Cut::kRows) {
    part.memory.rhs += keep(&part.spec.rhs, dimension_of(spec.rhs, cut), begin,
                            end, spec.type);
  }
  if (cut == Cut::kColumns && memory.bias != nullptr)
    part.memory.bias += begin * bytes_of(spec.result_type);
  return part;
}

/// Bytes from a view's first to its last element.
size_t extent_of(const MatrixView& view, PrimitiveType type) {
  int64_t last = 0;
  for (size_t d = 0; d < view.dimensions.size(); ++d)
    last += (view.dimensions[d] - 1) * view.strides[d];
  return static_cast<size_t>((last + 1) * bytes_of(type));
}

}  // namespace

std::vector<DotPart> split_dot(const DotSpec& spec, const DotMemory& memory,
                               size_t count, DotCut along) {
  const size_t n = spec.out.dimensions.size();
  const int64_t matrices = n > 2 ? spec.out.dimensions[0] : 1,
                rows = spec.out.dimensions[n - 2],
                columns = spec.out.dimensions[n - 1];
  const auto wanted = static_cast<int64_t>(count);
  Cut cut = (rows >= columns) == (along == DotCut::kLonger) ? Cut::kRows
                                                            : Cut::kColumns;
  int64_t extent = cut == Cut::kRows ? rows : columns,
          most = extent / kLeastRows;
  if (matrices >= wanted && spec.lhs.dimensions[0] == matrices &&
      spec.rhs.dimensions[0] == matrices) {
    cut = Cut::kMatrices;
    extent = most = matrices;
  }
  const int64_t parts = std::max<int64_t>(std::min(wanted, most), 1);
  std::vector<DotPart> made;
  for (int64_t p = 0; p < parts; ++p) {
    made.push_back(part_of(spec, memory, cut, extent * p / parts,
                           extent * (p + 1) / parts));
  }
  return made;
}

DotSpec plain_dot(const DotSpec& spec) {
  return {.type = spec.type,
          .result_type = spec.result_type,
          .lhs = spec.lhs,
          .rhs = spec.rhs,
          .out = spec.out};
}

TrialOperands::TrialOperands(const DotSpec& spec)
    : lhs_(extent_of(spec.lhs, spec.type)),
      rhs_(extent_of(spec.rhs, spec.type)),
      out_(extent_of(spec.out, spec.result_type)) {
  fill_trial_values(spec.type, 1, lhs_);
  fill_trial_values(spec.type, 2, rhs_);
}

DotMemory TrialOperands::memory() {
  return {.lhs = lhs_.data(), .rhs = rhs_.data(), .out = out_.data()};
}

void TrialOperands::clear_result() {
  std::fill(out_.begin(), out_.end(), std::byte{0});
}

}  // namespace reprise

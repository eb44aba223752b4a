#include "data/hlo/late_columns.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>

#include "data/hlo/combiner.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

constexpr std::string_view kLate = "reprise_window_order=\"late\"";

/// Whether the elements first to last of each window lie within the operand.
bool is_within(const WindowDimension& one, int64_t operand, int64_t result,
               int64_t last) {
  const int64_t most = (result - 1) * one.stride + last * one.window_dilation;
  return one.padding_low <= 0 && most - one.padding_low < operand;
}

/// How many elements of a window the dimensions behind the one that is split
/// may have (XLA's PeelLoopsPass looks at no dimension further out).
constexpr int64_t kMostInner = 63;

/// The dimension of which all but the last element need no test, or are one.
std::optional<size_t> late_dimension(const std::vector<WindowDimension>& window,
                                     const std::vector<int64_t>& operand,
                                     const std::vector<int64_t>& result) {
  int64_t inner = 1;
  for (size_t d = window.size(); d-- > 0 && inner <= kMostInner;) {
    const WindowDimension& one = window[d];
    const bool is_tested = one.size > 1 && one.base_dilation == 1 &&
                           !is_within(one, operand[d], result[d], one.size - 1);
    if (is_tested &&
        (one.size == 2 || is_within(one, operand[d], result[d], one.size - 2)))
      return d;
    inner *= one.size;
  }
  return std::nullopt;
}

}  // namespace

void note_late_columns(const Module& module, Computation* computation) {
  if (!has_note(module.attributes, "reprise_windows=\"late\"")) return;
  for (Instruction& instruction : computation->instructions) {
    if (instruction.opcode == Opcode::kReduceWindow &&
        is_half(instruction.shape.type) &&
        !has_note(instruction.attributes, kLate))
      add_note(kLate, &instruction.attributes);
  }
}

std::vector<int64_t> window_order(const Instruction& reduce_window,
                                  const std::vector<int64_t>& operand) {
  const auto window = window_dimensions(reduce_window);
  int64_t count = 1;
  for (const WindowDimension& one : *window) count *= one.size;
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!has_note(reduce_window.attributes, kLate)) return order;
  const auto late =
      late_dimension(*window, operand, reduce_window.shape.dimensions);
  if (!late) return order;
  int64_t inner = 1;
  for (size_t d = *late + 1; d < window->size(); ++d)
    inner *= (*window)[d].size;
  const int64_t size = (*window)[*late].size;
  std::stable_partition(order.begin(), order.end(), [=](int64_t element) {
    return element / inner % size != size - 1;
  });
  return order;
}

}  // namespace reprise

// A place of a window is called a tap. Those that no window has inside of the
// operand are left out; those that some have outside of it, at the border, come
// with a predicate.
#include "data/hlo/expand_select_and_scatter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/hlo/opcode.h"
#include "data/hlo/program_text.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

constexpr int64_t kMostTaps = 64;
constexpr size_t kMostBodyInstructions = 8;

struct Tap {
  int64_t number = 0;  ///< In row-major order of the window.
  ArrayExtents at;
  /// The windows that have it inside of the operand: `count` from `first` on.
  ArrayExtents first, count;
  bool is_everywhere = true;  ///< All windows have.
};

/// Instructions that text can repeat for arrays.
bool is_repeatable(const Instruction& instruction) {
  const Opcode opcode = instruction.opcode;
  return opcode == Opcode::kParameter || opcode == Opcode::kCompare ||
         opcode == Opcode::kConvert || opcode == Opcode::kSelect ||
         opcode == Opcode::kCopy || !facts_of(opcode).function.empty();
}

bool is_repeatable(const Computation& body, PrimitiveType result) {
  const Shape& root = body.at(body.root).shape;
  return body.instructions.size() <= kMostBodyInstructions &&
         parameters_of(body).size() == 2 && root.is_array() &&
         root.type == result &&
         std::ranges::all_of(body.instructions, [](const Instruction& one) {
           return one.shape.is_array() && one.shape.dimensions.empty() &&
                  is_repeatable(one);
         });
}

/// Adds a dimension: the windows that have its tap `tap` inside of the operand.
void find_windows(const WindowDimension& window, int64_t extent,
                  int64_t windows, int64_t tap, Tap* found) {
  const int64_t shift = tap - window.padding_low;
  const int64_t first =
      shift >= 0 ? 0 : (-shift + window.stride - 1) / window.stride;
  const int64_t room = extent - 1 - shift;
  const int64_t end =
      room < 0 ? 0 : std::min(windows, room / window.stride + 1);
  found->at.push_back(tap);
  found->first.push_back(first);
  found->count.push_back(std::max<int64_t>(end - first, 0));
  if (found->count.back() != windows) found->is_everywhere = false;
}

/// Those that some window has inside of the operand, in order. Requires: at
/// most kMostTaps.
std::vector<Tap> find_taps(const std::vector<WindowDimension>& window,
                           const ArrayExtents& extents,
                           const ArrayExtents& windows) {
  int64_t all = 1;
  for (const WindowDimension& dimension : window) all *= dimension.size;
  std::vector<Tap> taps;
  for (int64_t number = 0; number < all; ++number) {
    Tap tap;
    tap.number = number;
    int64_t inner = all, rest = number;
    for (size_t d = 0; d < window.size(); ++d) {
      inner /= window[d].size;
      find_windows(window[d], extents[d], windows[d], rest / inner, &tap);
      rest %= inner;
    }
    if (std::ranges::count(tap.count, 0) == 0) taps.push_back(std::move(tap));
  }
  return taps;
}

class PoolingGradient {
 public:
  PoolingGradient(const Shape& operand, const Shape& source,
                  const std::vector<WindowDimension>& window,
                  const Computation& select, const Computation& scatter)
      : extents_(operand.dimensions),
        windows_(source.dimensions),
        type_(primitive_type_name(operand.type)),
        window_(window),
        select_(select),
        scatter_(scatter),
        taps_(find_taps(window, extents_, windows_)),
        text_(operand.type) {}

  std::optional<std::string> run() {
    if (taps_.empty()) return std::nullopt;
    operand_ = add(type_, extents_, "parameter(0)");
    source_ = add(type_, windows_, "parameter(1)");
    initial_ = add(type_, {}, "parameter(2)");
    nowhere_ = add("s8", {}, "constant(-1)");
    const std::string result = scatter(choose());
    return text_.module(result, extents_);
  }

 private:
  /// [window] The number of the tap that it selects; -1: none is inside.
  std::string choose() {
    std::string best, chosen;
    bool is_chosen = false;  // By every window.
    for (const Tap& tap : taps_) {
      const std::string value = at_windows(slice(tap), type_, initial_, tap);
      const std::string number = tap_number(tap, windows_);
      if (best.empty()) {
        best = value;
        chosen = number;
        if (!tap.is_everywhere)
          chosen = choice("s8", is_inside(tap), number, nowhere());
      } else {
        const std::string none = is_chosen ? "" : is_equal(chosen, nowhere());
        const std::string takes = is_taken(tap, best, value, none);
        best = choice(type_, takes, value, best);
        chosen = choice("s8", takes, number, chosen);
      }
      is_chosen = is_chosen || tap.is_everywhere;
    }
    return chosen;
  }

  /// [window] Whether it takes `value` of `tap` for the `best` so far, or for
  /// `none`.
  std::string is_taken(const Tap& tap, const std::string& best,
                       const std::string& value, const std::string& none) {
    std::string takes = predicate(
        fmt::format("not({})", apply(select_, best, value, windows_)));
    if (!none.empty())
      takes = predicate(fmt::format("or({}, {})", takes, none));
    if (tap.is_everywhere) return takes;
    return predicate(fmt::format("and({}, {})", takes, is_inside(tap)));
  }

  /// [window] Whether it has the tap inside of the operand.
  std::string is_inside(const Tap& tap) {
    const std::string yes = add("pred", {}, "constant(true)");
    const std::string no = add("pred", {}, "constant(false)");
    return at_windows(broadcast("pred", tap.count, yes), "pred", no, tap);
  }

  /// Each element of the result, from the windows that chose it: the last taps
  /// are those of the first windows.
  std::string scatter(const std::string& chosen) {
    std::string result = broadcast(type_, extents_, initial_);
    for (auto tap = taps_.rbegin(); tap != taps_.rend(); ++tap) {
      const std::string padding = places_of_windows(*tap);
      const std::string number = add(
          "s8", extents_,
          fmt::format("pad({}, {}), padding={}", chosen, nowhere_, padding));
      const std::string value = add(
          type_, extents_,
          fmt::format("pad({}, {}), padding={}", source_, initial_, padding));
      const std::string is_here =
          add("pred", extents_,
              fmt::format("compare({}, {}), direction=EQ", number,
                          tap_number(*tap, extents_)));
      const std::string made = apply(scatter_, result, value, extents_);
      result = add(type_, extents_,
                   fmt::format("select({}, {}, {})", is_here, made, result));
    }
    return result;
  }

  /// Of each window that has the tap, its element.
  std::string slice(const Tap& tap) {
    std::vector<std::string> ranges;
    for (size_t d = 0; d < extents_.size(); ++d) {
      const int64_t stride = window_[d].stride;
      const int64_t start =
          tap.first[d] * stride + tap.at[d] - window_[d].padding_low;
      ranges.push_back(fmt::format("[{}:{}:{}]", start,
                                   start + (tap.count[d] - 1) * stride + 1,
                                   stride));
    }
    return add(type_, tap.count,
               fmt::format("slice({}), slice={{{}}}", operand_,
                           fmt::join(ranges, ",")));
  }

  /// An array of the windows that have a tap, as one of all windows.
  std::string at_windows(const std::string& array, std::string_view type,
                         const std::string& elsewhere, const Tap& tap) {
    if (tap.is_everywhere) return array;
    std::vector<std::string> padding;
    for (size_t d = 0; d < windows_.size(); ++d) {
      padding.push_back(fmt::format("{}_{}", tap.first[d],
                                    windows_[d] - tap.first[d] - tap.count[d]));
    }
    return add(type, windows_,
               fmt::format("pad({}, {}), padding={}", array, elsewhere,
                           fmt::join(padding, "x")));
  }

  /// Of a pad that puts each window where its tap lies in the result.
  std::string places_of_windows(const Tap& tap) const {
    std::vector<std::string> padding;
    for (size_t d = 0; d < windows_.size(); ++d) {
      const int64_t stride = window_[d].stride;
      const int64_t low = tap.at[d] - window_[d].padding_low;
      const int64_t span = (windows_[d] - 1) * stride + 1;
      padding.push_back(
          fmt::format("{}_{}_{}", low, extents_[d] - low - span, stride - 1));
    }
    return fmt::format("{}", fmt::join(padding, "x"));
  }

  /// What a computation makes of arrays, element by element.
  std::string apply(const Computation& body, const std::string& first,
                    const std::string& second, const ArrayExtents& shape) {
    std::vector<std::string> names;
    for (const Instruction& instruction : body.instructions) {
      if (instruction.opcode == Opcode::kParameter) {
        names.push_back(instruction.parameter_number == 0 ? first : second);
        continue;
      }
      std::vector<std::string> operands;
      for (const InstructionId operand : instruction.operands)
        operands.push_back(names[index_of(operand)]);
      std::string expression = fmt::format(
          "{}({})", opcode_name(instruction.opcode), fmt::join(operands, ", "));
      if (instruction.opcode == Opcode::kCompare) {
        expression += ", direction=" + compare_direction(instruction);
        if (compares_total_order(instruction))
          expression += ", type=TOTALORDER";
      }
      names.push_back(
          add(primitive_type_name(instruction.shape.type), shape, expression));
    }
    return names[index_of(body.root)];
  }

  std::string tap_number(const Tap& tap, const ArrayExtents& shape) {
    return broadcast("s8", shape,
                     add("s8", {}, fmt::format("constant({})", tap.number)));
  }
  std::string nowhere() { return broadcast("s8", windows_, nowhere_); }
  std::string broadcast(std::string_view type, const ArrayExtents& shape,
                        const std::string& scalar) {
    return text_.broadcast(type, shape, scalar);
  }

  // Of all windows.
  std::string choice(std::string_view type, const std::string& condition,
                     const std::string& yes, const std::string& no) {
    return add(type, windows_,
               fmt::format("select({}, {}, {})", condition, yes, no));
  }
  std::string is_equal(const std::string& a, const std::string& b) {
    return predicate(fmt::format("compare({}, {}), direction=EQ", a, b));
  }
  std::string predicate(const std::string& expression) {
    return add("pred", windows_, expression);
  }

  std::string add(std::string_view type, const ArrayExtents& shape,
                  const std::string& expression) {
    return text_.add(type, shape, expression);
  }

  const ArrayExtents &extents_, &windows_;  ///< Of operand and source.
  const std::string_view type_;
  const std::vector<WindowDimension>& window_;
  const Computation &select_, &scatter_;
  const std::vector<Tap> taps_;
  std::string operand_, source_, initial_, nowhere_;
  ProgramText text_;
};

bool has_few_plain_taps(const std::vector<WindowDimension>& window) {
  int64_t taps = 1;
  for (const WindowDimension& dimension : window) {
    taps *= dimension.size;  // Each below 2^31.
    if (taps == 0 || taps > kMostTaps || dimension.base_dilation != 1 ||
        dimension.window_dilation != 1 || dimension.reversal != 0)
      return false;
  }
  return true;
}

}  // namespace

std::optional<InlinedModule> expand_select_and_scatter(
    const Module& module, const Instruction& instruction) {
  const Computation& entry = module.entry_computation();
  const Shape& operand = entry.at(instruction.operands[0]).shape;
  const Shape& source = entry.at(instruction.operands[1]).shape;
  const Shape& initial = entry.at(instruction.operands[2]).shape;
  const size_t rank = operand.dimensions.size();
  if (rank == 0 || source.dimensions.size() != rank ||
      source.type != operand.type || initial.type != operand.type ||
      !initial.dimensions.empty() || element_count(operand) == 0 ||
      element_count(source) == 0)
    return std::nullopt;
  auto window = window_dimensions(instruction);
  if (window && window->empty()) window->resize(rank);
  if (!window || window->size() != rank || !has_few_plain_taps(*window))
    return std::nullopt;
  const auto select = called_computation(instruction, "select");
  const auto scatter = called_computation(instruction, "scatter");
  if (!select || !is_repeatable(module.at(*select), PrimitiveType::kPred) ||
      !scatter || !is_repeatable(module.at(*scatter), operand.type))
    return std::nullopt;
  const auto text = PoolingGradient(operand, source, *window,
                                    module.at(*select), module.at(*scatter))
                        .run();
  if (!text) return std::nullopt;
  // What the computations hold has been contracted where it is to be.
  return read_program(*text, instruction.name, Arithmetic::kAsWritten);
}

}  // namespace reprise

// One pass in text order, so that what an op reads has been looked through
// already. The place of a slice is a window per dimension, which each step
// toward the parts moves.
#include "data/hlo/slice_parts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/appended_ops.h"
#include "data/hlo/hlo.h"
#include "data/hlo/unrounded_reads.h"

namespace reprise {
namespace {

/// Larger constants are not read once more for each of their elements.
constexpr int64_t kLargestTable = 1024;

using Window = std::vector<SliceDimension>;

int64_t count_of(const SliceDimension& window) {
  return (window.limit - window.start - 1) / window.stride + 1;
}
int64_t last_of(const SliceDimension& window) {
  return window.start + (count_of(window) - 1) * window.stride;
}

/// Moved down by `by`, and no longer than its last element.
SliceDimension moved(const SliceDimension& window, int64_t by) {
  return {window.start - by, last_of(window) + 1 - by, window.stride};
}

/// Of one element, whose stride says nothing and may be as large as it likes.
void drop_idle_strides(Window* window) {
  for (SliceDimension& d : *window) {
    if (count_of(d) == 1) d = {d.start, d.start + 1, 1};
  }
}

/// What runs is verified only after this pass.
bool is_within(const Window& window, const Shape& shape) {
  if (window.size() != shape.dimensions.size()) return false;
  for (size_t d = 0; d < window.size(); ++d) {
    if (window[d].start < 0 || window[d].start >= window[d].limit ||
        window[d].limit > shape.dimensions[d] || window[d].stride < 1)
      return false;
  }
  return true;
}

bool is_all_of(const Window& window, const Shape& shape) {
  for (size_t d = 0; d < window.size(); ++d) {
    if (window[d].start != 0 || count_of(window[d]) != shape.dimensions[d])
      return false;
  }
  return true;
}

class Slicer {
 public:
  Slicer(Computation* computation, bool keeps_rounding)
      : computation_(*computation), keeps_rounding_(keeps_rounding) {}

  void run() {
    std::vector<Instruction> old = std::move(computation_.instructions);
    computation_.instructions.clear();
    for (Instruction& instruction : old) {
      renumber_references(renumbered_, &instruction);
      renumbered_.push_back(placed(std::move(instruction)));
    }
    computation_.root = renumbered_[index_of(computation_.root)];
    if (!has_changed_) return;
    drop_unread(
        [](const Instruction& op) {
          return op.opcode == Opcode::kConcatenate ||
                 op.opcode == Opcode::kSlice || op.opcode == Opcode::kPad ||
                 op.opcode == Opcode::kReshape ||
                 op.opcode == Opcode::kConstant;
        },
        &computation_);
  }

 private:
  /// Where the value of an instruction is, appended if it is nowhere yet.
  InstructionId placed(Instruction instruction) {
    if (!has_control_predecessors(instruction)) {
      std::optional<InstructionId> found;
      if (instruction.opcode == Opcode::kSlice)
        found = without_slice(&instruction);
      if (instruction.opcode == Opcode::kReshape)
        found = without_reshape(&instruction);
      if (found) {
        has_changed_ = true;
        return *found;
      }
    }
    computation_.instructions.push_back(std::move(instruction));
    return InstructionId(
        static_cast<uint32_t>(computation_.instructions.size() - 1));
  }

  /// What a slice reads whole; else the slice reads as small a part as it can.
  std::optional<InstructionId> without_slice(Instruction* slice) {
    Result<Window> window = slice_dimensions(*slice);
    const InstructionId first = slice->operands[0];
    if (!window || !is_within(*window, computation_.at(first).shape))
      return std::nullopt;
    drop_idle_strides(&*window);
    InstructionId from = first;
    for (Window moving = *window;;) {
      const auto part = part_of(from, &moving);
      if (!part || !is_within(moving, computation_.at(*part).shape)) break;
      from = *part;
      drop_idle_strides(&moving);
      *window = moving;
    }
    const Instruction& source = computation_.at(from);
    if (is_all_of(*window, source.shape)) return from;
    if (make_element(source, *window, slice)) {
      has_changed_ = true;
    } else if (from != first) {
      slice->operands[0] = from;
      std::erase_if(slice->attributes, [](const Attribute& attribute) {
        return attribute.name == "slice";
      });
      slice->attributes.push_back(slice_attribute(*window));
      has_changed_ = true;
    }
    return std::nullopt;
  }

  /// The operand that holds all of a window, which becomes one of it.
  std::optional<InstructionId> part_of(InstructionId id, Window* window) {
    const Instruction& whole = computation_.at(id);
    if (has_control_predecessors(whole)) return std::nullopt;
    switch (whole.opcode) {
      case Opcode::kConcatenate:
        return part_of_concatenation(id, window);
      case Opcode::kSlice:
        return part_of_slice(whole, window);
      case Opcode::kPad:
        return part_of_pad(whole, window);
      default:
        return std::nullopt;
    }
  }

  std::optional<InstructionId> part_of_concatenation(InstructionId id,
                                                     Window* window) {
    const Instruction& whole = computation_.at(id);
    const std::vector<int64_t> along = integer_list(whole, "dimensions");
    if (along.size() != 1 || along[0] < 0 || along[0] >= std::ssize(*window))
      return std::nullopt;
    const auto d = static_cast<size_t>(along[0]);
    std::vector<int64_t>& ends = ends_[id];
    if (ends.empty()) ends = ends_of_operands(whole, d);
    SliceDimension& place = (*window)[d];
    const auto end = std::upper_bound(ends.begin(), ends.end(), place.start);
    if (end == ends.end() || last_of(place) >= *end) return std::nullopt;
    place = moved(place, end == ends.begin() ? 0 : *std::prev(end));
    return whole.operands[static_cast<size_t>(end - ends.begin())];
  }

  /// Where each operand of a concatenation ends in it.
  std::vector<int64_t> ends_of_operands(const Instruction& whole,
                                        size_t dimension) const {
    std::vector<int64_t> ends;
    int64_t end = 0;
    for (const InstructionId operand : whole.operands) {
      const Shape& shape = computation_.at(operand).shape;
      end +=
          dimension < shape.dimensions.size() ? shape.dimensions[dimension] : 0;
      ends.push_back(end);
    }
    return ends;
  }

  static std::optional<InstructionId> part_of_slice(const Instruction& whole,
                                                    Window* window) {
    Result<Window> outer = slice_dimensions(whole);
    if (!outer || outer->size() != window->size()) return std::nullopt;
    drop_idle_strides(&*outer);
    for (size_t d = 0; d < window->size(); ++d) {
      SliceDimension& inner = (*window)[d];
      const auto of_operand = [&](int64_t place) {
        return (*outer)[d].start + place * (*outer)[d].stride;
      };
      const int64_t last = of_operand(last_of(inner));
      inner = {of_operand(inner.start), last + 1,
               inner.stride * (*outer)[d].stride};
    }
    return whole.operands[0];
  }

  std::optional<InstructionId> part_of_pad(const Instruction& whole,
                                           Window* window) const {
    const Result<std::vector<PadDimension>> pads = pad_dimensions(whole);
    if (!pads || pads->size() != window->size()) return std::nullopt;
    const Shape& shape = computation_.at(whole.operands[0]).shape;
    if (shape.dimensions.size() != window->size()) return std::nullopt;
    for (size_t d = 0; d < window->size(); ++d) {
      const auto& [low, high, interior] = (*pads)[d];
      SliceDimension& place = (*window)[d];
      if (interior != 0 || low > place.start || low < -shape.dimensions[d])
        return std::nullopt;
      place = moved(place, low);
    }
    return whole.operands[0];
  }

  /// Makes a slice of one element of a constant the constant.
  static bool make_element(const Instruction& source, const Window& window,
                           Instruction* slice) {
    if (source.opcode != Opcode::kConstant ||
        element_count(slice->shape) != 1 ||
        element_count(source.shape) > kLargestTable)
      return false;
    const auto words = literal_words(source);
    if (!words) return false;
    int64_t place = 0;
    for (size_t d = 0; d < window.size(); ++d)
      place = place * source.shape.dimensions[d] + window[d].start;
    make_constant((*words)[static_cast<size_t>(place)], slice);
    return true;
  }

  static void make_constant(std::string_view word, Instruction* op) {
    const size_t rank = op->shape.dimensions.size();
    op->literal =
        std::string(rank, '{') + std::string(word) + std::string(rank, '}');
    op->opcode = Opcode::kConstant;
    op->opcode_text.clear();
    op->operands.clear();
    std::erase_if(op->attributes, [](const Attribute& attribute) {
      return attribute.name != "metadata";
    });
  }

  /// What had a reshape's shape before other reshapes; one of a constant's
  /// only element becomes a constant.
  std::optional<InstructionId> without_reshape(Instruction* reshape) {
    // A reshape that is here reads before all others already.
    const InstructionId first = reshape->operands[0];
    const Instruction& before = computation_.at(first);
    const bool is_view =
        before.opcode == Opcode::kReshape && !has_control_predecessors(before);
    const InstructionId from = is_view ? before.operands[0] : first;
    const Instruction& source = computation_.at(from);
    if (source.shape.type == reshape->shape.type &&
        source.shape.dimensions == reshape->shape.dimensions &&
        !(keeps_rounding_ && is_rounded(source)))
      return from;
    has_changed_ = has_changed_ || is_view;
    reshape->operands[0] = from;
    if (source.opcode != Opcode::kConstant || element_count(source.shape) != 1)
      return std::nullopt;
    const auto words = literal_words(source);
    if (!words) return std::nullopt;
    make_constant(words->front(), reshape);
    has_changed_ = true;
    return std::nullopt;
  }

  Computation& computation_;
  std::vector<InstructionId> renumbered_;  ///< [old instruction]
  /// Of concatenations that slices read.
  std::map<InstructionId, std::vector<int64_t>> ends_;
  bool has_changed_ = false;
  const bool keeps_rounding_;
};

}  // namespace

void slice_parts(Computation* computation, bool keeps_rounding) {
  Slicer(computation, keeps_rounding).run();
}

}  // namespace reprise

#include "data/hlo/sum_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// Elements of a step that several dimensions share, where the minor dimension
/// stays.
constexpr int64_t kMostShared = 64;
/// Elements of a step over the minor dimension, which kLanes partial sums
/// share.
constexpr int64_t kMostOfRow = 65536;
/// Elements along one dimension, which is parted where it has more: where the
/// minor dimension stays, and where not.
constexpr int64_t kLongColumn = 16384, kLongRow = kMostOfRow;
/// Rows that are summed by blocks from so many on, where the sum is of as many
/// elements as threads share (some 20 us) and fewer dimensions lie outside than
/// keep them busy: into kBlocks blocks or more.
constexpr int64_t kManyRows = 128, kManyElements = 65536, kBlocks = 8;

bool is_plain_sum(const Module& module, const Computation& entry,
                  const Instruction& reduce) {
  return reduce.opcode == Opcode::kReduce && reduce.operands.size() == 2 &&
         reduce.shape.is_array() &&
         combining_opcode(module, reduce) == Opcode::kAdd &&
         integer_constant(entry.at(reduce.operands[1])) == 0;
}

/// Dimensions of the operand by step, the innermost first, of at most `most`
/// elements where several share one; those of extent 1 are in the last.
std::vector<std::vector<int64_t>> parted(const Shape& operand,
                                         std::vector<int64_t> reduced,
                                         int64_t most) {
  std::sort(reduced.rbegin(), reduced.rend());
  std::vector<std::vector<int64_t>> steps;
  std::vector<int64_t> rest;
  int64_t shared = most;
  for (const int64_t d : reduced) {
    const int64_t extent = operand.dimensions[static_cast<size_t>(d)];
    if (extent == 1) {
      rest.push_back(d);
      continue;
    }
    if (steps.empty() || shared * extent > most) {
      steps.emplace_back();
      shared = 1;
    }
    steps.back().push_back(d);
    shared *= extent;
  }
  if (!steps.empty())
    steps.back().insert(steps.back().end(), rest.begin(), rest.end());
  return steps;
}

/// The innermost dimension of more than one element stays.
bool keeps_minor(const Shape& operand, const std::vector<int64_t>& reduced) {
  for (size_t d = operand.dimensions.size(); d-- > 0;) {
    if (operand.dimensions[d] == 1) continue;
    return std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) ==
           reduced.end();
  }
  return false;
}

/// A divisor near the root, of whole cache lines if there is one; 1 where all
/// are small.
int64_t middle_divisor(int64_t extent) {
  const auto root =
      static_cast<int64_t>(std::sqrt(static_cast<double>(extent)));
  constexpr int64_t kLeast = 64, kLine = 16;
  int64_t best = 1;
  for (int64_t d = std::min(4 * root, extent / kLeast); d >= kLeast; --d) {
    if (extent % d != 0) continue;
    if (d % kLine == 0) return d;
    best = std::max(best, d);
  }
  return best;
}

/// The greatest divisor that leaves kBlocks blocks or more, of few elements
/// each unless they are many; 1 where blocks would be so short that their sums
/// were many, too.
int64_t block_divisor(int64_t extent) {
  const auto root =
      static_cast<int64_t>(std::sqrt(static_cast<double>(extent)));
  int64_t d = std::min(std::max(root, kMostShared), extent / kBlocks);
  while (extent % d != 0) --d;
  constexpr int64_t kShortest = 8;
  return d < kShortest ? 1 : d;
}

/// A sum whose long dimensions are two each, if any is.
struct PartedSum {
  Shape operand;
  std::vector<int64_t> reduced;
};

PartedSum part_long_dimensions(const Shape& operand,
                               const std::vector<int64_t>& reduced,
                               bool keeps_minor, bool by_blocks) {
  PartedSum sum;
  sum.operand.type = operand.type;
  std::vector<int64_t>& extents = sum.operand.dimensions;
  const bool is_shared =
      by_blocks && keeps_minor && element_count(operand) >= kManyElements;
  int64_t outside = 1;
  for (size_t d = 0; d < operand.dimensions.size(); ++d) {
    const int64_t extent = operand.dimensions[d];
    const bool is_reduced = std::find(reduced.begin(), reduced.end(),
                                      static_cast<int64_t>(d)) != reduced.end();
    int64_t inner = 1;
    if (is_reduced && extent > (keeps_minor ? kLongColumn : kLongRow)) {
      inner = middle_divisor(extent);
    } else if (is_reduced && is_shared && extent >= kManyRows &&
               outside < kBlocks) {
      inner = block_divisor(extent);
    }
    outside *= extent;
    if (is_reduced) sum.reduced.push_back(static_cast<int64_t>(extents.size()));
    extents.push_back(extent / inner);
    if (inner == 1) continue;
    sum.reduced.push_back(static_cast<int64_t>(extents.size()));
    extents.push_back(inner);
  }
  return sum;
}

/// Sums of windows, and of these, until one step is left.
class WindowSteps {
 public:
  WindowSteps(const Instruction& reduce, const Shape& operand)
      : reduce_(reduce), reduced_(integer_list(reduce, "dimensions")) {
    shape_.type = operand.type;
    shape_.dimensions = operand.dimensions;
  }

  std::vector<Instruction> run() {
    while (is_long()) {
      append_pad();
      append_sums();
    }
    if (!steps_.empty()) steps_.push_back(reduce_);
    return std::move(steps_);
  }

 private:
  [[nodiscard]] int64_t extent(int64_t dimension) const {
    return shape_.dimensions[static_cast<size_t>(dimension)];
  }

  [[nodiscard]] bool is_long() const {
    return std::any_of(reduced_.begin(), reduced_.end(),
                       [&](int64_t d) { return extent(d) > kSumWindow; });
  }

  [[nodiscard]] bool is_reduced(size_t dimension) const {
    return std::find(reduced_.begin(), reduced_.end(),
                     static_cast<int64_t>(dimension)) != reduced_.end();
  }

  Instruction& append(Opcode opcode) {
    Instruction& step = steps_.emplace_back();
    step.opcode = opcode;
    step.operands = reduce_.operands;
    if (opcode == Opcode::kReshape) step.operands.pop_back();
    for (const Attribute& attribute : reduce_.attributes) {
      if (opcode == Opcode::kReduce || attribute.name == "metadata")
        step.attributes.push_back(attribute);
    }
    step.name = fmt::format("{}/{}", reduce_.name, steps_.size());
    return step;
  }

  /// To whole windows, as many zeros before as after.
  void append_pad() {
    std::vector<std::string> padding;
    bool is_needed = false;
    for (size_t d = 0; d < shape_.dimensions.size(); ++d) {
      int64_t& all = shape_.dimensions[d];
      const int64_t more = is_reduced(d) && all > kSumWindow
                               ? (kSumWindow - all % kSumWindow) % kSumWindow
                               : 0;
      padding.push_back(fmt::format("{}_{}", more / 2, more - more / 2));
      is_needed = is_needed || more > 0;
      all += more;
    }
    if (!is_needed) return;
    Instruction& pad = append(Opcode::kPad);
    pad.shape = shape_;
    pad.attributes.push_back(
        {"padding", RawText{fmt::format("{}", fmt::join(padding, "x"))}});
  }

  void append_sums() {
    Shape cut, left;
    cut.type = left.type = shape_.type;
    std::vector<int64_t> places;
    for (size_t d = 0; d < shape_.dimensions.size(); ++d) {
      const int64_t all = shape_.dimensions[d];
      const int64_t window = is_reduced(d) ? std::min(all, kSumWindow) : 1;
      cut.dimensions.push_back(all / window);
      left.dimensions.push_back(all / window);
      if (!is_reduced(d)) continue;
      places.push_back(static_cast<int64_t>(cut.dimensions.size()));
      cut.dimensions.push_back(window);
    }
    append(Opcode::kReshape).shape = std::move(cut);
    Instruction& sums = append(Opcode::kReduce);
    for (Attribute& attribute : sums.attributes) {
      if (attribute.name == "dimensions") attribute.value = places;
    }
    sums.shape = shape_ = std::move(left);
  }

  const Instruction& reduce_;
  const std::vector<int64_t> reduced_;
  Shape shape_;  ///< What is left to be summed, in as many dimensions.
  std::vector<Instruction> steps_;
};

Instruction reshape_before(const Instruction& reduce, const Shape& shape) {
  Instruction step;
  step.opcode = Opcode::kReshape;
  step.name = reduce.name + "/1";
  step.shape = shape;
  step.operands = {reduce.operands[0]};
  for (const Attribute& attribute : reduce.attributes) {
    if (attribute.name == "metadata") step.attributes.push_back(attribute);
  }
  return step;
}

}  // namespace

std::vector<Instruction> sum_steps(const Module& module,
                                   const Computation& entry,
                                   const Instruction& reduce, bool by_blocks) {
  if (!is_plain_sum(module, entry, reduce)) return {};
  const Shape& operand = entry.at(reduce.operands[0]).shape;
  if (is_half(operand.type)) return WindowSteps(reduce, operand).run();
  if (operand.type != PrimitiveType::kF32) return {};
  const std::vector<int64_t> whole = integer_list(reduce, "dimensions");
  const bool keeps = keeps_minor(operand, whole);
  const PartedSum sum = part_long_dimensions(operand, whole, keeps, by_blocks);
  const std::vector<std::vector<int64_t>> wanted =
      parted(sum.operand, sum.reduced, keeps ? kMostShared : kMostOfRow);
  if (wanted.size() < 2) return {};
  std::vector<Instruction> steps;
  if (sum.operand.dimensions != operand.dimensions)
    steps.push_back(reshape_before(reduce, sum.operand));
  std::vector<int64_t> left(sum.operand.dimensions.size());  // Of `sum`'s.
  for (size_t d = 0; d < left.size(); ++d) left[d] = static_cast<int64_t>(d);
  for (const std::vector<int64_t>& dimensions : wanted) {
    Instruction& step = steps.emplace_back(reduce);
    step.name = fmt::format("{}/{}", reduce.name, steps.size());
    std::vector<int64_t> places, kept, extents;
    for (size_t k = 0; k < left.size(); ++k) {
      if (std::find(dimensions.begin(), dimensions.end(), left[k]) !=
          dimensions.end()) {
        places.push_back(static_cast<int64_t>(k));
        continue;
      }
      kept.push_back(left[k]);
      extents.push_back(sum.operand.dimensions[static_cast<size_t>(left[k])]);
    }
    for (Attribute& attribute : step.attributes) {
      if (attribute.name == "dimensions") attribute.value = places;
    }
    step.shape = Shape{};
    step.shape.type = operand.type;
    step.shape.dimensions = std::move(extents);
    left = std::move(kept);
  }
  steps.back().name = reduce.name;
  steps.back().shape = reduce.shape;
  return steps;
}

}  // namespace reprise

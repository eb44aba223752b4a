#include "data/hlo/small_dot.h"

#include <string_view>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

constexpr std::string_view kNote = "reprise_dot=\"kernel\"";

/// Of one of many matrices: multiplications, and those of an element.
constexpr int64_t kMostProducts = 128, kMostDepth = 8;

int64_t extent_of(const Shape& shape, const std::vector<int64_t>& dimensions) {
  int64_t extent = 1;
  for (const int64_t d : dimensions)
    extent *= shape.dimensions.at(static_cast<size_t>(d));
  return extent;
}

bool is_small(const Computation& computation, const Instruction& dot) {
  if (dot.opcode != Opcode::kDot || dot.operands.size() != 2) return false;
  const Shape &lhs = computation.at(dot.operands[0]).shape,
              &rhs = computation.at(dot.operands[1]).shape;
  const PrimitiveType type = dot.shape.type;
  if ((type != PrimitiveType::kF32 && type != PrimitiveType::kF64) ||
      lhs.type != type || rhs.type != type)
    return false;
  const DotDimensions at = dot_dimensions(dot);
  const int64_t depth = extent_of(lhs, at.lhs_contracting);
  if (depth == 1) return true;
  const int64_t matrices = extent_of(lhs, at.lhs_batch);
  return depth <= kMostDepth && matrices > 1 &&
         element_count(dot.shape) / matrices * depth <= kMostProducts;
}

}  // namespace

void note_small_dots(Computation* computation) {
  for (Instruction& dot : computation->instructions) {
    if (is_small(*computation, dot) && !has_note(dot.attributes, kNote))
      add_note(kNote, &dot.attributes);
  }
}

bool is_small_dot(const Computation& computation, const Instruction& dot) {
  return has_note(dot.attributes, kNote) && is_small(computation, dot);
}

}  // namespace reprise

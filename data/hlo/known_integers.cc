#include "data/hlo/known_integers.h"

#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

constexpr int64_t kMostElements = 16;

bool is_followed(const Shape& shape) {
  return (shape.type == PrimitiveType::kS32 ||
          shape.type == PrimitiveType::kU32) &&
         shape.dimensions.size() <= 1 && element_count(shape) <= kMostElements;
}

/// The numbers of a literal, `7` or `{13, 15}`; empty if it is no such.
std::vector<uint32_t> numbers(std::string_view literal) {
  std::vector<uint32_t> found;
  constexpr std::string_view kBetween = "{}, ";
  for (;;) {
    const size_t next = literal.find_first_not_of(kBetween);
    if (next == std::string_view::npos) return found;
    literal.remove_prefix(next);
    int64_t number = 0;
    const auto parsed = std::from_chars(
        literal.data(), literal.data() + literal.size(), number);
    if (parsed.ec != std::errc()) return {};
    found.push_back(static_cast<uint32_t>(number));
    literal.remove_prefix(static_cast<size_t>(parsed.ptr - literal.data()));
  }
}

std::string literal_of(const Shape& shape,
                       const std::vector<uint32_t>& values) {
  std::string text;
  for (const uint32_t value : values) {
    if (!text.empty()) text += ", ";
    text += shape.type == PrimitiveType::kS32
                ? std::to_string(static_cast<int32_t>(value))
                : std::to_string(value);
  }
  return shape.dimensions.empty() ? text : "{" + text + "}";
}

}  // namespace

std::optional<std::string> KnownIntegers::note(const Instruction& op) {
  Values values = is_followed(op.shape) ? computed(op) : Values();
  if (static_cast<int64_t>(values.size()) != element_count(op.shape))
    values.clear();
  std::optional<std::string> literal;
  if (!values.empty() && op.opcode != Opcode::kConstant)
    literal = literal_of(op.shape, values);
  values_.push_back(std::move(values));
  return literal;
}

KnownIntegers::Values KnownIntegers::computed(const Instruction& op) const {
  if (op.opcode == Opcode::kConstant) return numbers(op.literal);
  if (op.operands.empty() || of(op.operands[0]).empty()) return {};
  const Values& first = of(op.operands[0]);
  switch (op.opcode) {
    case Opcode::kConvert:
    case Opcode::kReshape:
      return first;
    case Opcode::kSlice: {
      const auto slices = slice_dimensions(op);
      if (!slices || slices->size() != 1) return {};
      Values values;
      for (int64_t at = (*slices)[0].start; at < (*slices)[0].limit;
           at += (*slices)[0].stride)
        values.push_back(first[static_cast<size_t>(at)]);
      return values;
    }
    case Opcode::kAdd:
    case Opcode::kSubtract: {
      Values values = first;
      const Values& second = of(op.operands[1]);
      if (second.size() != first.size()) return {};
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = op.opcode == Opcode::kAdd ? first[i] + second[i]
                                              : first[i] - second[i];
      return values;
    }
    default:
      return {};
  }
}

}  // namespace reprise

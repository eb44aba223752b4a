#include "data/hlo/declared_type.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "data/narrow_type.h"

namespace reprise {
namespace {

constexpr std::string_view kFrontend = "frontend_attributes";
/// Of either complex type: its parts tell which. As in plans' fingerprints.
constexpr std::string_view kComplexMark = "{interleaved_complex=\"true\"}";
constexpr std::string_view kDeclared = "{declared_type=\"",
                           kDeclaredEnd = "\"}";

/// The mark's text; "" where there is none.
std::string_view mark_of(const Instruction& border) {
  const Attribute* found = border.find_attribute(kFrontend);
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string_view() : raw->text;
}

/// Names of types, one an array, separated by commas.
std::string_view declared_names(std::string_view mark) {
  if (!mark.starts_with(kDeclared) || !mark.ends_with(kDeclaredEnd)) return {};
  mark.remove_prefix(kDeclared.size());
  mark.remove_suffix(std::min(kDeclaredEnd.size(), mark.size()));
  return mark;
}

std::string_view take_name(std::string_view* names) {
  const size_t end = std::min(names->find(','), names->size());
  const std::string_view name = names->substr(0, end);
  names->remove_prefix(std::min(end + 1, names->size()));
  return name;
}

void take_declared(std::string_view* names, Shape* array) {
  const auto type = primitive_type_from_name(take_name(names));
  if (type && stored_type(*type) == array->type) array->type = *type;
}

}  // namespace

void declare_type(const Shape& shape, Instruction* border) {
  std::erase_if(border->attributes,
                [](const Attribute& other) { return other.name == kFrontend; });
  std::string mark(kComplexMark);
  if (!is_complex(shape.type)) {
    mark = kDeclared;
    mark += primitive_type_name(shape.type);
    for (const Shape& element : shape.elements) {
      if (&element != &shape.elements.front()) mark += ',';
      mark += primitive_type_name(element.type);
    }
    mark += kDeclaredEnd;
  }
  border->attributes.push_back(
      {std::string(kFrontend), RawText{std::move(mark)}});
}

PrimitiveType declared_type(const Instruction& parameter) {
  const Shape& shape = parameter.shape;
  if (mark_of(parameter) != kComplexMark)
    return declared_elements(parameter).type;
  const PrimitiveType type = shape.type == PrimitiveType::kF64
                                 ? PrimitiveType::kC128
                                 : PrimitiveType::kC64;
  const bool is_pair = !shape.dimensions.empty() &&
                       shape.dimensions.back() == 2 &&
                       part_type(type) == shape.type;
  return is_pair ? type : shape.type;
}

Shape declared_elements(const Instruction& border) {
  Shape shape = border.shape;
  std::string_view names = declared_names(mark_of(border));
  if (shape.is_array()) take_declared(&names, &shape);
  for (Shape& element : shape.elements) take_declared(&names, &element);
  return shape;
}

}  // namespace reprise

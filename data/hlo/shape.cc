// Sizes of shapes and their text.
#include <fmt/format.h>

#include "data/hlo/module.h"

namespace reprise {
namespace {

void append_layout(const Shape& shape, std::string* out) {
  out->push_back('{');
  for (size_t i = 0; i < shape.minor_to_major.size(); ++i) {
    if (i > 0) out->push_back(',');
    fmt::format_to(std::back_inserter(*out), "{}", shape.minor_to_major[i]);
  }
  if (!shape.layout_suffix.empty()) {
    out->push_back(':');
    out->append(shape.layout_suffix);
  }
  out->push_back('}');
}

void append_array(const Shape& shape, bool with_layout, std::string* out) {
  out->append(primitive_type_name(shape.type));
  out->push_back('[');
  for (size_t i = 0; i < shape.dimensions.size(); ++i) {
    if (i > 0) out->push_back(',');
    if (!shape.dynamic.empty() && shape.dynamic[i]) out->append("<=");
    fmt::format_to(std::back_inserter(*out), "{}", shape.dimensions[i]);
  }
  out->push_back(']');
  if (with_layout && shape.has_layout) append_layout(shape, out);
}

void append_shape(const Shape& shape, bool with_layout, std::string* out) {
  if (!shape.is_tuple()) return append_array(shape, with_layout, out);
  out->push_back('(');
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    if (i > 0) out->append(", ");
    append_shape(shape.elements[i], with_layout, out);
  }
  out->push_back(')');
}

}  // namespace

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape.dimensions) count *= extent;
  return count;
}

int64_t byte_size(const Shape& shape) {
  if (shape.is_tuple()) {
    int64_t total = 0;
    for (const Shape& element : shape.elements) total += byte_size(element);
    return total;
  }
  const int64_t count = element_count(shape);
  const int bits = primitive_type_bits(shape.type);
  return bits >= 8 ? count * (bits / 8)
                   : (count / 8) * bits + ((count % 8) * bits + 7) / 8;
}

std::string shape_text(const Shape& shape, bool with_layout) {
  std::string out;
  append_shape(shape, with_layout, &out);
  return out;
}

}  // namespace reprise

#include "data/manifest/filed_tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "data/element.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

bool is_four_bits(PrimitiveType type) {
  return type == PrimitiveType::kS4 || type == PrimitiveType::kU4;
}

bool holds_type(const TensorEntry& tensor, PrimitiveType type) {
  return tensor.type
             ? *tensor.type == filed_type(type)
             : tensor.element_bytes == static_cast<int64_t>(stored_bytes(type));
}

double as_byte(PrimitiveType type, char byte) {
  return load_element(type, reinterpret_cast<const std::byte*>(&byte));
}

/// The 4 last bits alone: ml_dtypes leaves out the signs of s4 in raw bytes.
std::byte last_bits(PrimitiveType type, std::byte byte) {
  const int bits = std::to_integer<int>(byte) & 15;
  const int sign = type == PrimitiveType::kS4 ? bits & 8 : 0;
  return static_cast<std::byte>(bits - 2 * sign);
}

}  // namespace

std::string tensor_complaint(const TensorEntry& tensor, PrimitiveType type,
                             const std::vector<int64_t>& dimensions) {
  if (!holds_type(tensor, type) || tensor.dimensions != dimensions) {
    std::string expected = fmt::format("{}[{}]", primitive_type_name(type),
                                       fmt::join(dimensions, ","));
    if (filed_type(type) != type)
      expected += fmt::format(", as {}", primitive_type_name(filed_type(type)));
    return fmt::format(" is {}, the program's is {}", tensor.text(), expected);
  }
  if (!tensor.type || !is_four_bits(type)) return {};
  const auto beyond = [&](char byte) {
    std::byte nearest;
    const double value = as_byte(type, byte);
    store_element(type, value, &nearest);
    return load_element(type, &nearest) != value;
  };
  const auto* found =
      std::find_if(tensor.bytes.begin(), tensor.bytes.end(), beyond);
  if (found == tensor.bytes.end()) return {};
  return fmt::format(" has {} as element {}, which no {} is",
                     as_byte(type, *found), found - tensor.bytes.begin(),
                     primitive_type_name(type));
}

void copy_elements(const TensorEntry& tensor, PrimitiveType type, size_t place,
                   std::span<std::byte> out) {
  if (out.empty()) return;
  std::memcpy(out.data(), tensor.bytes.data() + place, out.size());
  if (!is_four_bits(type)) return;
  for (std::byte& byte : out) byte = last_bits(type, byte);
}

}  // namespace reprise

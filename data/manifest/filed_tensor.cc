#include "data/manifest/filed_tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "data/element.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

bool is_part_of_byte(PrimitiveType type) {
  return primitive_type_bits(type) < 8;
}

bool holds_type(const TensorEntry& tensor, PrimitiveType type) {
  return tensor.type
             ? *tensor.type == filed_type(type)
             : tensor.element_bytes == static_cast<int64_t>(stored_bytes(type));
}

/// The type's last bits alone: ml_dtypes leaves out the signs of s4 in raw
/// bytes.
std::byte last_bits(PrimitiveType type, std::byte byte) {
  const int sign_bit = 1 << (primitive_type_bits(type) - 1);
  const int bits = std::to_integer<int>(byte) & (2 * sign_bit - 1);
  const bool is_signed = stored_type(type) == PrimitiveType::kS8;
  return static_cast<std::byte>(bits - (is_signed ? 2 * (bits & sign_bit) : 0));
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
  if (!tensor.type || !is_part_of_byte(type)) return {};
  const auto* found = std::find_if(
      tensor.bytes.begin(), tensor.bytes.end(), [&](char character) {
        const auto byte = static_cast<std::byte>(character);
        return last_bits(type, byte) != byte;
      });
  if (found == tensor.bytes.end()) return {};
  const auto* byte = reinterpret_cast<const std::byte*>(&*found);
  return fmt::format(" has {} as element {}, which no {} is",
                     load_element(stored_type(type), byte),
                     found - tensor.bytes.begin(), primitive_type_name(type));
}

void copy_elements(const TensorEntry& tensor, PrimitiveType type, size_t place,
                   std::span<std::byte> out) {
  if (out.empty()) return;
  std::memcpy(out.data(), tensor.bytes.data() + place, out.size());
  if (!is_part_of_byte(type)) return;
  for (std::byte& byte : out) byte = last_bits(type, byte);
}

}  // namespace reprise

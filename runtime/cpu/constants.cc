#include "runtime/cpu/constants.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

template <typename T>
Status write_as(const std::vector<double>& values, std::span<std::byte> out) {
  REPRISE_CHECK(out.size() == values.size() * sizeof(T));
  std::byte* at = out.data();
  for (const double value : values) {
    const T element = static_cast<T>(value);
    std::memcpy(at, &element, sizeof element);
    at += sizeof element;
  }
  return {};
}

/// For integers that a double does not hold.
template <typename T>
Status write_exactly(const std::vector<std::string_view>& words,
                     std::span<std::byte> out) {
  REPRISE_CHECK(out.size() == words.size() * sizeof(T));
  std::byte* at = out.data();
  for (const std::string_view word : words) {
    T element = 0;
    std::from_chars(word.data(), word.data() + word.size(), element);
    std::memcpy(at, &element, sizeof element);
    at += sizeof element;
  }
  return {};
}

}  // namespace

Status write_constant(const Instruction& constant, std::span<std::byte> out) {
  const Result<std::vector<std::string_view>> words = literal_words(constant);
  if (!words) return pass(words.error());
  if (constant.shape.type == PrimitiveType::kS64)
    return write_exactly<int64_t>(*words, out);
  if (constant.shape.type == PrimitiveType::kU64)
    return write_exactly<uint64_t>(*words, out);
  const Result<std::vector<double>> values = literal_values(constant);
  if (!values) return pass(values.error());
  switch (constant.shape.type) {
    case PrimitiveType::kPred:
    case PrimitiveType::kU8:
      return write_as<uint8_t>(*values, out);
    case PrimitiveType::kS8:
      return write_as<int8_t>(*values, out);
    case PrimitiveType::kS16:
      return write_as<int16_t>(*values, out);
    case PrimitiveType::kU16:
      return write_as<uint16_t>(*values, out);
    case PrimitiveType::kS32:
      return write_as<int32_t>(*values, out);
    case PrimitiveType::kU32:
      return write_as<uint32_t>(*values, out);
    case PrimitiveType::kF32:
      return write_as<float>(*values, out);
    case PrimitiveType::kF64:
      return write_as<double>(*values, out);
    default:
      return fail(ErrorKind::kUnsupported, "constant of {}",
                  primitive_type_name(constant.shape.type));
  }
}

}  // namespace reprise

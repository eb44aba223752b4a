// The types of array elements, XLA's list (xla/xla_data.proto): of programs,
// of recorded collectives, of plans and of prices.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

enum class PrimitiveType : uint8_t {
  kPred,
  kS2,
  kS4,
  kS8,
  kS16,
  kS32,
  kS64,
  kU2,
  kU4,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3FN,
  kF8E5M2,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kF8E4M3B11FNUZ,
  kF8E4M3,
  kF8E3M4,
  kF8E8M0FNU,
  kF4E2M1FN,
  kC64,
  kC128,
  kToken,
  kOpaque,
  kTuple,
};

/// Spelling in HLO text ("f32"); kTuple has none.
std::string_view primitive_type_name(PrimitiveType type);
std::optional<PrimitiveType> primitive_type_from_name(std::string_view name);
/// c64 and c128.
bool is_complex(PrimitiveType type);
/// Of the real and of the imaginary part of a complex number; any other type
/// itself.
PrimitiveType part_type(PrimitiveType type);
/// Bits of one element: pred 8, s4/u4/f4 4, s2/u2 2; 0 for token, opaque and
/// tuple.
int primitive_type_bits(PrimitiveType type);

}  // namespace reprise

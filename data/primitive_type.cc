#include "data/primitive_type.h"

#include <array>

namespace reprise {
namespace {

struct TypeRow {
  PrimitiveType type;
  std::string_view name;
  int bits;
};

using T = PrimitiveType;
constexpr std::array<TypeRow, 31> kTypes = {{
    {T::kPred, "pred", 8},
    {T::kS2, "s2", 2},
    {T::kS4, "s4", 4},
    {T::kS8, "s8", 8},
    {T::kS16, "s16", 16},
    {T::kS32, "s32", 32},
    {T::kS64, "s64", 64},
    {T::kU2, "u2", 2},
    {T::kU4, "u4", 4},
    {T::kU8, "u8", 8},
    {T::kU16, "u16", 16},
    {T::kU32, "u32", 32},
    {T::kU64, "u64", 64},
    {T::kF16, "f16", 16},
    {T::kBF16, "bf16", 16},
    {T::kF32, "f32", 32},
    {T::kF64, "f64", 64},
    {T::kF8E4M3FN, "f8e4m3fn", 8},
    {T::kF8E5M2, "f8e5m2", 8},
    {T::kF8E4M3FNUZ, "f8e4m3fnuz", 8},
    {T::kF8E5M2FNUZ, "f8e5m2fnuz", 8},
    {T::kF8E4M3B11FNUZ, "f8e4m3b11fnuz", 8},
    {T::kF8E4M3, "f8e4m3", 8},
    {T::kF8E3M4, "f8e3m4", 8},
    {T::kF8E8M0FNU, "f8e8m0fnu", 8},
    {T::kF4E2M1FN, "f4e2m1fn", 4},
    {T::kC64, "c64", 64},
    {T::kC128, "c128", 128},
    {T::kToken, "token", 0},
    {T::kOpaque, "opaque", 0},
    {T::kTuple, "", 0},
}};

const TypeRow& row(PrimitiveType type) {
  return kTypes[static_cast<size_t>(type)];
}

}  // namespace

std::string_view primitive_type_name(PrimitiveType type) {
  return row(type).name;
}

std::optional<PrimitiveType> primitive_type_from_name(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const TypeRow& candidate : kTypes) {
    if (candidate.name == name) return candidate.type;
  }
  return std::nullopt;
}

int primitive_type_bits(PrimitiveType type) { return row(type).bits; }

bool is_complex(PrimitiveType type) {
  return type == PrimitiveType::kC64 || type == PrimitiveType::kC128;
}

PrimitiveType part_type(PrimitiveType type) {
  if (type == PrimitiveType::kC64) return PrimitiveType::kF32;
  return type == PrimitiveType::kC128 ? PrimitiveType::kF64 : type;
}

}  // namespace reprise

// Element operations of the interpreter: each opcode over a block of elements
// of one type, by the math prelude. Included by interpreter.cc alone, which
// sets the flags that keep the bits.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "data/hlo/module.h"

namespace reprise {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "runtime/kernels/prelude.inc"
#include "runtime/kernels/prelude_functions.inc"
#include "runtime/kernels/prelude_functions_f64.inc"

/// Calls `call` with a value of the C++ type that computes `type`.
template <typename Call>
void with_type(PrimitiveType type, Call&& call) {
  switch (type) {
    case PrimitiveType::kPred:
      call(bool{});
      break;
    case PrimitiveType::kS8:
      call(static_cast<signed char>(0));
      break;
    case PrimitiveType::kS16:
      call(short{});
      break;
    case PrimitiveType::kS32:
      call(int{});
      break;
    case PrimitiveType::kS64:
      call(rk_s64{});
      break;
    case PrimitiveType::kU8:
      call(static_cast<unsigned char>(0));
      break;
    case PrimitiveType::kU16:
      call(static_cast<unsigned short>(0));
      break;
    case PrimitiveType::kU32:
      call(unsigned{});
      break;
    case PrimitiveType::kU64:
      call(rk_u64{});
      break;
    case PrimitiveType::kF64:
      call(double{});
      break;
    default:
      call(float{});
      break;
  }
}

template <typename T>
constexpr bool kIsBool = std::is_same_v<T, bool>;

template <typename T, typename S>
T convert(S x) {
  if constexpr (std::is_same_v<T, bool>)
    return rk_to_pred(x);
  else if constexpr (std::is_same_v<T, signed char>)
    return rk_to_s8(x);
  else if constexpr (std::is_same_v<T, short>)
    return rk_to_s16(x);
  else if constexpr (std::is_same_v<T, int>)
    return rk_to_s32(x);
  else if constexpr (std::is_same_v<T, rk_s64>)
    return rk_to_s64(x);
  else if constexpr (std::is_same_v<T, unsigned char>)
    return rk_to_u8(x);
  else if constexpr (std::is_same_v<T, unsigned short>)
    return rk_to_u16(x);
  else if constexpr (std::is_same_v<T, unsigned>)
    return rk_to_u32(x);
  else if constexpr (std::is_same_v<T, rk_u64>)
    return rk_to_u64(x);
  else if constexpr (std::is_same_v<T, float>)
    return rk_to_f32(x);
  else
    return rk_to_f64(x);
}

/// A block of operand values: stride 0 when one value serves all iterations.
template <typename T>
struct Column {
  const T* data;
  int64_t stride;
  T operator[](int64_t k) const { return data[k * stride]; }
};

/// Of floats only; lowering lets no other type through.
template <typename T>
void is_finite(Column<T> a, bool* out, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    if constexpr (std::is_floating_point_v<T>) {
      out[k] = rk_is_finite(a[k]);
    } else {
      out[k] = true;
    }
  }
}

/// True if functions of such types take operands that compute as T.
template <typename T>
constexpr bool computes(ElementTypes types) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  switch (types) {
    case ElementTypes::kNoType:
      return false;
    case ElementTypes::kAnyType:
      return true;
    case ElementTypes::kNumbers:
      return !kIsBool<T>;
    case ElementTypes::kIntegers:
      return !kFloat && !kIsBool<T>;
    case ElementTypes::kBits:
      return !kFloat;
    case ElementTypes::kFloats:
      return kFloat;
  }
  return false;
}

template <typename T>
using UnaryLoop = void (*)(Column<T> a, T* out, int64_t count);
template <typename T>
using BinaryLoop = void (*)(Column<T> a, Column<T> b, T* out, int64_t count);
template <typename T>
using TernaryLoop = void (*)(Column<T> a, Column<T> b, Column<T> c, T* out,
                             int64_t count);
/// By opcode; null where a function does not take T.
template <typename Loop>
using LoopTable = std::array<Loop, size_t{1} << 8 * sizeof(Opcode)>;

// The table of opcodes, not logic.
// NOLINTBEGIN(readability-function-cognitive-complexity)
template <typename T>
constexpr LoopTable<UnaryLoop<T>> unary_loops() {
  LoopTable<UnaryLoop<T>> loops{};
#define REPRISE_UNARY(ID, NAME, FUNCTION, TYPES, ...)                   \
  if constexpr (computes<T>(ElementTypes::TYPES)) {                     \
    loops[static_cast<size_t>(Opcode::k##ID)] = [](Column<T> a, T* out, \
                                                   int64_t count) {     \
      for (int64_t k = 0; k < count; ++k) out[k] = FUNCTION(a[k]);      \
    };                                                                  \
  }
#include "data/hlo/opcode_table.inc"
  return loops;
}

template <typename T>
constexpr LoopTable<BinaryLoop<T>> binary_loops() {
  LoopTable<BinaryLoop<T>> loops{};
#define REPRISE_BINARY(ID, NAME, FUNCTION, TYPES, ...)                       \
  if constexpr (computes<T>(ElementTypes::TYPES)) {                          \
    loops[static_cast<size_t>(Opcode::k##ID)] = [](Column<T> a, Column<T> b, \
                                                   T* out, int64_t count) {  \
      for (int64_t k = 0; k < count; ++k) out[k] = FUNCTION(a[k], b[k]);     \
    };                                                                       \
  }
#include "data/hlo/opcode_table.inc"
  return loops;
}

template <typename T>
constexpr LoopTable<TernaryLoop<T>> ternary_loops() {
  LoopTable<TernaryLoop<T>> loops{};
#define REPRISE_TERNARY(ID, NAME, FUNCTION, TYPES, ...)                    \
  if constexpr (computes<T>(ElementTypes::TYPES)) {                        \
    loops[static_cast<size_t>(Opcode::k##ID)] =                            \
        [](Column<T> a, Column<T> b, Column<T> c, T* out, int64_t count) { \
          for (int64_t k = 0; k < count; ++k)                              \
            out[k] = FUNCTION(a[k], b[k], c[k]);                           \
        };                                                                 \
  }
#include "data/hlo/opcode_table.inc"
  return loops;
}
// NOLINTEND(readability-function-cognitive-complexity)

/// False for opcodes that are no function of one such operand.
template <typename T>
bool unary(Opcode opcode, Column<T> a, T* out, int64_t count) {
  static constexpr auto kLoops = unary_loops<T>();
  const UnaryLoop<T> loop = kLoops[static_cast<size_t>(opcode)];
  if (loop != nullptr) loop(a, out, count);
  return loop != nullptr;
}

/// False for opcodes that are no function of two such operands.
template <typename T>
bool binary(Opcode opcode, Column<T> a, Column<T> b, T* out, int64_t count) {
  static constexpr auto kLoops = binary_loops<T>();
  const BinaryLoop<T> loop = kLoops[static_cast<size_t>(opcode)];
  if (loop != nullptr) loop(a, b, out, count);
  return loop != nullptr;
}

/// False for opcodes that are no function of three such operands.
template <typename T>
bool ternary(Opcode opcode, Column<T> a, Column<T> b, Column<T> c, T* out,
             int64_t count) {
  static constexpr auto kLoops = ternary_loops<T>();
  const TernaryLoop<T> loop = kLoops[static_cast<size_t>(opcode)];
  if (loop != nullptr) loop(a, b, c, out, count);
  return loop != nullptr;
}

template <typename T>
void compare(const char* direction, Column<T> a, Column<T> b, bool* out,
             int64_t count) {
  const bool equal = direction[1] == 'E' && direction[0] != 'N';  // LE, GE
  const auto run = [&](auto relation) {
    for (int64_t k = 0; k < count; ++k) out[k] = relation(a[k], b[k]);
  };
  switch (direction[0]) {
    case 'E':
      run([](T x, T y) { return x == y; });
      break;
    case 'N':
      run([](T x, T y) { return x != y; });
      break;
    case 'L':
      if (equal)
        run([](T x, T y) { return x <= y; });
      else
        run([](T x, T y) { return x < y; });
      break;
    default:
      if (equal)
        run([](T x, T y) { return x >= y; });
      else
        run([](T x, T y) { return x > y; });
      break;
  }
}
#pragma GCC diagnostic pop

/// Rounds f32 results of narrower types.
template <typename T>
void round_to(PrimitiveType type, T* values, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    if (type == PrimitiveType::kBF16) {
      for (int64_t k = 0; k < count; ++k) values[k] = rk_round_bf16(values[k]);
    } else if (type == PrimitiveType::kF16) {
      for (int64_t k = 0; k < count; ++k) values[k] = rk_round_f16(values[k]);
    }
  }
}

inline bool is_rounded(PrimitiveType type) {
  return type == PrimitiveType::kBF16 || type == PrimitiveType::kF16;
}

inline int64_t memory_bytes(PrimitiveType type) {
  return primitive_type_bits(type) / 8;
}

/// One element in memory, from the bits of a literal.
template <typename T>
T from_memory(PrimitiveType type, const void* memory) {
  if constexpr (std::is_same_v<T, float>) {
    unsigned short half = 0;
    if (type == PrimitiveType::kBF16) {
      std::memcpy(&half, memory, sizeof half);
      return rk_load_bf16(half);
    }
    if (type == PrimitiveType::kF16) {
      std::memcpy(&half, memory, sizeof half);
      return rk_load_f16(half);
    }
  }
  if constexpr (kIsBool<T>) {
    return *static_cast<const unsigned char*>(memory) != 0;
  } else {
    T value;
    std::memcpy(&value, memory, sizeof value);
    return value;
  }
}

template <typename T>
void to_memory(PrimitiveType type, T value, void* memory) {
  if constexpr (std::is_same_v<T, float>) {
    if (type == PrimitiveType::kBF16 || type == PrimitiveType::kF16) {
      const unsigned short half = type == PrimitiveType::kBF16
                                      ? rk_store_bf16(value)
                                      : rk_store_f16(value);
      std::memcpy(memory, &half, sizeof half);
      return;
    }
  }
  std::memcpy(memory, &value, sizeof value);
}

}  // namespace
}  // namespace reprise

// Element operations of the interpreter: each opcode over a block of elements
// of one type, by the math prelude. Included by interpreter.cc alone, which
// sets the flags that keep the bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "data/hlo/module.h"

namespace reprise {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "runtime/kernels/prelude.inc"

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

// Tables of opcodes, not logic.
// NOLINTBEGIN(readability-function-cognitive-complexity)
template <typename T>
bool unary(Opcode opcode, Column<T> a, T* out, int64_t count) {
#define REPRISE_OP(ID, FUNCTION)                                 \
  case Opcode::ID:                                               \
    for (int64_t k = 0; k < count; ++k) out[k] = FUNCTION(a[k]); \
    return true;
  if constexpr (std::is_floating_point_v<T>) {
    switch (opcode) {
      REPRISE_OP(kExp, rk_exponential)
      REPRISE_OP(kExpm1, rk_exponential_minus_one)
      REPRISE_OP(kLog, rk_log)
      REPRISE_OP(kLog1p, rk_log_plus_one)
      REPRISE_OP(kTanh, rk_tanh)
      REPRISE_OP(kLogistic, rk_logistic)
      REPRISE_OP(kErf, rk_erf)
      REPRISE_OP(kSqrt, rk_sqrt)
      REPRISE_OP(kRsqrt, rk_rsqrt)
      REPRISE_OP(kCbrt, rk_cbrt)
      REPRISE_OP(kSine, rk_sine)
      REPRISE_OP(kCosine, rk_cosine)
      REPRISE_OP(kTan, rk_tan)
      REPRISE_OP(kFloor, rk_floor)
      REPRISE_OP(kCeil, rk_ceil)
      REPRISE_OP(kRoundNearestAfz, rk_round_nearest_afz)
      REPRISE_OP(kRoundNearestEven, rk_round_nearest_even)
      default:
        break;
    }
  } else {
    switch (opcode) {
      REPRISE_OP(kNot, rk_not)
      default:
        break;
    }
    if constexpr (!kIsBool<T>) {
      switch (opcode) {
        REPRISE_OP(kPopulationCount, rk_popcnt)
        REPRISE_OP(kClz, rk_count_leading_zeros)
        default:
          break;
      }
    }
  }
  if constexpr (!kIsBool<T>) {
    switch (opcode) {
      REPRISE_OP(kAbs, rk_abs)
      REPRISE_OP(kNegate, rk_negate)
      REPRISE_OP(kSign, rk_sign)
      default:
        break;
    }
  }
#undef REPRISE_OP
  return false;
}

template <typename T>
bool binary(Opcode opcode, Column<T> a, Column<T> b, T* out, int64_t count) {
#define REPRISE_OP(ID, FUNCTION)                                       \
  case Opcode::ID:                                                     \
    for (int64_t k = 0; k < count; ++k) out[k] = FUNCTION(a[k], b[k]); \
    return true;
  switch (opcode) {
    REPRISE_OP(kAdd, rk_add)
    REPRISE_OP(kMultiply, rk_multiply)
    REPRISE_OP(kMaximum, rk_maximum)
    REPRISE_OP(kMinimum, rk_minimum)
    default:
      break;
  }
  if constexpr (!kIsBool<T>) {
    switch (opcode) {
      REPRISE_OP(kSubtract, rk_subtract)
      REPRISE_OP(kDivide, rk_divide)
      REPRISE_OP(kRemainder, rk_remainder)
      REPRISE_OP(kPower, rk_power)
      default:
        break;
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (opcode) {
      REPRISE_OP(kAtan2, rk_atan2)
      default:
        break;
    }
  } else {
    switch (opcode) {
      REPRISE_OP(kAnd, rk_and)
      REPRISE_OP(kOr, rk_or)
      REPRISE_OP(kXor, rk_xor)
      default:
        break;
    }
    if constexpr (!kIsBool<T>) {
      switch (opcode) {
        REPRISE_OP(kShiftLeft, rk_shift_left)
        REPRISE_OP(kShiftRightArithmetic, rk_shift_right_arithmetic)
        REPRISE_OP(kShiftRightLogical, rk_shift_right_logical)
        default:
          break;
      }
    }
  }
#undef REPRISE_OP
  return false;
}

// NOLINTEND(readability-function-cognitive-complexity)

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

bool is_rounded(PrimitiveType type) {
  return type == PrimitiveType::kBF16 || type == PrimitiveType::kF16;
}

int64_t memory_bytes(PrimitiveType type) {
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

#include "runtime/process/reduce_functions.h"

#include <cstdint>

#include "runtime/kernels/element_ops.h"

namespace reprise {
namespace {

template <Reduction kReduction, typename T>
T combine(T a, T b) {
  switch (kReduction) {
    case Reduction::kSum:
      return rk_add(a, b);
    case Reduction::kMax:
      return rk_maximum(a, b);
    case Reduction::kMin:
      return rk_minimum(a, b);
    case Reduction::kProduct:
      return rk_multiply(a, b);
  }
  return a;
}

/// `T` computes what `kType` stores.
template <Reduction kReduction, PrimitiveType kType, typename T>
void reduce(void* out, const void* a, const void* b, size_t elements) {
  const auto bytes = static_cast<size_t>(memory_bytes(kType));
  for (size_t i = 0; i < elements; ++i) {
    const size_t at = i * bytes;
    to_memory(kType,
              combine<kReduction>(
                  from_memory<T>(kType, static_cast<const char*>(a) + at),
                  from_memory<T>(kType, static_cast<const char*>(b) + at)),
              static_cast<char*>(out) + at);
  }
}

template <Reduction kReduction, PrimitiveType kType>
void combine_in_order(void* out, const void* parts, size_t count,
                      size_t elements) {
  const auto at = [&](size_t part, size_t i) {
    return static_cast<const char*>(parts) + 2 * (part * elements + i);
  };
  for (size_t i = 0; i < elements; ++i) {
    auto value = from_memory<float>(kType, at(0, i));
    char rounded[2];
    for (size_t part = 1; part < count; ++part) {
      value =
          combine<kReduction>(value, from_memory<float>(kType, at(part, i)));
      if (kType == PrimitiveType::kBF16) continue;
      to_memory(kType, value, rounded);
      value = from_memory<float>(kType, rounded);
    }
    to_memory(kType, value, static_cast<char*>(out) + 2 * i);
  }
}

template <PrimitiveType kType>
CombineFunction combining(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return combine_in_order<Reduction::kSum, kType>;
    case Reduction::kProduct:
      return combine_in_order<Reduction::kProduct, kType>;
    default:
      return nullptr;
  }
}

template <Reduction kReduction>
ReduceFunction function_of(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kPred:
      return reduce<kReduction, PrimitiveType::kPred, bool>;
    case PrimitiveType::kS8:
      return reduce<kReduction, PrimitiveType::kS8, signed char>;
    case PrimitiveType::kS16:
      return reduce<kReduction, PrimitiveType::kS16, short>;
    case PrimitiveType::kS32:
      return reduce<kReduction, PrimitiveType::kS32, int>;
    case PrimitiveType::kS64:
      return reduce<kReduction, PrimitiveType::kS64, rk_s64>;
    case PrimitiveType::kU8:
      return reduce<kReduction, PrimitiveType::kU8, unsigned char>;
    case PrimitiveType::kU16:
      return reduce<kReduction, PrimitiveType::kU16, unsigned short>;
    case PrimitiveType::kU32:
      return reduce<kReduction, PrimitiveType::kU32, unsigned>;
    case PrimitiveType::kU64:
      return reduce<kReduction, PrimitiveType::kU64, rk_u64>;
    case PrimitiveType::kBF16:
      return reduce<kReduction, PrimitiveType::kBF16, float>;
    case PrimitiveType::kF16:
      return reduce<kReduction, PrimitiveType::kF16, float>;
    case PrimitiveType::kF32:
      return reduce<kReduction, PrimitiveType::kF32, float>;
    case PrimitiveType::kF64:
      return reduce<kReduction, PrimitiveType::kF64, double>;
    default:
      return nullptr;
  }
}

}  // namespace

ReduceFunction reduce_function(PrimitiveType type, Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return function_of<Reduction::kSum>(type);
    case Reduction::kMax:
      return function_of<Reduction::kMax>(type);
    case Reduction::kMin:
      return function_of<Reduction::kMin>(type);
    case Reduction::kProduct:
      return function_of<Reduction::kProduct>(type);
  }
  return nullptr;
}

CombineFunction combine_function(PrimitiveType type, Reduction reduction) {
  if (type == PrimitiveType::kBF16)
    return combining<PrimitiveType::kBF16>(reduction);
  if (type == PrimitiveType::kF16)
    return combining<PrimitiveType::kF16>(reduction);
  return nullptr;
}

}  // namespace reprise

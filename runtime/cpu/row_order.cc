#include "runtime/cpu/row_order.h"

#include <algorithm>
#include <cstring>

namespace reprise {
namespace {

uint64_t low_bits(int count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

/// Bits of floats: infinity, and the least that is no zero where denormals are
/// (thread_setup.h): of f16, which is compared as f32, the least of all.
struct FloatBits {
  uint64_t infinity, least;
};
FloatBits bits_of(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kBF16:
      return {0x7f80, 0x0080};
    case PrimitiveType::kF16:
      return {0x7c00, 0x0001};
    case PrimitiveType::kF32:
      return {0x7f80'0000, 0x0080'0000};
    default:
      return {0x7ff0'0000'0000'0000, 0x0010'0000'0000'0000};
  }
}

template <typename Element>
void put_in_order(size_t first, std::vector<Element>* elements) {
  const auto middle = elements->begin() + static_cast<ptrdiff_t>(first);
  if (middle == elements->end()) {
    std::sort(elements->begin(), elements->end());
  } else {
    std::partial_sort(elements->begin(), middle, elements->end());
  }
}

}  // namespace

uint64_t order_key(PrimitiveType type, const std::byte* place) {
  const int width = primitive_type_bits(type);
  uint64_t bits = 0;
  std::memcpy(&bits, place, static_cast<size_t>(width) / 8);
  const uint64_t sign = uint64_t{1} << (width - 1);
  switch (type) {
    case PrimitiveType::kBF16:
    case PrimitiveType::kF16:
    case PrimitiveType::kF32:
    case PrimitiveType::kF64:
      return (bits & sign) != 0 ? ~bits & low_bits(width) : bits | sign;
    case PrimitiveType::kS8:
    case PrimitiveType::kS16:
    case PrimitiveType::kS32:
    case PrimitiveType::kS64:
      return bits ^ sign;
    default:
      return bits;
  }
}

RowOrder::RowOrder(size_t count, PrimitiveType key, const Options& options)
    : key_(key),
      turned_(options.is_descending ? low_bits(primitive_type_bits(key)) : 0),
      is_partial_(options.is_partial),
      is_narrow_(primitive_type_bits(key) <= 32) {
  if (is_partial_) {
    zero_ = uint64_t{1} << (primitive_type_bits(key) - 1);
    const FloatBits known = bits_of(key);
    most_ = zero_ + known.infinity;
    least_ = zero_ - 1 - known.infinity;
    from_zero_ = known.least;
  }
  if (is_narrow_) {
    narrow_.resize(count);
  } else {
    wide_.resize(count);
  }
}

bool RowOrder::set_key(size_t place, const std::byte* key) {
  uint64_t bits = order_key(key_, key);
  if (is_partial_) {
    if (bits < least_ || bits > most_) return false;
    if (bits < zero_ + from_zero_ && bits > zero_ - 1 - from_zero_)
      bits = zero_;
  }
  bits ^= turned_;
  if (is_narrow_) {
    narrow_[place] = bits << 32 | place;
  } else {
    wide_[place] = {bits, static_cast<uint32_t>(place)};
  }
  return true;
}

void RowOrder::sort(size_t first) {
  if (is_narrow_) {
    put_in_order(first, &narrow_);
  } else {
    put_in_order(first, &wide_);
  }
}

}  // namespace reprise

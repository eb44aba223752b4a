#include "runtime/cpu/row_order.h"

#include <algorithm>
#include <cstring>

namespace reprise {
namespace {

uint64_t low_bits(int count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
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

RowOrder::RowOrder(size_t count, PrimitiveType key, bool descending)
    : key_(key),
      turned_(descending ? low_bits(primitive_type_bits(key)) : 0),
      is_narrow_(primitive_type_bits(key) <= 32) {
  if (is_narrow_) {
    narrow_.resize(count);
  } else {
    wide_.resize(count);
  }
}

void RowOrder::set_key(size_t place, const std::byte* key) {
  const uint64_t bits = order_key(key_, key) ^ turned_;
  if (is_narrow_) {
    narrow_[place] = bits << 32 | place;
  } else {
    wide_[place] = {bits, static_cast<uint32_t>(place)};
  }
}

void RowOrder::sort(size_t first) {
  if (is_narrow_) {
    put_in_order(first, &narrow_);
  } else {
    put_in_order(first, &wide_);
  }
}

}  // namespace reprise

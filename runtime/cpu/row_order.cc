#include "runtime/cpu/row_order.h"

#include <algorithm>
#include <cstring>

#include "data/element.h"

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

/// Elements of a block that is passed over as a whole.
constexpr size_t kPassedOver = 16;

/// The least `first` of many elements, in order, at the front: those that are
/// less than the greatest of the least so far are gathered until they are twice
/// as many, and then halved.
template <typename Element>
void select_least(size_t first, std::vector<Element>* elements) {
  const size_t count = elements->size(), most = 2 * first + kPassedOver;
  std::vector<Element> least(elements->begin(),
                             elements->begin() + static_cast<ptrdiff_t>(most));
  least.reserve(most + kPassedOver);
  const auto last = least.begin() + static_cast<ptrdiff_t>(first) - 1;
  const auto halve = [&] {
    std::nth_element(least.begin(), last, least.end());
    least.resize(first);
  };
  halve();
  Element bound = *last;
  const Element* data = elements->data();
  for (size_t begin = most; begin < count; begin += kPassedOver) {
    const size_t end = std::min(begin + kPassedOver, count);
    bool is_any = false;
    for (size_t i = begin; i < end; ++i) is_any |= data[i] < bound;
    if (!is_any) continue;
    for (size_t i = begin; i < end; ++i) {
      if (data[i] < bound) least.push_back(data[i]);
    }
    if (least.size() < most) continue;
    halve();
    bound = *last;
  }
  halve();
  std::sort(least.begin(), least.end());
  std::copy(least.begin(), least.end(), elements->begin());
}

bool is_signed(PrimitiveType type) {
  return type == PrimitiveType::kS8 || type == PrimitiveType::kS16 ||
         type == PrimitiveType::kS32 || type == PrimitiveType::kS64;
}

template <typename Element>
void put_in_order(size_t first, std::vector<Element>* elements) {
  constexpr size_t kMany = 4;
  if (first > 0 && elements->size() / kMany > first + kPassedOver) {
    select_least(first, elements);
    return;
  }
  const auto middle = elements->begin() + static_cast<ptrdiff_t>(first);
  if (middle == elements->end()) {
    std::sort(elements->begin(), elements->end());
  } else {
    std::partial_sort(elements->begin(), middle, elements->end());
  }
}

}  // namespace

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

template <typename Bits>
bool RowOrder::set_keys_of(const std::byte* keys) {
  constexpr int kWidth = 8 * sizeof(Bits);
  constexpr uint64_t kSign = uint64_t{1} << (kWidth - 1);
  const size_t count = std::max(narrow_.size(), wide_.size());
  // What a set sign bit turns, and what a clear one does.
  const uint64_t clear = is_plain_float(key_) || is_signed(key_) ? kSign : 0;
  const uint64_t set = is_plain_float(key_) ? low_bits(kWidth) : clear;
  const bool is_partial = is_partial_;
  const uint64_t least = least_, most = most_, zero = zero_, turned = turned_,
                 above = zero_ + from_zero_, below = zero_ - 1 - from_zero_;
  const auto ordered = [=](Bits raw, bool* is_outside) {
    uint64_t bits = raw;
    // No branch: signs of a row are as good as random.
    bits ^= clear ^ ((uint64_t{0} - (bits >> (kWidth - 1))) & (set ^ clear));
    if (is_partial) {
      *is_outside |= bits < least || bits > most;
      bits = bits < above && bits > below ? zero : bits;
    }
    return bits ^ turned;
  };
  bool is_outside = false;
  for (size_t i = 0; i < count; ++i) {
    Bits raw;
    std::memcpy(&raw, keys + i * sizeof raw, sizeof raw);
    const uint64_t bits = ordered(raw, &is_outside);
    if constexpr (sizeof(Bits) <= 4) {
      narrow_[i] = bits << 32 | i;
    } else {
      wide_[i] = {bits, static_cast<uint32_t>(i)};
    }
  }
  return !is_outside;
}

bool RowOrder::set_keys(const std::byte* keys) {
  switch (primitive_type_bits(key_)) {
    case 8:
      return set_keys_of<uint8_t>(keys);
    case 16:
      return set_keys_of<uint16_t>(keys);
    case 32:
      return set_keys_of<uint32_t>(keys);
    default:
      return set_keys_of<uint64_t>(keys);
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

#include "runtime/cpu/part_trials.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace reprise {

void fill_trial_values(PrimitiveType type, uint32_t seed,
                       std::span<std::byte> bytes) {
  // Drawing all of a large array takes longer than the work it is for. The
  // period is no multiple of any usual extent.
  constexpr size_t kPeriod = 65'521;
  std::mt19937 random(seed);
  const auto width = static_cast<size_t>(primitive_type_bits(type)) / 8;
  const size_t drawn = std::min(bytes.size(), kPeriod * width);
  for (size_t at = 0; at + width <= drawn; at += width) {
    const auto bits = static_cast<uint32_t>(random());
    const uint32_t sign = bits & 0x80000000U;
    uint32_t element = sign | 0x3F800000U | (bits & 0x007FFFFFU);
    if (type == PrimitiveType::kBF16) element >>= 16;
    if (type == PrimitiveType::kF16)
      element = sign >> 16 | 0x3C00U | (bits & 0x03FFU);
    std::memcpy(bytes.data() + at, &element, width);
  }
  for (size_t at = drawn; at < bytes.size(); at += drawn)
    std::copy_n(bytes.data(), std::min(drawn, bytes.size() - at),
                bytes.data() + at);
}

}  // namespace reprise

// Whether what a library computes in parts has the bits of the whole: tried on
// made-up operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "data/primitive_type.h"

namespace reprise {

/// Fills with values in [1, 2) of either sign, from a fixed seed, so that sums
/// taken in another order have other bits. Requires: a float of 16 or 32 bits.
void fill_trial_values(PrimitiveType type, uint32_t seed,
                       std::span<std::byte> bytes);

/// What was tried, by problem and way of parting it.
class PartTrials {
 public:
  /// True if parts have the bits of the whole: `trial()`, once for each key.
  template <typename Trial>
  bool have_its_bits(const std::string& key, const Trial& trial) {
    const auto [known, is_new] = known_.try_emplace(key, false);
    if (is_new) known->second = trial();
    return known->second;
  }

 private:
  std::map<std::string, bool> known_;
};

}  // namespace reprise

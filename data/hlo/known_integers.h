// What is known of the integers that ops of a loop compute.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// The values of instructions as they are appended, where they hang on
/// constants alone: of integers of 32 bits, in one dimension or none, few.
class KnownIntegers {
 public:
  /// Takes note of the instruction after the last one noted. Returns its
  /// literal if it is known, and the instruction itself no constant.
  std::optional<std::string> note(const Instruction& op);

 private:
  /// [element] As two's complement; empty: unknown.
  using Values = std::vector<uint32_t>;

  Values computed(const Instruction& op) const;
  const Values& of(InstructionId id) const { return values_[index_of(id)]; }

  std::vector<Values> values_;  ///< [instruction]
};

}  // namespace reprise

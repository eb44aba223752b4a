// One instruction with its operands' shapes, as the verifier's checks see it.
// Internal to the HLO verifier.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Whether a list of dimensions names one.
inline bool contains(const std::vector<int64_t>& list, size_t dimension) {
  return std::find(list.begin(), list.end(), static_cast<int64_t>(dimension)) !=
         list.end();
}

struct CheckedInstruction {
  const Module& module;
  const Computation& computation;
  const Instruction& instruction;

  size_t operand_count() const { return instruction.operands.size(); }
  const Shape& operand(size_t i) const {
    return computation.at(instruction.operands[i]).shape;
  }
  const Shape& result() const { return instruction.shape; }

  /// kInvalid: "instruction `add.1`: message".
  tl::unexpected<Error> invalid(const std::string& message) const {
    return fail(ErrorKind::kInvalid, "instruction `{}`: {}", instruction.name,
                message);
  }
  /// Fails unless `found` has the type and extents of `expected`.
  Status expect_shape(std::string_view what, const Shape& found,
                      const Shape& expected) const;
  /// Fails unless the extents of `found` are `expected`.
  Status expect_extents(std::string_view what, const Shape& found,
                        const std::vector<int64_t>& expected) const;
  /// Fails unless attribute `name` lists distinct dimensions of an array of
  /// rank `rank`.
  Result<std::vector<int64_t>> dimensions(std::string_view name,
                                          size_t rank) const;
};

/// Extents of the dimensions of `shape` that `list` does not name, in order.
std::vector<int64_t> extents_without(const Shape& shape,
                                     const std::vector<int64_t>& list);

Status check_gather(const CheckedInstruction& checked);
Status check_scatter(const CheckedInstruction& checked);

/// Checks of operations that move or combine elements by index; others pass.
Status check_indexed_operation(const CheckedInstruction& checked);

/// Checks of control flow, tuples and collectives; others pass.
Status check_structured_operation(const CheckedInstruction& checked);

}  // namespace reprise

// Ops that the rewriting of a loop appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/hlo/appended_ops.h"
#include "data/hlo/module.h"

namespace reprise {

/// Without a layout.
Shape array_of(PrimitiveType type, std::vector<int64_t> dimensions = {});
/// The array of a row a step.
Shape with_steps(const Shape& row, int64_t steps);

class LoopSteps : public AppendedOps {
 public:
  using AppendedOps::AppendedOps;

  InstructionId reshaped(InstructionId id, std::vector<int64_t> dimensions);
  InstructionId transposed(InstructionId id, std::vector<int64_t> order);
  InstructionId picked(InstructionId tuple, size_t element);
  /// The row of an array at an index, without the dimension of the steps.
  InstructionId row(InstructionId array, InstructionId index,
                    size_t dimension = 0);
  /// The array with another row there.
  InstructionId with_row(InstructionId array, InstructionId row,
                         InstructionId index, size_t dimension = 0);

 private:
  std::vector<InstructionId> with_indices(std::vector<InstructionId> operands,
                                          InstructionId index, size_t dimension,
                                          size_t rank);
};

}  // namespace reprise

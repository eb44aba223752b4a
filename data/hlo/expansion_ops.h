// The ops and computations that an opcode which nothing runs becomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/hlo/loop_steps.h"
#include "data/hlo/module.h"

namespace reprise {

/// A module that is built anew: what it was, and what stands of it so far.
struct RebuiltModule {
  const Module& from;
  std::vector<Computation> made = {};
  std::vector<ComputationId> now =
      {};  ///< [computation of `from`] that of `made`.

  ComputationId add(Computation computation);
  /// With a name that no other has, since `origin`'s is its own in `around`.
  static Computation named(const Computation& around, const Instruction& origin,
                           std::string_view part);
  /// `opcode` of two scalars.
  ComputationId combiner(const Computation& around, const Instruction& origin,
                         Opcode opcode, PrimitiveType type);
};

/// Appends ops to the computation of `origin`, or to one that it is to call.
class ExpansionOps : public LoopSteps {
 public:
  ExpansionOps(const Instruction& origin, std::vector<Instruction>* to)
      : LoopSteps(origin, 'e', to) {}

  const Shape& shape(InstructionId id) const { return shape_of(id); }

  InstructionId parameter(int64_t number, Shape shape);
  std::vector<InstructionId> elements(InstructionId tuple, size_t first,
                                      size_t count);
  InstructionId tuple(std::vector<InstructionId> values);
  /// A scalar s32.
  InstructionId integer(int64_t value);
  /// Of an array's extents and type, whatever that is.
  InstructionId zeros(const Shape& shape);
  InstructionId broadcast(InstructionId value, std::vector<int64_t> dimensions,
                          Shape shape);
};

/// A reduce-window of all that stands before each element of a dimension, and
/// of the element; `from_end`: of the element and all behind it.
Instruction cumulative_reduce_window(const Shape& shape, size_t dimension,
                                     bool from_end, InstructionId operand,
                                     InstructionId identity,
                                     ComputationId combiner);

}  // namespace reprise

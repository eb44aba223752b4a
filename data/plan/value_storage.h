// Which instruction's bytes each instruction shares: reshapes, get-tuple-
// elements and barriers are looked through to the one that has storage.
#pragma once

#include <vector>

#include "data/hlo/module.h"
#include "data/plan/op_graph.h"

namespace reprise {

class ValueStorage {
 public:
  explicit ValueStorage(const Computation& entry);

  /// Gives an instruction storage of its own, which a dot writes.
  void set_written(InstructionId id) { written_[index_of(id)] = true; }
  bool is_written(InstructionId id) const { return written_[index_of(id)]; }

  /// Through optimization barriers to what made a tuple.
  InstructionId tuple_source(InstructionId tuple) const;
  /// The instruction whose bytes `id` shares. With `through_maps`, also past
  /// broadcasts, to the one value that an index map reads; kNoInstruction for
  /// iota and constants.
  InstructionId resolve(InstructionId id, bool through_maps) const;

 private:
  InstructionId through_element(InstructionId element) const;

  const Computation& entry_;
  std::vector<bool> written_;
  /// [get-tuple-element] the first equal one.
  std::vector<InstructionId> canonical_element_;
};

/// Which element a get-tuple-element reads.
int64_t element_index(const Instruction& element);

}  // namespace reprise

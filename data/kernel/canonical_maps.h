// Where each op of a group lives in a loop nest: from the index map of one op
// (the hero, whose elements the loops run over) to a map for every op that is
// one to one with the same loops, through users and operands alike. Outputs are
// stored there.
#pragma once

#include <optional>
#include <unordered_map>

#include "data/kernel/group.h"
#include "data/kernel/trace.h"

namespace reprise {

/// Index map of the operand of a lane reduce whose result stands at `map`: the
/// reduced dimensions run over the column loops. Nothing when they do not match
/// the columns.
std::optional<IndexMap> lane_operand_map(IndexTable& indices,
                                         const NestSpace& space,
                                         const ReduceSpec& spec,
                                         const IndexMap& map);

class CanonicalMaps {
 public:
  CanonicalMaps(const Group& group, IndexTable& indices,
                const NestSpace& space);

  void assign(InstructionId id, const IndexMap& map);
  /// Extends the assigned maps to all members that they reach.
  void propagate();
  /// The map of a member or view, or null.
  const IndexMap* find(InstructionId id) const;
  /// Map of any op: the assigned one, or derived from its operands'.
  std::optional<IndexMap> derive(InstructionId id);

 private:
  void to_operands(InstructionId id, const IndexMap& map);
  std::optional<IndexMap> from_broadcast(const Instruction& broadcast);
  std::optional<IndexMap> from_operands(const Instruction& instruction);
  uint64_t loops_of(const IndexMap& map) const;

  const Group& group_;
  IndexTable& indices_;
  const NestSpace& space_;
  std::unordered_map<uint32_t, IndexMap> maps_;
  int32_t depth_ = 0;  ///< Recursion; beyond kMaxDepth ops get no maps.
};

}  // namespace reprise

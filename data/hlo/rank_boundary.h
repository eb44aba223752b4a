// Where a program of all ranks becomes that of one: the custom calls that
// shard_map puts around its body, and what stands in place of a partitioner.
#pragma once

#include <string>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// A call that only says how its operands are sharded, or that arrays of all
/// ranks become arrays of one (`Sharding`, `SPMDFullToShardShape`,
/// `xla.sdy.GlobalToLocalShape` and their like).
bool is_rank_boundary(const Instruction& instruction);

/// What inline_calls puts in their place, for leave_rank_boundaries to find: a
/// copy of one operand, as the shape that stands behind the call.
Instruction boundary_mark(const Instruction& call, size_t element,
                          InstructionId operand);
bool is_boundary_mark(const Instruction& instruction);

/// Takes the marks out of a flat entry computation: parameters get the shape
/// that one rank has of them, and so do results. Errors: kUnsupported where
/// something before or behind the boundary computes on arrays of all ranks, or
/// where axes of the mesh are left to a partitioner, naming the instruction and
/// what to give instead. Cost: linear.
Status leave_rank_boundaries(const Module& module, Computation* entry);

}  // namespace reprise

// What a unit runs that no kernel computes: one instruction by a routine of the
// device, with the programs and functions that the instruction calls, lowered.
//
// A loop's body is a schedule of its own over memory of its own, run as often
// as its condition says, whether or not the count is known: unrolling would
// multiply units, kernels and plans by the count, and would still need the
// loop for counts that are not known. So a schedule stays as long as its
// program's text, and its memory plan and traces depend on nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

struct CalledProgram;  // data/schedule/called_program.h

/// A computation called by a routine. A program: a condition, body or branch.
/// A function: a comparator or reducer of scalars.
struct RoutineCallee {
  std::shared_ptr<const CalledProgram> program;
  /// Places in Schedule::kernels: of a program, for each kernel of its
  /// schedule; of a function, its one kernel.
  std::vector<int32_t> kernels;
};

struct RoutineSpec {
  InstructionId instruction{};  ///< Of the inlined entry computation.
  /// While: condition, body. Conditional: branches, the false one last of two.
  /// Sort: comparator and, where it has one, its key (data/hlo/sort_key.h).
  /// Reductions: reducer; select-and-scatter: select,
  /// scatter.
  std::vector<RoutineCallee> callees;
  bool is_loop = false;  ///< A while.
  /// How often a while runs its body, where the text proves it.
  std::optional<int64_t> trips = {};
  /// Sort: how many elements of each row anyone reads, of a top-k written as a
  /// sort and a slice; -1: all.
  int64_t first_read = -1;
  /// Collectives stand in what it calls, at any depth: ranks meet inside.
  bool communicates = false;
  /// Payload of those: of a loop's passes where their number is known, else of
  /// one; of all branches that of the largest.
  int64_t communicated_bytes = 0;
};

}  // namespace reprise

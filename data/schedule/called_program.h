// A computation that a routine calls, lowered; see routine_spec.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// A program has a schedule, in which the outputs of a loop's body replace its
/// parameters; a function one kernel of scalars.
struct CalledProgram {
  InlinedModule module;
  Schedule schedule;
  std::vector<std::string> kernel_keys;  ///< Of the schedule's kernels.
  /// Function: [argument of its kernel] number of the parameter, or of the
  /// output.
  std::vector<int32_t> arguments;

  bool is_function() const { return !arguments.empty(); }
};

/// Bytes at the start of a called schedule's arena that its parameters take,
/// which lie with the caller; what follows is its workspace.
int64_t parameter_extent(const Schedule& schedule);

/// Lowers what an instruction calls, in the order of RoutineSpec::callees,
/// without their `kernels`. Errors: kUnsupported naming an instruction; those
/// of replica groups.
Result<std::vector<RoutineCallee>> lower_callees(const Module& module,
                                                 const Instruction& instruction,
                                                 int64_t ranks);

/// Sets from its callees whether and how much a routine communicates that runs
/// its last callee `passes` times.
void add_communication(int64_t passes, RoutineSpec* routine);

/// Bytes of memory that a callee, or the callees before it, need beside their
/// operands and results: they lie one after the other.
int64_t workspace_bytes(const CalledProgram& program);
int64_t workspace_before(const std::vector<RoutineCallee>& callees,
                         size_t callee);

/// Text that tells callees apart, for keys.
std::string callees_text(const std::vector<RoutineCallee>& callees);

/// Whether a loop leaves parameter `number` as it is.
bool is_invariant(const Schedule& body, size_t number);

}  // namespace reprise

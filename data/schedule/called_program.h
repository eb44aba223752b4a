// A computation that a routine calls, lowered; see routine_spec.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/schedule/called_fusion.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// A program has a schedule, in which the outputs of a loop's body, and of a
/// branch those that are told to, replace its parameters. A branch's other
/// outputs are further parameters where they have a buffer of their own: number
/// k after the last is output k. A function has one kernel, of scalars or,
/// a reducer's or a sort's key, of lanes (data/schedule/lane_function.h).
struct CalledProgram {
  InlinedModule module;
  Schedule schedule;
  std::vector<std::string> kernel_keys;  ///< Of the schedule's kernels.
  /// Function: [argument of its kernel] number of the parameter, or of the
  /// output.
  std::vector<int32_t> arguments;

  bool is_function() const { return !arguments.empty(); }
};

/// Lowers what an instruction calls, in the order of RoutineSpec::callees,
/// without their `kernels`. `old_value`: of a conditional, CalledState's.
/// Errors: kUnsupported naming an instruction; those of replica groups.
Result<std::vector<RoutineCallee>> lower_callees(
    const InlinedModule& module, const Instruction& instruction, int64_t ranks,
    CalledFusion fusion, const std::vector<std::vector<int32_t>>& old_value);

/// A program that a device makes of an instruction of its own, lowered as a
/// branch is: outputs with a buffer of their own are further parameters.
/// Errors: as lower_schedule.
Result<std::shared_ptr<const CalledProgram>> lower_device_program(
    InlinedModule module, const std::string& caller, int64_t ranks);

/// Sets from its callees whether and how much a routine communicates that runs
/// its last callee `passes` times.
void add_communication(int64_t passes, RoutineSpec* routine);

/// Bytes that the callees of a routine need beside operands and results, and
/// where those of one begin: of a loop one after the other, since it goes from
/// one to the other; of a conditional, which runs one, all at the start.
int64_t workspace_bytes(const RoutineSpec& routine);
int64_t workspace_begin(const RoutineSpec& routine, size_t callee);

/// Where the parameters of a called program lie, in arrays of the routine, and
/// what is copied there before it runs.
struct CalledPlaces {
  struct Array {
    bool is_result = false;
    size_t number = 0;
  };
  struct Copy {
    size_t operand = 0, result = 0;
  };
  std::vector<Array> parameters;
  /// Nothing is to be done where both lie in one place, or the result, which
  /// nothing reads, nowhere.
  std::vector<Copy> before;
};

/// Of a loop, whose state lives in its result and is replaced there; what the
/// body never writes is read where it lies. Errors: kInvalid for one without
/// condition and body, or of another number of arrays.
Result<CalledPlaces> loop_places(const RoutineSpec& loop, size_t operands,
                                 size_t results);
/// Of a branch of a conditional, whose first operand chooses: the state that it
/// replaces lives in the result, too. Errors: kInvalid for one that takes or
/// gives another number of arrays.
Result<CalledPlaces> branch_places(const RoutineSpec& conditional,
                                   size_t branch, size_t operands,
                                   size_t results);

/// Text that tells callees apart, for keys.
std::string callees_text(const std::vector<RoutineCallee>& callees);

/// Whether a loop leaves parameter `number` as it is.
bool is_invariant(const Schedule& body, size_t number);

}  // namespace reprise

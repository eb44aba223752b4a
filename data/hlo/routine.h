// Instructions that no generated kernel computes: what runs each of them on its
// own, and the programs that some of them call.
#pragma once

#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Reduce windows of more elements than this are not written out in kernels.
inline constexpr int64_t kMostWindowElements = 64;

/// True if an instruction is one that a device runs by a routine of its own: by
/// the table of opcodes (of custom calls, top-k and LAPACK's), and reductions
/// of several arrays, by other than one operation, or over large windows. Those
/// that are only priced, too.
bool runs_as_routine(const Module& module, const Instruction& instruction);

/// True of what no device runs but a schedule can hold, so that the rest of the
/// program is lowered and priced around it: custom calls that only their
/// library knows, what comes from outside the program.
bool is_only_priced(const Instruction& instruction);

/// The arrays that a value is made of, in order: itself, or what stands in the
/// tuple behind it, through barriers. Errors: kUnsupported for a tuple that
/// something other than `tuple` makes.
Result<std::vector<InstructionId>> array_elements(
    const Computation& computation, InstructionId value);

/// Gives every tuple that a routine makes, and that is used whole, a `tuple` of
/// its elements, so that array_elements finds them.
void expose_elements(Computation* computation);

enum class CalleeForm : uint8_t {
  kProgram,   ///< A body or branch, lowered to a schedule.
  kFunction,  ///< Of scalars, lowered to one kernel: its outputs are copies.
};

/// A computation, with all that it calls, as a module of its own. Its entry
/// takes arrays alone, one parameter for each element of a tuple, and gives a
/// tuple. Errors: those of inline_calls; kUnsupported for a result that
/// array_elements does not find.
Result<InlinedModule> extract_computation(const Module& module,
                                          ComputationId id, CalleeForm form);

}  // namespace reprise

// What runs one instruction that no kernel computes, on the CPU. The table of
// opcodes stands in routine.cc; each maker checks all that its `run` relies on.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"
#include "data/schedule/routine_spec.h"
#include "runtime/cpu/called_collectives.h"
#include "runtime/cpu/kernel_code.h"
#include "runtime/cpu/routine_scratch.h"
#include "runtime/cpu/shared_work.h"

namespace reprise {

/// An instruction and its memory; what it refers to outlives the routine.
struct RoutineCall {
  const Computation& entry;
  const Instruction& instruction;
  const RoutineSpec& spec;
  /// Arrays of the operands, and of the result, in order; of a result that
  /// nothing reads and nothing needs, no bytes.
  std::vector<std::span<std::byte>> operands, results;
  std::span<std::byte> workspace;       ///< Of the programs that it calls.
  std::span<const KernelCode> kernels;  ///< Of the whole schedule.
  RoutineScratch* scratch = nullptr;    ///< For the time of a run.
  SharedWork team = {};                 ///< Of units inside what it calls.
  int64_t rank = 0;
  /// Of routines that communicate: what on, and entries of the program that
  /// holds this one.
  CalledCollectives* collectives = nullptr;
  const ProgramEntries* caller = nullptr;

  const Shape& operand_shape(size_t operand) const {
    return entry.at(instruction.operands[operand]).shape;
  }
  const Shape& result_shape(size_t result) const {
    return instruction.shape.is_tuple() ? instruction.shape.elements[result]
                                        : instruction.shape;
  }
};

/// Deterministic; runs on the calling thread.
class Routine {
 public:
  virtual ~Routine() = default;
  /// False when a library failed, or a collective in what it calls
  /// (CalledCollectives::error), which no later call repairs.
  virtual bool run() = 0;
};

/// Binds an instruction to its memory. Errors: kUnsupported naming the
/// instruction.
Result<std::unique_ptr<Routine>> make_routine(const RoutineCall& call);

// The makers, one for each kind of routine.
Result<std::unique_ptr<Routine>> make_while(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_conditional(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_convolution(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_fourier(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_general_dot(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_reduce(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_reduce_window(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_select_and_scatter(
    const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_scatter(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_sort(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_top_k(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_matrix_routine(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_permutation(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_random_bits(const RoutineCall& call);
Result<std::unique_ptr<Routine>> make_batch_norm(const RoutineCall& call);

}  // namespace reprise

// Costs of whole computations by XLA's published rules, each computed once.
#pragma once

#include <optional>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/hlo/module.h"

namespace reprise {

/// How often a while loop runs its body, when its text tells: from
/// `backend_config={"known_trip_count":{"n":"12"}}`, or from a condition
/// `counter < N` (constant N) over a counter that starts at 0, and is assumed
/// to step by 1 where the body does not tell.
std::optional<int64_t> trip_count(const Module& module,
                                  const Computation& computation,
                                  const Instruction& loop);

/// An element of a loop's state that starts at 0, to which the body adds a step
/// while it is below the limit, a multiple of that.
struct LoopCounter {
  size_t index = 0;
  int64_t limit = 0;
  int64_t step = 1;

  int64_t trips() const { return limit / step; }
};
/// The counter that the text alone proves, whatever annotations say.
std::optional<LoopCounter> proven_counter(const Module& module,
                                          const Computation& computation,
                                          const Instruction& loop);
/// Its trips.
std::optional<int64_t> proven_trip_count(const Module& module,
                                         const Computation& computation,
                                         const Instruction& loop);

/// Every computation that an instruction calls, in the order of its attributes.
std::vector<ComputationId> called_computations(const Instruction& instruction);

/// How many instructions that the entry reaches name each computation,
/// `[computation]`.
std::vector<int> caller_counts(const Module& module);

/// Keeps costs of called computations, so that costing a module takes one pass.
/// Not safe to share between threads.
class CostAnalysis {
 public:
  /// With `multiply_trips` the body of a loop counts as often as it is known to
  /// run (else once, as XLA does). `module` must outlive this.
  explicit CostAnalysis(const Module& module, bool multiply_trips = false);

  InstructionCost instruction(const Computation& computation, InstructionId id);
  /// The sum over a computation's instructions.
  InstructionCost computation(ComputationId id);

 private:
  void prepare(const Instruction& instruction);
  InstructionCost evaluate(const Computation& computation,
                           const Instruction& instruction);
  InstructionCost called(const Instruction& instruction,
                         std::string_view attribute) const;
  InstructionCost loop(const Computation& computation,
                       const Instruction& instruction) const;
  InstructionCost branches(const Instruction& instruction) const;
  InstructionCost fusion(const Computation& computation,
                         const Instruction& instruction) const;

  const Module& module_;
  bool multiply_trips_;
  std::vector<std::optional<InstructionCost>> computations_;
};

}  // namespace reprise

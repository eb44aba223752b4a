// What a module holds and costs, for people and for JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/hlo/module.h"

namespace reprise {

/// Instructions of one opcode over all computations.
struct OpcodeSummary {
  std::string opcode;
  int64_t count = 0;
  /// Of one step: known trips of loops multiplied, callees counted in their
  /// callers.
  InstructionCost cost;
};

struct CollectiveSummary {
  std::string name;  ///< `COMPUTATION/INSTRUCTION` outside of the entry.
  std::string opcode;
  std::string type;  ///< Of the first array.
  int64_t arrays = 0;
  int64_t operand_bytes = 0;
  int64_t result_bytes = 0;  ///< Of a start: of what its end gives.
  std::string groups;  ///< "8 x 16": groups x ranks in each; "all" for `{}`.
  int64_t executions = 0;  ///< A step; trips of loops multiplied where known.
};

struct ModuleSummary {
  std::string name;
  std::string fingerprint;
  int64_t computations = 0;
  int64_t instructions = 0;
  int64_t parameters = 0;
  int64_t parameter_bytes = 0;
  int64_t output_bytes = 0;
  int64_t loops = 0;
  int64_t loops_of_unknown_trips = 0;  ///< Counted once.
  InstructionCost cost;                ///< Of one step.
  std::vector<OpcodeSummary> opcodes;  ///< Most frequent first, then by name.
  std::vector<CollectiveSummary> collectives;  ///< In text order.
};

ModuleSummary summarize(const Module& module);

/// One instruction's row of `reprise hlo --table`.
struct InstructionSummary {
  std::string name;
  std::string opcode;
  std::string shape;
  InstructionCost cost;
  int64_t operands = 0;
  int64_t users = 0;
};

/// Rows of one computation in text order.
std::vector<InstructionSummary> summarize_instructions(const Module& module,
                                                       ComputationId id);

/// Finds a computation by name, with or without its '%'. Errors: kInvalid.
Result<ComputationId> find_computation(const Module& module,
                                       std::string_view name);

}  // namespace reprise

// What plans speak about: the live ops of a program, the values they leave in
// memory and who reads them, with views and a dot's transposes folded away.
//
// A value is an array with storage of its own, named by one instruction: a
// parameter, a constant that is stored, an op's result, or a get-tuple-element
// of a variadic collective. Reshapes share the storage of what they view. The
// graph depends on the program only, not on a plan; it refers to the module,
// which must outlive it, and is safe to read concurrently.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/collective/collective.h"
#include "data/hlo/module.h"
#include "data/plan/dot_view.h"
#include "data/result.h"

namespace reprise {

constexpr InstructionId kNoInstruction{UINT32_MAX};

enum class OpRole : uint8_t {
  kDead,    ///< Nothing that leaves the program needs it.
  kFolded,  ///< A view, or a transpose that dots read or write through strides.
  kParameter,
  /// A literal, stored when it is not a scalar or when something needs its
  /// bytes; or the number of the device.
  kConstant,
  /// Runs as (part of) a generated kernel; a view whose bytes are needed, too.
  kKernel,
  kDot,
  kRoutine,  ///< Runs on its own (data/hlo/routine.h).
  kCollective,
};

/// One operand of a collective.
struct CollectiveSlot {
  InstructionId collective{};
  int64_t operand = 0;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  InstructionId input{};  ///< The value communicated.
  /// The value of the result; kNoInstruction when nothing reads it.
  InstructionId output{};
  PrimitiveType type = PrimitiveType::kF32;
  int64_t bytes = 0;         ///< Of the input.
  int64_t output_bytes = 0;  ///< Of the result.
};

struct OpGraph {
  const Module* module = nullptr;
  const Computation* entry = nullptr;
  std::vector<OpRole> role;  ///< [instruction]
  /// [instruction] whose storage holds it.
  std::vector<InstructionId> value_of;
  /// [value] the op that writes it, or none.
  std::vector<InstructionId> producer;
  /// [op] values read, each once, ascending.
  std::vector<std::vector<InstructionId>> inputs;
  /// [value] ops that read it, ascending.
  std::vector<std::vector<InstructionId>> readers;
  /// [routine] the value of each element of its result; kNoInstruction where
  /// nothing reads it.
  std::unordered_map<uint32_t, std::vector<InstructionId>> results;
  std::vector<DotView> dots;    ///< In text order.
  std::vector<int32_t> dot_of;  ///< [instruction] index in dots, or -1.
  /// Of one collective adjacent, in text order.
  std::vector<CollectiveSlot> slots;
  std::vector<int32_t> first_slot;  ///< [instruction] index in slots, or -1.
  std::vector<InstructionId> parameters;  ///< By number.
  std::vector<InstructionId> outputs;     ///< Value of each output.
  std::vector<int64_t> updates;  ///< [output] parameter it replaces, or -1.
  std::vector<bool> is_output;   ///< [value] bound as an output.
  std::unordered_map<std::string_view, InstructionId> by_name;

  const Instruction& at(InstructionId id) const { return entry->at(id); }
  OpRole role_of(InstructionId id) const { return role[index_of(id)]; }
  /// Ops are what units are made of: kernels, dots, collectives.
  bool is_op(InstructionId id) const { return role_of(id) >= OpRole::kKernel; }
  size_t slot_count(InstructionId collective) const {
    return at(collective).operands.size();
  }
};

/// What a routine reads: the values of all arrays of its operands, in order.
std::vector<InstructionId> routine_inputs(const OpGraph& graph,
                                          InstructionId routine);

/// Analyses the entry computation.
/// Errors: kUnsupported naming the first instruction that cannot run (tuples of
/// values, a collective that does not run);
/// kInvalid for aliases that name outputs or parameters which do not exist or
/// differ in size.
Result<OpGraph> build_op_graph(const InlinedModule& inlined);

}  // namespace reprise

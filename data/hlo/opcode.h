// The HLO opcodes and what the project knows of each: one table,
// opcode_table.inc, that parser, verifier, costs, drawings, lowering and both
// runtimes read. What is an algorithm of one opcode (the shape of a gather, the
// flops of a convolution) is a function elsewhere.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace reprise {

enum class Opcode : uint8_t {
#define REPRISE_OPCODE(id, ...) k##id,
#define REPRISE_ELEMENTWISE(id, ...) k##id,
#include "data/hlo/opcode_table.inc"
};

/// What an instruction is to the eye: its colour in drawings.
enum class OpcodeKind : uint8_t {
  kParameter,
  kConstant,
  kElementwise,
  kContraction,
  kReduction,
  kMovement,
  kCollective,
  kControl,
  kCustom,
};

/// How a schedule runs an instruction.
enum class Lowering : uint8_t {
  kRefused,     ///< It does not run; refused before the first step.
  kInput,       ///< Bound to memory.
  kElement,     ///< In a kernel: one element from one of each operand.
  kReshape,     ///< A view: the same elements in the same order.
  kView,        ///< No kernel of its own; its readers see through it.
  kIndexed,     ///< In a kernel: elements read at other indices.
  kReduction,   ///< In a kernel: elements combined in order.
  kLibrary,     ///< By a matrix library.
  kRoutine,     ///< On its own, by a routine of the device.
  kCollective,  ///< With other ranks.
  kCaller,      ///< Its computations run as parts of the step.
};

/// Operand types that the function of an elementwise opcode is defined for.
enum class ElementTypes : uint8_t {
  kNoType,
  kAnyType,
  kNumbers,   ///< All but pred.
  kIntegers,  ///< Without pred.
  kBits,      ///< Integers and pred.
  kFloats,
};

/// Element type of an elementwise result.
enum class ResultType : uint8_t { kSame, kPredicate, kOwn };

/// Operations by XLA's rules.
enum class FlopsRule : uint8_t {
  kNone,
  kEachElement,     ///< One a result element.
  kTranscendental,  ///< None, but one transcendental a result element.
  kOwnRule,         ///< A function of cost_rules.cc.
};

/// Bytes moved by XLA's rules.
enum class BytesRule : uint8_t {
  kWhole,    ///< Operands read, result written.
  kNothing,  ///< A name for values that stand elsewhere.
  kPart,     ///< Of the first operand, what the result takes.
  kUpdate,   ///< Of the first operand, what the second replaces.
  kOwnRule,  ///< A function of cost_rules.cc.
};

/// The value that leaves the other operand unchanged.
enum class Identity : uint8_t {
  kNoIdentity,  ///< No reduction combines by this opcode.
  kZero,
  kOne,
  kLeast,
  kGreatest,
  kAllBits,
};

/// One row of opcode_table.inc.
struct OpcodeFacts {
  static constexpr uint8_t kAny = std::numeric_limits<uint8_t>::max();

  std::string_view name;  ///< Spelling in HLO text.
  uint8_t least_operands = 0;
  uint8_t most_operands = kAny;  ///< Inclusive; kAny has no bound.
  OpcodeKind kind = OpcodeKind::kElementwise;
  Lowering lowering = Lowering::kRefused;
  FlopsRule flops = FlopsRule::kNone;
  BytesRule bytes = BytesRule::kWhole;
  /// XLA's notion: each element of the result from one element of each operand
  /// (of clamp and select, or from a scalar). Kernels also take
  /// `Lowering::kElement`s that XLA does not count so, such as copy.
  bool elementwise = false;
  ElementTypes types = ElementTypes::kAnyType;
  std::string_view function = {};  ///< Of the math prelude, "rk_abs"; or empty.
  int32_t weight = 1;  ///< Rough cost of one element; an addition costs 1.
  ResultType result = ResultType::kSame;
  Identity identity = Identity::kNoIdentity;
};

const OpcodeFacts& facts_of(Opcode opcode);

/// Spelling in HLO text.
std::string_view opcode_name(Opcode opcode);
std::optional<Opcode> opcode_from_name(std::string_view name);

/// Operations that ranks take part in together, and the starts of such.
bool is_collective(Opcode opcode);
/// A kernel computes each element of the result from one of each operand.
bool runs_elementwise(Opcode opcode);
/// True for what is no kernel's work by itself: its readers see through it.
bool is_view(Opcode opcode);
/// A view of the same elements in the same order.
bool is_reshape(Opcode opcode);

}  // namespace reprise

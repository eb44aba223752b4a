// Reads one instruction: shape, opcode, operands, attributes. Internal to the
// HLO parser.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "data/hlo/hlo_lexer.h"
#include "data/hlo/module.h"

namespace reprise {

using ComputationNames = std::unordered_map<std::string_view, ComputationId>;

/// Appends instructions to one computation; references resolve to what stands
/// before.
class HloInstructionParser {
 public:
  /// `module` holds the computations read so far; all must outlive the parser.
  HloInstructionParser(HloLexer* lexer, const ComputationNames* computations,
                       Module* module, Computation* computation)
      : lexer_(lexer),
        computations_(computations),
        module_(module),
        computation_(computation) {}

  /// Reads one instruction, checks it against its operands and appends it.
  bool parse();
  bool has_root() const { return has_root_; }

 private:
  bool parse_opcode(Instruction* instruction);
  bool parse_operands(Instruction* instruction);
  bool parse_operand(Instruction* instruction);
  bool parse_parameter(Instruction* instruction);
  bool parse_constant(Instruction* instruction);
  bool parse_attributes(Instruction* instruction);
  bool parse_value(Attribute* attribute);
  bool parse_raw_value(Attribute* attribute);
  bool parse_integer_list(Attribute* attribute, bool* is_list);
  bool parse_computations(Attribute* attribute);
  bool parse_predecessors(Attribute* attribute);
  bool resolve(ComputationId* id);
  bool resolve(InstructionId* id);
  bool parse_element(InstructionId* id);
  bool append(Instruction instruction, size_t position, bool is_root);

  HloLexer* lexer_;
  const ComputationNames* computations_;
  Module* module_;
  Computation* computation_;
  std::unordered_map<std::string_view, InstructionId> names_;
  std::unordered_set<std::string> element_names_;  ///< Those given here.
  /// The get-tuple-element that stands for `tuple#index`.
  std::map<std::pair<uint32_t, int64_t>, InstructionId> elements_;
  bool has_root_ = false;
};

}  // namespace reprise

// How a rewriting of a program puts several ops in the place of one.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// Makes the references of an instruction, operands and control edges, those of
/// `now`: [old instruction] new.
void renumber_references(const std::vector<InstructionId>& now,
                         Instruction* instruction);

/// Drops what nothing reads, the root apart, and then what only that read, of
/// the instructions that `may_go`. Cost: linear.
void drop_unread(const std::function<bool(const Instruction&)>& may_go,
                 Computation* computation);

/// Appends the ops that one instruction becomes. Each is named after it, `TAG`
/// (a letter of the rewriting, so that two do not meet) and its own place, and
/// has its metadata.
class AppendedOps {
 public:
  /// `to`: the computation's instructions so far; `origin`: what is replaced.
  AppendedOps(const Instruction& origin, char tag,
              std::vector<Instruction>* to);

  /// Appends `step`, with the name and metadata that it has, if any.
  InstructionId append(Instruction step);
  InstructionId op(Opcode opcode, std::vector<InstructionId> operands,
                   Shape shape, std::vector<Attribute> attributes = {});
  InstructionId compare(std::string_view direction, InstructionId a,
                        InstructionId b);
  /// The same number everywhere.
  InstructionId number(double value, Shape shape);

 protected:
  const Shape& shape_of(InstructionId id) const {
    return to_[index_of(id)].shape;
  }

  std::vector<Instruction>& to_;

 private:
  const Instruction& origin_;
  char tag_;
};

}  // namespace reprise

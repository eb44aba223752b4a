// XLA has no arithmetic of bf16 on CPUs: each op that rounds becomes one of f32
// between conversions, and a conversion to f32 of what it gave takes the f32
// itself, whoever else reads the rounded value. Views and moves do not round
// and come rounded, as do conversions of f32 that the program wrote itself.
// A program is dumped before that, so the same is done here.
#include "data/hlo/unrounded_reads.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/appended_ops.h"

namespace reprise {
namespace {

constexpr const char* kReadsRounded = "reprise_read=\"rounded\"";

}  // namespace

void read_rounded(Instruction* convert) {
  add_note(kReadsRounded, &convert->attributes);
}

namespace {

/// Whether a result of 16 bits is one that was rounded to them.
bool rounds(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kConvolution:
    case Opcode::kDivide:
    case Opcode::kDot:
    case Opcode::kMultiply:
    case Opcode::kRemainder:
    case Opcode::kSubtract:
      return true;
    default:
      return facts_of(opcode).flops == FlopsRule::kTranscendental &&
             facts_of(opcode).lowering == Lowering::kElement;
  }
}

}  // namespace

bool is_rounded(const Instruction& instruction) {
  return instruction.shape.type == PrimitiveType::kBF16 &&
         rounds(instruction.opcode);
}

namespace {

/// Whether its operands stay what they are: products of bf16 summed in f32.
bool takes_both(Opcode opcode) {
  return opcode == Opcode::kDot || opcode == Opcode::kConvolution;
}

bool is_widening(const Instruction& convert) {
  return convert.opcode == Opcode::kConvert &&
         convert.shape.type == PrimitiveType::kF32 &&
         !has_note(convert.attributes, kReadsRounded);
}

bool says(const Instruction& instruction, const char* result) {
  return has_note(instruction.attributes,
                  std::string("reprise_result=\"") + result + "\"");
}

class Reader {
 public:
  explicit Reader(Computation* computation) : computation_(*computation) {}

  void run() {
    find_kept();
    find_widened();
    if (std::find(widened_.begin(), widened_.end(), true) == widened_.end())
      return;
    std::vector<Instruction> old = std::move(computation_.instructions);
    computation_.instructions.clear();
    for (size_t i = 0; i < old.size(); ++i) rewrite(i, std::move(old[i]));
    computation_.root = rounded_[index_of(computation_.root)];
    if (std::find(kept_.begin(), kept_.end(), true) == kept_.end()) return;
    drop_unread(
        [](const Instruction& instruction) {
          return instruction.opcode == Opcode::kConvert ||
                 is_view(instruction.opcode);
        },
        &computation_);
  }

 private:
  void find_kept() {
    for (const Instruction& made : computation_.instructions) {
      const bool is_of_kept = made.operands.size() == 1 &&
                              is_view(made.opcode) &&
                              kept_[index_of(made.operands[0])];
      const bool is_marked =
          says(made, "unrounded") &&
          (rounds(made.opcode) || is_narrowing_from_f32(made));
      kept_.push_back(made.shape.type == PrimitiveType::kBF16 &&
                      (is_marked || is_of_kept));
    }
  }

  [[nodiscard]] bool is_narrowing_from_f32(const Instruction& convert) const {
    return convert.opcode == Opcode::kConvert &&
           computation_.at(convert.operands[0]).shape.type ==
               PrimitiveType::kF32;
  }

  /// Reads in f32 what was not rounded.
  [[nodiscard]] bool reads_kept(const Instruction& made) const {
    return !takes_both(made.opcode) &&
           std::any_of(
               made.operands.begin(), made.operands.end(),
               [&](InstructionId operand) { return kept_[index_of(operand)]; });
  }

  void find_widened() {
    const std::vector<Instruction>& all = computation_.instructions;
    for (const Instruction& made : all) {
      const bool is_kept = kept_[widened_.size()];
      widened_.push_back(is_rounded(made) && !says(made, "rounded") &&
                         (is_kept || reads_kept(made)));
    }
    for (const Instruction& convert : all) {
      if (!is_widening(convert)) continue;
      const Instruction& made = computation_.at(convert.operands[0]);
      if (is_rounded(made) && !says(made, "rounded"))
        widened_[index_of(convert.operands[0])] = true;
    }
    needed_.assign(all.size(), false);
    for (const Instruction& user : all) {
      for (const InstructionId operand : user.operands)
        needed_[index_of(operand)] =
            needed_[index_of(operand)] || !is_widening(user);
    }
    needed_[index_of(computation_.root)] = true;
  }

  void rewrite(size_t place, Instruction instruction) {
    const InstructionId first = instruction.operands.empty()
                                    ? InstructionId{}
                                    : instruction.operands[0];
    if (is_widening(instruction) &&
        (widened_[index_of(first)] || kept_[index_of(first)])) {
      note(exact_[index_of(first)], exact_[index_of(first)]);
      return;
    }
    const std::vector<InstructionId> read = instruction.operands;
    renumber_references(rounded_, &instruction);
    if (kept_[place] && !widened_[place]) {
      const InstructionId exact =
          is_view(instruction.opcode)
              ? append_view(instruction, exact_[index_of(first)])
              : instruction.operands[0];
      note(exact, append(std::move(instruction)));
      return;
    }
    if (!widened_[place]) {
      const InstructionId id = append(std::move(instruction));
      note(id, id);
      return;
    }
    widen(read, &instruction);
    const Instruction back =
        conversion(instruction, "/bf16", PrimitiveType::kBF16);
    const InstructionId exact = append(std::move(instruction));
    note(exact, needed_[place] ? append_reading(back, exact) : exact);
  }

  InstructionId append_view(Instruction view, InstructionId operand) {
    view.name += "/f32";
    view.shape.type = PrimitiveType::kF32;
    return append_reading(std::move(view), operand);
  }

  /// `read`: the operands before they were renumbered.
  void widen(const std::vector<InstructionId>& read, Instruction* instruction) {
    instruction->shape.type = PrimitiveType::kF32;
    if (takes_both(instruction->opcode)) return;
    std::vector<InstructionId>& operands = instruction->operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (kept_[index_of(read[i])]) {
        operands[i] = exact_[index_of(read[i])];
        continue;
      }
      const auto same =
          std::find(originals_.begin(), originals_.end(), operands[i]);
      if (same != originals_.end()) {
        operands[i] = wide_[static_cast<size_t>(same - originals_.begin())];
        continue;
      }
      Instruction wide =
          conversion(computation_.at(operands[i]), "", PrimitiveType::kF32);
      wide.name = instruction->name + "/f32." + std::to_string(i);
      // A loop's body comes here again when it is taken out of its program.
      read_rounded(&wide);
      originals_.push_back(operands[i]);
      operands[i] = append_reading(std::move(wide), operands[i]);
      wide_.push_back(operands[i]);
    }
    originals_.clear();
    wide_.clear();
  }

  static Instruction conversion(const Instruction& of, const char* suffix,
                                PrimitiveType type) {
    Instruction convert;
    convert.name = of.name + suffix;
    convert.opcode = Opcode::kConvert;
    convert.shape = of.shape;
    convert.shape.type = type;
    if (const Attribute* metadata = of.find_attribute("metadata"))
      convert.attributes.push_back(*metadata);
    return convert;
  }

  InstructionId append(Instruction instruction) {
    computation_.instructions.push_back(std::move(instruction));
    return InstructionId(
        static_cast<uint32_t>(computation_.instructions.size() - 1));
  }
  InstructionId append_reading(Instruction convert, InstructionId operand) {
    convert.operands = {operand};
    return append(std::move(convert));
  }
  void note(InstructionId exact, InstructionId rounded) {
    exact_.push_back(exact);
    rounded_.push_back(rounded);
  }

  Computation& computation_;
  /// [old id] Read in f32 by all elementwise ops; views of such, too.
  std::vector<bool> kept_;
  std::vector<bool> widened_;  ///< [old id] Computes f32 from now on.
  std::vector<bool> needed_;   ///< [old id] Read by more than conversions.
  std::vector<InstructionId> exact_;    ///< [old id] The value, unrounded.
  std::vector<InstructionId> rounded_;  ///< [old id] What others read.
  /// Operands of one instruction, and their conversions.
  std::vector<InstructionId> originals_, wide_;
};

}  // namespace

void read_unrounded(Module* module) {
  for (const ComputationId part : program_parts(*module))
    Reader(&module->computations[index_of(part)]).run();
}

}  // namespace reprise

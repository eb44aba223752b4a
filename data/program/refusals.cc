// Lowering knows best what does not run, and stops at the first. So what it
// names becomes an input of the program, together with what is like it, and
// lowering is asked again.
#include "data/program/refusals.h"

#include <algorithm>
#include <optional>

#include "data/hlo/hlo.h"
#include "data/hlo/instruction_place.h"
#include "data/hlo/matrix_operation.h"
#include "data/hlo/routine.h"
#include "data/plan/plan.h"
#include "data/program/refusal_advice.h"
#include "data/schedule/called_program.h"
#include "data/schedule/schedule.h"

namespace reprise {
namespace {

constexpr const char* kPrintConstants =
    "give the text of lower().as_text(\"hlo\"), which has them, or a dump by "
    "XLA_FLAGS=\"--xla_dump_to=DIR --xla_dump_hlo_as_text "
    "--xla_dump_large_constants\"";

/// `NAME: what` of an error, NAME an instruction of the entry.
std::optional<InstructionId> named_in(const Computation& entry,
                                      const std::string& message,
                                      std::string* what) {
  const size_t end = message.find(": ");
  if (end == std::string::npos) return std::nullopt;
  for (uint32_t i = 0; i < entry.instructions.size(); ++i) {
    const std::string& name = entry.instructions[i].name;
    if (message.compare(0, end, name) != 0) continue;
    *what = message.substr(end + 2);
    return InstructionId{i};
  }
  return std::nullopt;
}

const Shape& first_shape(const Shape& shape) {
  return shape.is_tuple() && !shape.elements.empty()
             ? first_shape(shape.elements[0])
             : shape;
}

bool is_like(const Computation& entry, const Instruction& a,
             const Instruction& b) {
  if (a.opcode != b.opcode || a.operands.size() != b.operands.size() ||
      a.shape.is_tuple() != b.shape.is_tuple() ||
      first_shape(a.shape).type != first_shape(b.shape).type)
    return false;
  const auto type_of = [&](const Instruction& instruction) {
    return instruction.operands.empty()
               ? PrimitiveType::kTuple
               : entry.at(instruction.operands[0]).shape.type;
  };
  const auto text_of = [](const Instruction& instruction) {
    const Attribute* target = instruction.find_attribute("custom_call_target");
    const auto* raw =
        target == nullptr ? nullptr : std::get_if<RawText>(&target->value);
    return raw == nullptr ? std::string() : raw->text;
  };
  return type_of(a) == type_of(b) && text_of(a) == text_of(b);
}

/// Finds what is lowered but not run, in what units call too.
class Scan {
 public:
  explicit Scan(const InlinedModule& module) : module_(&module) {}

  void add(const Schedule& schedule, std::vector<Refusal>* refusals) {
    const Computation& entry = module_->entry_computation();
    for (const Buffer& buffer : schedule.buffers) {
      if (buffer.kind != BufferKind::kConstant) continue;
      const Instruction& constant = entry.at(buffer.constant);
      if (constant.literal.find("...") != std::string::npos)
        note(constant, "its values are elided, `{...}`", kPrintConstants,
             refusals);
    }
    for (const Unit& unit : schedule.units) {
      const std::string reason = reason_of(entry, unit);
      if (!reason.empty()) {
        const Instruction& refused = entry.at(unit.ops.front());
        note(refused, reason, refusal_advice(refused), refusals);
        continue;
      }
      for (const RoutineCallee& callee : unit.routine.callees)
        add_callee(entry.at(unit.ops.front()), callee, refusals);
    }
  }

 private:
  /// Why the unit does not run; empty where it does.
  static std::string reason_of(const Computation& entry, const Unit& unit) {
    if (unit.kind != UnitKind::kRoutine) return {};
    const Instruction& instruction = entry.at(unit.routine.instruction);
    if (!is_only_priced(instruction)) return {};
    return does_not_run(instruction);
  }

  void add_callee(const Instruction& caller, const RoutineCallee& callee,
                  std::vector<Refusal>* refusals) {
    Scan inner(callee.program->module);
    inner.path_ = path_ + caller.name + ": ";
    inner.add(callee.program->schedule, refusals);
  }

  /// Of one reason, the first is named and the others are counted; parts of a
  /// complex value are one.
  void note(const Instruction& instruction, const std::string& reason,
            const std::string& advice, std::vector<Refusal>* refusals) const {
    const std::string place = path_ + instruction_place(*module_, instruction);
    for (Refusal& earlier : *refusals) {
      if (earlier.reason != reason) continue;
      if (earlier.instruction != place) ++earlier.more;
      return;
    }
    if (refusals->size() >= kMostRefusals) return;
    refusals->push_back(
        {.instruction = place, .reason = reason, .advice = advice});
  }

  std::string path_;  ///< Loops and branches around it.
  const InlinedModule* module_;
};

class Asker {
 public:
  Asker(const InlinedModule& module, int64_t ranks)
      : module_(module), ranks_(ranks), entry_(module_.entry_computation()) {
    inputs_ = static_cast<int64_t>(parameters_of(entry_).size());
  }

  std::vector<Refusal> run() {
    while (refusals_.size() < kMostRefusals) {
      const Result<Schedule> lowered =
          lower_schedule(module_, identity_plan(module_, ranks_));
      if (lowered) {
        Scan(module_).add(*lowered, &refusals_);
        break;
      }
      if (!note(lowered.error())) break;
    }
    return std::move(refusals_);
  }

 private:
  /// False where asking again would bring the same.
  bool note(const Error& error) {
    Refusal& refusal = refusals_.emplace_back();
    const auto named = named_in(entry_, error.message, &refusal.reason);
    if (!named) {
      refusal.reason = error.message;
      return false;
    }
    const Instruction first = entry_.at(*named);
    refusal.instruction = instruction_place(module_, first);
    refusal.advice = refusal_advice(refused_in(first, refusal.reason));
    if (first.opcode == Opcode::kParameter || *named == entry_.root)
      return false;
    for (uint32_t i = 0; i < entry_.instructions.size(); ++i) {
      const InstructionId id{i};
      const bool same = id == *named;
      if (!same &&
          (id == entry_.root || !is_like(entry_, first, entry_.at(id))))
        continue;
      refusal.more += same ? 0 : 1;
      make_input(id);
    }
    return true;
  }

  /// What was refused: the instruction, or one of a body or branch that it
  /// runs, which the reason then names first.
  const Instruction& refused_in(const Instruction& instruction,
                                const std::string& reason) const {
    const std::string name = reason.substr(0, reason.find(": "));
    for (const Computation& computation : module_.computations) {
      for (const Instruction& other : computation.instructions) {
        if (other.name == name) return other;
      }
    }
    return instruction;
  }

  void make_input(InstructionId id) {
    Instruction& refused = entry_.at(id);
    if (refused.shape.is_tuple()) {
      for (Instruction& user : entry_.instructions) {
        const bool takes = std::find(user.operands.begin(), user.operands.end(),
                                     id) != user.operands.end();
        if (takes && user.opcode == Opcode::kGetTupleElement)
          become_input(user);
      }
    } else {
      become_input(refused);
    }
  }

  void become_input(Instruction& instruction) {
    instruction.opcode = Opcode::kParameter;
    instruction.opcode_text.clear();
    instruction.operands.clear();
    instruction.attributes.clear();
    instruction.parameter_number = inputs_++;
  }

  InlinedModule module_;
  int64_t ranks_;
  Computation& entry_;
  int64_t inputs_ = 0;
  std::vector<Refusal> refusals_;
};

}  // namespace

std::vector<Refusal> refusals_of(const InlinedModule& module, int64_t ranks) {
  return Asker(module, ranks).run();
}

std::vector<Refusal> refusals_of(const InlinedModule& module,
                                 const Schedule& schedule) {
  std::vector<Refusal> refusals;
  Scan(module).add(schedule, &refusals);
  return refusals;
}

Status refuse(const std::vector<Refusal>& refusals) {
  if (refusals.empty()) return {};
  std::string text;
  for (const Refusal& refusal : refusals) {
    if (!text.empty()) text += "\n  ";
    if (!refusal.instruction.empty()) text += refusal.instruction + ": ";
    text += refusal.reason;
    if (refusal.more > 0)
      text += fmt::format(" (and {} like it)", refusal.more);
    if (!refusal.advice.empty()) text += "; " + refusal.advice;
  }
  if (refusals.size() == kMostRefusals) text += "\n  and perhaps more";
  return fail(ErrorKind::kUnsupported, "{}", text);
}

Status check_runs(const InlinedModule& module, int64_t ranks) {
  return refuse(refusals_of(module, ranks));
}

}  // namespace reprise

#include "data/hlo/unroll_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/appended_ops.h"
#include "data/hlo/cost_analysis.h"
#include "data/hlo/known_integers.h"

namespace reprise {
namespace {

constexpr int64_t kMostSteps = 8;
/// Of all steps: two times the rounds of ThreeFry.
constexpr size_t kMostOps = 1024;
/// Of a constant that becomes part of a body.
constexpr int64_t kMostFirst = 16;

bool holds_integers(const Shape& shape) {
  if (!shape.is_array()) return false;
  const std::string_view name = primitive_type_name(shape.type);
  return shape.type == PrimitiveType::kPred || name.starts_with('s') ||
         name.starts_with('u');
}

/// Ops that a kernel computes element by element, and those that only name or
/// move elements.
bool may_repeat(const Instruction& op) {
  if (!holds_integers(op.shape) || has_control_predecessors(op)) return false;
  switch (op.opcode) {
    case Opcode::kConstant:
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kSlice:
      return true;
    default:
      return runs_elementwise(op.opcode);
  }
}

/// A loop of the entry whose steps may stand one behind the other.
struct ShortLoop {
  ComputationId body{};
  LoopCounter counter;
  /// [element] What it begins with, where that is a constant.
  std::vector<std::optional<Instruction>> first;
};

class Unroller {
 public:
  /// `body`: without calls.
  Unroller(const Computation& body, const ShortLoop& loop)
      : body_(body), loop_(loop), counter_(loop.counter) {}

  /// The body of all steps; nothing where it has ops other than those.
  std::optional<Computation> run() {
    const auto parameter = std::ranges::find(
        body_.instructions, Opcode::kParameter, &Instruction::opcode);
    if (parameter == body_.instructions.end() || !is_plain())
      return std::nullopt;
    made_ = body_;
    made_.instructions.clear();
    const Instruction& root = body_.at(body_.root);
    const InstructionId state = append(*parameter, parameter->name);
    for (size_t k = 0; k < root.operands.size(); ++k)
      state_.push_back(element(state, k));
    const InstructionId first = state_[counter_.index];
    // The body runs once, so these are constants to it.
    for (size_t k = 0; k < state_.size(); ++k) {
      if (loop_.first[k])
        state_[k] = append(*loop_.first[k], fmt::format("reprise_first.{}", k));
    }
    for (int64_t step = 0; step < counter_.trips(); ++step) append_step(step);
    Instruction next = body_.at(root.operands[counter_.index]);
    Instruction count;
    count.opcode = Opcode::kConstant;
    count.shape = next.shape;
    count.literal = std::to_string(counter_.limit);
    const InstructionId steps = append(count, "reprise_steps");
    next.operands = {first, steps};
    state_[counter_.index] = append(next, "reprise_counted");
    Instruction result = root;
    result.operands = state_;
    made_.root = append(result, root.name);
    drop_unread(
        [](const Instruction& op) { return op.opcode != Opcode::kParameter; },
        &made_);
    return std::move(made_);
  }

 private:
  /// All ops may repeat, but for a tuple that comes and one that leaves.
  bool is_plain() const {
    const Instruction& root = body_.at(body_.root);
    const size_t elements = loop_.first.size();
    if (root.opcode != Opcode::kTuple || has_control_predecessors(root) ||
        root.operands.size() != elements ||
        !std::ranges::all_of(root.shape.elements, holds_integers))
      return false;
    for (size_t i = 0; i < body_.instructions.size(); ++i) {
      const Instruction& op = body_.instructions[i];
      const bool is_end =
          op.opcode == Opcode::kParameter
              ? op.parameter_number == 0 && op.shape.elements.size() == elements
              : i == index_of(body_.root);
      if (!is_end && !picks_state(op) && !may_repeat(op)) return false;
    }
    return true;
  }
  bool picks_state(const Instruction& op) const {
    return op.opcode == Opcode::kGetTupleElement &&
           body_.at(op.operands[0]).opcode == Opcode::kParameter &&
           picked_element(op).value_or(SIZE_MAX) < loop_.first.size();
  }
  InstructionId append(Instruction op, std::string name) {
    op.name = std::move(name);
    if (auto literal = known_.note(op)) {
      op.opcode = Opcode::kConstant;
      op.literal = *std::move(literal);
      op.operands.clear();
      op.attributes.clear();
    }
    made_.instructions.push_back(std::move(op));
    return InstructionId{static_cast<uint32_t>(made_.instructions.size() - 1)};
  }
  InstructionId element(InstructionId state, size_t k) {
    Instruction pick;
    pick.opcode = Opcode::kGetTupleElement;
    pick.shape = made_.at(state).shape.elements[k];
    pick.operands = {state};
    pick.attributes.push_back({"index", RawText{std::to_string(k)}});
    return append(pick, fmt::format("reprise_state.{}", k));
  }
  void append_step(int64_t step) {
    std::vector<InstructionId> now(body_.instructions.size());
    for (size_t i = 0; i < body_.instructions.size(); ++i) {
      Instruction op = body_.instructions[i];
      if (op.opcode == Opcode::kParameter || i == index_of(body_.root))
        continue;
      if (picks_state(op)) {
        now[i] = state_[*picked_element(op)];
        continue;
      }
      for (InstructionId& operand : op.operands)
        operand = now[index_of(operand)];
      now[i] = append(op, fmt::format("{}.step{}", op.name, step));
    }
    for (size_t k = 0; k < state_.size(); ++k)
      next_.push_back(now[index_of(body_.at(body_.root).operands[k])]);
    state_ = std::exchange(next_, {});
  }

  const Computation& body_;
  const ShortLoop& loop_;
  const LoopCounter counter_;
  KnownIntegers known_;
  Computation made_;
  std::vector<InstructionId> state_, next_;  ///< [element]
};

std::optional<ShortLoop> short_loop(const Module& module,
                                    const Instruction& loop,
                                    const std::vector<int>& callers) {
  if (loop.opcode != Opcode::kWhile) return std::nullopt;
  const auto body = called_computation(loop, "body");
  const auto counter = proven_counter(module, module.entry_computation(), loop);
  if (!body || !counter || callers[index_of(*body)] != 1 ||
      counter->trips() < 2 || counter->trips() > kMostSteps ||
      module.at(*body).instructions.size() > kMostOps)
    return std::nullopt;
  ShortLoop found{.body = *body, .counter = *counter, .first = {}};
  const Computation& entry = module.entry_computation();
  for (const InstructionId id : entry.at(loop.operands[0]).operands) {
    const Instruction& first = entry.at(id);
    found.first.emplace_back();
    if (first.opcode == Opcode::kConstant && holds_integers(first.shape) &&
        element_count(first.shape) <= kMostFirst)
      found.first.back() = first;
  }
  return found;
}

}  // namespace

void unroll_loops(const std::function<Result<Computation>(ComputationId)>& flat,
                  Module* module) {
  const std::vector<int> callers = caller_counts(*module);
  for (Instruction& loop : module->entry_computation().instructions) {
    const auto found = short_loop(*module, loop, callers);
    if (!found) continue;
    const Result<Computation> body = flat(found->body);
    if (!body || body->instructions.size() *
                         static_cast<size_t>(found->counter.trips()) >
                     kMostOps)
      continue;
    auto made = Unroller(*body, *found).run();
    if (!made) continue;
    module->computations[index_of(found->body)] = *std::move(made);
    // Where it says how often the loop runs, that has changed.
    std::erase_if(loop.attributes, [](const Attribute& attribute) {
      return attribute.name == "backend_config";
    });
  }
}

}  // namespace reprise

#include "cli/export/scheduled_hlo.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "data/hlo/contract_products.h"

namespace reprise {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class Scheduler {
 public:
  Scheduler(const InlinedModule& program, const OpGraph& graph,
            const PlanChoice& choice, const Schedule& schedule)
      : graph_(graph),
        entry_(program.entry_computation()),
        choice_(choice),
        schedule_(schedule),
        result_(program),
        new_(entry_.instructions.size(), kNoInstruction),
        sent_of_slot_(graph.slots.size(), -1) {
    out_ = &result_.entry_computation();
    out_->instructions.clear();
  }

  Module run() {
    std::vector<std::pair<int64_t, uint32_t>> order;
    const std::vector<int64_t> times = unit_times();
    for (uint32_t at = 0; at < times.size(); ++at) {
      const bool kept = graph_.role[at] != OpRole::kDead ||
                        entry_.instructions[at].opcode == Opcode::kParameter ||
                        InstructionId{at} == entry_.root;
      if (kept) order.emplace_back(times[at], at);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [time, at] : order) emit(InstructionId{at}, time);
    out_->root = resolve(entry_.root);
    mark_scheduled();
    return std::move(result_);
  }

 private:
  /// A collective that was started.
  struct Sent {
    InstructionId start{};
    std::string name;
    std::vector<InstructionId> results;  ///< By member; empty: not done yet.
    std::vector<int32_t> slots;
  };

  /// [instruction] The unit that runs it first; of what no unit runs, the first
  /// of its readers.
  std::vector<int64_t> unit_times() const {
    std::vector<int64_t> times(entry_.instructions.size(), kNever);
    for (size_t unit = 0; unit < schedule_.units.size(); ++unit) {
      for (const InstructionId op : schedule_.units[unit].ops) {
        int64_t& time = times[index_of(op)];
        time = std::min(time, static_cast<int64_t>(unit));
      }
    }
    for (size_t at = times.size(); at-- > 0;) {
      for (const InstructionId operand : entry_.instructions[at].operands) {
        if (graph_.is_op(operand)) continue;
        int64_t& time = times[index_of(operand)];
        time = std::min(time, times[at]);
      }
      if (entry_.instructions[at].opcode == Opcode::kParameter) times[at] = -1;
    }
    return times;
  }

  void emit(InstructionId old, int64_t time) {
    const Instruction& instruction = entry_.at(old);
    if (graph_.role_of(old) == OpRole::kCollective) {
      if (time == kNever) return;
      send(schedule_.units[static_cast<size_t>(time)], old);
      return;
    }
    if (new_[index_of(old)] != kNoInstruction) return;
    if (instruction.opcode == Opcode::kGetTupleElement &&
        graph_.role_of(instruction.operands[0]) == OpRole::kCollective) {
      return;  // Resolved where it is read.
    }
    Instruction copy = instruction;
    for (InstructionId& operand : copy.operands) operand = resolve(operand);
    std::erase_if(copy.attributes, [](const Attribute& attribute) {
      return std::holds_alternative<std::vector<InstructionId>>(
          attribute.value);
    });
    if (is_contracted(copy.opcode)) {
      const InstructionId product =
          add(contracted_product(copy), instruction.name + ".product");
      copy = contracted_sum(copy, product);
    }
    new_[index_of(old)] = add(std::move(copy), instruction.name);
  }

  /// Slots that the unit of a collective runs.
  std::vector<int32_t> slots_of(const Unit& unit, InstructionId old) const {
    if (unit.ref.kind == UnitRef::Kind::kBucket) {
      const std::vector<int32_t>& all = choice_.buckets[unit.ref.index].slots;
      // One instruction has one dimension that ranks divide.
      const auto dimensions = [&](int32_t at) {
        return integer_list(entry_.at(slot(at).collective), "dimensions");
      };
      const bool alike = std::ranges::all_of(all, [&](int32_t each) {
        return dimensions(each) == dimensions(all.front());
      });
      if (alike) return all;
    }
    if (unit.ref.kind == UnitRef::Kind::kOperand) {
      return {static_cast<int32_t>(unit.ref.index)};
    }
    std::vector<int32_t> slots;
    const int32_t first = graph_.first_slot[index_of(old)];
    for (size_t at = 0; at < graph_.slot_count(old); ++at) {
      slots.push_back(first + static_cast<int32_t>(at));
    }
    return slots;
  }

  /// Starts the unit of a collective's first part; its other parts are started
  /// where their own units stand or, at the latest, where they are read.
  void send(const Unit& unit, InstructionId old) {
    const std::vector<int32_t> slots = slots_of(unit, old);
    if (sent_of_slot_[static_cast<size_t>(slots.front())] >= 0) return;
    Sent sent{.start = {}, .name = unit.name, .results = {}, .slots = slots};
    Instruction start = entry_.at(slot(slots.front()).collective);
    start.operands.clear();
    Shape whole;
    whole.type = PrimitiveType::kTuple;
    for (const int32_t each : slots) {
      const CollectiveSlot& member = slot(each);
      start.operands.push_back(
          resolve(entry_.at(member.collective)
                      .operands[static_cast<size_t>(member.operand)]));
      whole.elements.push_back(shape_of(member));
      sent_of_slot_[static_cast<size_t>(each)] =
          static_cast<int32_t>(sent_.size());
    }
    start.shape = slots.size() == 1 ? whole.elements.front() : whole;
    if (start.opcode == Opcode::kAllReduce) {
      start.opcode = Opcode::kAllReduceStart;
      start.opcode_text.clear();
    }
    sent.start = add(std::move(start), sent.name + ".start");
    sent_.push_back(std::move(sent));
  }

  const CollectiveSlot& slot(int32_t at) const {
    return graph_.slots[static_cast<size_t>(at)];
  }
  const Shape& shape_of(const CollectiveSlot& member) const {
    const Shape& shape = entry_.at(member.collective).shape;
    return shape.is_tuple()
               ? shape.elements[static_cast<size_t>(member.operand)]
               : shape;
  }

  /// The result of one operand of a collective, which is ended if need be.
  InstructionId received(int32_t wanted) {
    if (sent_of_slot_[static_cast<size_t>(wanted)] < 0) {
      for (const Unit& unit : schedule_.units) {
        if (unit.kind != UnitKind::kCollective) continue;
        const InstructionId old = slot(wanted).collective;
        const bool own =
            std::find(unit.ops.begin(), unit.ops.end(), old) != unit.ops.end();
        const std::vector<int32_t> slots =
            own ? slots_of(unit, old) : std::vector<int32_t>();
        if (std::find(slots.begin(), slots.end(), wanted) == slots.end()) {
          continue;
        }
        send(unit, old);
        break;
      }
    }
    Sent& sent =
        sent_[static_cast<size_t>(sent_of_slot_[static_cast<size_t>(wanted)])];
    if (sent.results.empty()) end(sent);
    const auto place = std::find(sent.slots.begin(), sent.slots.end(), wanted);
    return sent.results[static_cast<size_t>(place - sent.slots.begin())];
  }

  void end(Sent& sent) {
    InstructionId done = sent.start;
    if (out_->at(done).opcode == Opcode::kAllReduceStart) {
      Instruction end;
      end.opcode = Opcode::kAllReduceDone;
      end.shape = out_->at(sent.start).shape;
      end.operands = {sent.start};
      done = add(std::move(end), sent.name + ".done");
    }
    if (sent.slots.size() == 1) {
      sent.results = {done};
      return;
    }
    for (size_t at = 0; at < sent.slots.size(); ++at) {
      Instruction element;
      element.opcode = Opcode::kGetTupleElement;
      element.shape = shape_of(slot(sent.slots[at]));
      element.operands = {done};
      element.attributes = {{"index", RawText{fmt::format("{}", at)}}};
      sent.results.push_back(
          add(std::move(element), fmt::format("{}.{}", sent.name, at)));
    }
  }

  /// The new instruction of an old one.
  InstructionId resolve(InstructionId old) {
    if (new_[index_of(old)] != kNoInstruction) return new_[index_of(old)];
    const Instruction& instruction = entry_.at(old);
    if (graph_.role_of(old) == OpRole::kCollective) {
      const int32_t first = graph_.first_slot[index_of(old)];
      if (!instruction.shape.is_tuple()) return received(first);
      Instruction tuple;
      tuple.opcode = Opcode::kTuple;
      tuple.shape = instruction.shape;
      for (size_t at = 0; at < graph_.slot_count(old); ++at) {
        tuple.operands.push_back(received(first + static_cast<int32_t>(at)));
      }
      return new_[index_of(old)] = add(std::move(tuple), instruction.name);
    }
    const std::vector<int64_t> index = integer_list(instruction, "index");
    return received(graph_.first_slot[index_of(instruction.operands[0])] +
                    static_cast<int32_t>(index.empty() ? 0 : index.front()));
  }

  InstructionId add(Instruction instruction, std::string name) {
    std::replace(name.begin(), name.end(), '/', '.');
    std::replace(name.begin(), name.end(), '#', '.');
    std::string free = name;
    for (int copy = 1; !names_.insert(free).second; ++copy) {
      free = fmt::format("{}.{}", name, copy);
    }
    instruction.name = std::move(free);
    out_->instructions.push_back(std::move(instruction));
    return InstructionId{static_cast<uint32_t>(out_->instructions.size() - 1)};
  }

  void mark_scheduled() {
    std::erase_if(result_.attributes, [](const Attribute& attribute) {
      return attribute.name == "is_scheduled";
    });
    result_.attributes.insert(result_.attributes.begin(),
                              {"is_scheduled", RawText{"true"}});
  }

  const OpGraph& graph_;
  const Computation& entry_;
  const PlanChoice& choice_;
  const Schedule& schedule_;
  Module result_;
  Computation* out_ = nullptr;
  std::vector<InstructionId> new_;     // [old instruction]
  std::vector<int32_t> sent_of_slot_;  // [slot] Place in sent_, or -1.
  std::vector<Sent> sent_;
  std::set<std::string> names_;
};

}  // namespace

Module scheduled_module(const InlinedModule& program, const OpGraph& graph,
                        const PlanChoice& choice, const Schedule& schedule) {
  return Scheduler(program, graph, choice, schedule).run();
}

}  // namespace reprise

// Costs of instructions and of what they call, by XLA's HloCostAnalysis: a
// fusion costs the flops of its body and the bytes of what enters and leaves
// it, of a parameter that is only sliced the slices; a loop its body and
// condition times its trips; a conditional its dearest branch. Each computation
// is costed once, callees first. Cost: linear in the module.
#include <algorithm>

#include "data/hlo/cost_analysis.h"
#include "data/hlo/cost_rules.h"

namespace reprise {
namespace {

void accumulate(InstructionCost* sum, const InstructionCost& cost,
                double times) {
  sum->flops += cost.flops * times;
  sum->transcendentals += cost.transcendentals * times;
  sum->bytes += cost.bytes * times;
}

/// Bytes that a fusion reads of one parameter: only slices of it, when all uses
/// are slices.
double utilized_bytes(const Computation& fused, InstructionId parameter,
                      const std::vector<InstructionId>& users) {
  const double whole =
      static_cast<double>(byte_size(fused.at(parameter).shape));
  double sliced = 0;
  for (const InstructionId id : users) {
    const Instruction& user = fused.at(id);
    const bool is_source =
        user.operands[0] == parameter &&
        std::count(user.operands.begin(), user.operands.end(), parameter) == 1;
    const BytesRule moved = facts_of(user.opcode).bytes;
    if (is_source && moved == BytesRule::kPart) {
      sliced += static_cast<double>(byte_size(user.shape));
    } else if (!is_source || moved != BytesRule::kUpdate) {
      return whole;
    }
  }
  return std::min(whole, sliced);
}

/// Bytes written for one output of a fusion: an updated slice is written in
/// place.
double written_bytes(const Computation& fused, InstructionId id) {
  const Instruction& output = fused.at(id);
  if (output.opcode == Opcode::kTuple) {
    double bytes = 0;
    for (const InstructionId element : output.operands) {
      const bool nested = fused.at(element).opcode == Opcode::kTuple;
      bytes += nested ? static_cast<double>(byte_size(fused.at(element).shape))
                      : written_bytes(fused, element);
    }
    return bytes;
  }
  if (output.opcode != Opcode::kDynamicUpdateSlice) {
    return static_cast<double>(byte_size(output.shape));
  }
  return static_cast<double>(byte_size(fused.at(output.operands[1]).shape));
}

double fusion_bytes(const Computation& fused) {
  const std::vector<std::vector<InstructionId>> users = users_of(fused);
  double bytes = written_bytes(fused, fused.root);
  for (uint32_t i = 0; i < fused.instructions.size(); ++i) {
    const Instruction& instruction = fused.instructions[i];
    if (instruction.opcode == Opcode::kParameter) {
      bytes += utilized_bytes(fused, InstructionId{i}, users[i]);
    } else if (instruction.opcode == Opcode::kConstant &&
               element_total(instruction.shape) > 1) {
      bytes += static_cast<double>(byte_size(instruction.shape));
    }
  }
  return bytes;
}

}  // namespace

CostAnalysis::CostAnalysis(const Module& module, bool multiply_trips)
    : module_(module),
      multiply_trips_(multiply_trips),
      computations_(module.computations.size()) {}

InstructionCost CostAnalysis::instruction(const Computation& computation,
                                          InstructionId id) {
  prepare(computation.at(id));
  return evaluate(computation, computation.at(id));
}

InstructionCost CostAnalysis::computation(ComputationId id) {
  const Computation& computation = module_.at(id);
  InstructionCost sum;
  for (const Instruction& instruction : computation.instructions) {
    prepare(instruction);
    accumulate(&sum, evaluate(computation, instruction), 1);
  }
  return sum;
}

/// Costs everything the instruction reaches, callees first (their ids are
/// lower).
void CostAnalysis::prepare(const Instruction& instruction) {
  std::vector<ComputationId> reached = called_computations(instruction);
  std::vector<ComputationId> pending;
  std::vector<bool> seen(reached.empty() ? 0 : computations_.size());
  while (!reached.empty()) {
    const ComputationId id = reached.back();
    reached.pop_back();
    if (computations_[index_of(id)] || seen[index_of(id)]) continue;
    seen[index_of(id)] = true;
    pending.push_back(id);
    for (const Instruction& inner : module_.at(id).instructions) {
      const std::vector<ComputationId> more = called_computations(inner);
      reached.insert(reached.end(), more.begin(), more.end());
    }
  }
  std::sort(pending.begin(), pending.end());
  for (const ComputationId id : pending) {
    InstructionCost sum;
    for (const Instruction& inner : module_.at(id).instructions) {
      accumulate(&sum, evaluate(module_.at(id), inner), 1);
    }
    computations_[index_of(id)] = sum;
  }
}

InstructionCost CostAnalysis::called(const Instruction& instruction,
                                     std::string_view attribute) const {
  const auto id = called_computation(instruction, attribute);
  return id && computations_[index_of(*id)] ? *computations_[index_of(*id)]
                                            : InstructionCost();
}

InstructionCost CostAnalysis::evaluate(const Computation& computation,
                                       const Instruction& instruction) {
  const CostedOperation op{computation, instruction};
  switch (instruction.opcode) {
    case Opcode::kCall:
      return called(instruction, "to_apply");
    case Opcode::kWhile:
      return loop(computation, instruction);
    case Opcode::kConditional:
      return branches(instruction);
    case Opcode::kFusion:
      return fusion(computation, instruction);
    case Opcode::kAsyncStart: {
      const Opcode wrapped = wrapped_opcode(instruction);
      if (wrapped != Opcode::kAsyncStart) {
        return evaluate(computation, unwrapped(instruction));
      }
      InstructionCost cost = called(instruction, "calls");
      if (cost.bytes == 0) cost.bytes = own_bytes(op);
      return cost;
    }
    default:
      break;
  }
  InstructionCost cost;
  cost.flops = own_flops(op);
  cost.bytes = own_bytes(op);
  if (facts_of(instruction.opcode).flops == FlopsRule::kTranscendental)
    cost.transcendentals = element_total(instruction.shape);
  InstructionCost applied;
  accumulate(&applied, called(instruction, "to_apply"), applications(op));
  if (instruction.opcode == Opcode::kSelectAndScatter) {
    const double sources = element_total(op.operand(1));
    accumulate(&applied, called(instruction, "select"),
               sources * (window_elements(instruction) - 1));
    accumulate(&applied, called(instruction, "scatter"), sources);
  }
  cost.flops += applied.flops;
  cost.transcendentals += applied.transcendentals;
  return cost;
}

InstructionCost CostAnalysis::loop(const Computation& computation,
                                   const Instruction& instruction) const {
  const double trips =
      multiply_trips_
          ? static_cast<double>(
                trip_count(module_, computation, instruction).value_or(1))
          : 1;
  InstructionCost sum;
  accumulate(&sum, called(instruction, "body"), trips);
  accumulate(&sum, called(instruction, "condition"), trips);
  return sum;
}

InstructionCost CostAnalysis::branches(const Instruction& instruction) const {
  InstructionCost most;
  for (const ComputationId id : called_computations(instruction)) {
    const InstructionCost cost =
        computations_[index_of(id)].value_or(InstructionCost());
    most.flops = std::max(most.flops, cost.flops);
    most.transcendentals = std::max(most.transcendentals, cost.transcendentals);
    most.bytes = std::max(most.bytes, cost.bytes);
  }
  return most;
}

InstructionCost CostAnalysis::fusion(const Computation& computation,
                                     const Instruction& instruction) const {
  InstructionCost cost = called(instruction, "calls");
  const auto id = called_computation(instruction, "calls");
  cost.bytes = id ? fusion_bytes(module_.at(*id))
                  : own_bytes({computation, instruction});
  return cost;
}

std::vector<ComputationId> called_computations(const Instruction& instruction) {
  std::vector<ComputationId> called;
  for (const Attribute& attribute : instruction.attributes) {
    if (const auto* one = std::get_if<ComputationId>(&attribute.value)) {
      called.push_back(*one);
    } else if (const auto* many =
                   std::get_if<std::vector<ComputationId>>(&attribute.value)) {
      called.insert(called.end(), many->begin(), many->end());
    }
  }
  return called;
}

std::vector<int> caller_counts(const Module& module) {
  std::vector<int> counts(module.computations.size(), 0);
  counts[index_of(module.entry)] = 1;
  for (size_t i = counts.size(); i-- > 0;) {  // Callees precede callers.
    if (counts[i] == 0) continue;
    for (const Instruction& op : module.computations[i].instructions) {
      for (const ComputationId id : called_computations(op))
        ++counts[index_of(id)];
    }
  }
  return counts;
}

InstructionCost instruction_cost(const Module& module,
                                 const Computation& computation,
                                 InstructionId id) {
  return CostAnalysis(module).instruction(computation, id);
}

}  // namespace reprise
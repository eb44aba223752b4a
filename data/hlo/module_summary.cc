// Counts and costs of a whole module. Computations stand before their callers,
// so one walk from the last to the first knows how often each runs in a step;
// known trip counts of loops multiply, saturating at 2^63 - 1.
#include "data/hlo/module_summary.h"

#include <algorithm>
#include <limits>
#include <map>

#include "data/hlo/cost_analysis.h"
#include "data/integers.h"

namespace reprise {
namespace {

int64_t saturating_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  const bool overflows = __builtin_mul_overflow(a, b, &product);
  return overflows ? std::numeric_limits<int64_t>::max() : product;
}

/// Runs its callees as parts of the step; all others price them inside their
/// own cost.
bool is_caller(Opcode opcode) {
  return facts_of(opcode).lowering == Lowering::kCaller;
}

/// How often each computation runs in a step; callers stand after callees.
std::vector<int64_t> executions_of(const Module& module,
                                   ModuleSummary* summary) {
  std::vector<int64_t> executions(module.computations.size(), 0);
  executions[index_of(module.entry)] = 1;
  for (size_t i = module.computations.size(); i-- > 0;) {
    const Computation& computation = module.computations[i];
    for (const Instruction& instruction : computation.instructions) {
      if (!is_caller(wrapped_opcode(instruction))) continue;
      int64_t times = executions[i];
      if (instruction.opcode == Opcode::kWhile) {
        const auto trips = trip_count(module, computation, instruction);
        ++summary->loops;
        summary->loops_of_unknown_trips += trips ? 0 : 1;
        times = saturating_multiply(times, trips.value_or(1));
      }
      for (const ComputationId callee : called_computations(instruction)) {
        int64_t& count = executions[index_of(callee)];
        count = saturating_add(count, times);
      }
    }
  }
  return executions;
}

const Shape& first_array(const Shape& shape) {
  const Shape* at = &shape;
  while (at->is_tuple() && !at->elements.empty()) at = &at->elements[0];
  return *at;
}

std::string groups_text(const Instruction& collective) {
  const Attribute* pairs = collective.find_attribute("source_target_pairs");
  if (pairs != nullptr) return "pairs";
  const auto groups = replica_groups(collective, 0);
  if (!groups || groups->empty() || groups->front().empty()) return "all";
  return fmt::format("{} x {}", groups->size(), groups->front().size());
}

/// A collective, or the start of an asynchronous one.
bool begins_collective(const Instruction& instruction) {
  return is_collective(wrapped_opcode(instruction)) &&
         instruction.opcode != Opcode::kAsyncUpdate &&
         instruction.opcode != Opcode::kAsyncDone;
}

CollectiveSummary summarize_collective(const Computation& computation,
                                       const Instruction& instruction) {
  CollectiveSummary summary;
  summary.opcode = written_opcode(instruction);
  const Shape& result = computed_shape(instruction);
  summary.type = primitive_type_name(first_array(result).type);
  summary.arrays = static_cast<int64_t>(instruction.operands.size());
  for (const InstructionId operand : instruction.operands) {
    summary.operand_bytes = saturating_add(
        summary.operand_bytes, byte_size(computation.at(operand).shape));
  }
  summary.result_bytes = byte_size(result);
  summary.groups = groups_text(instruction);
  return summary;
}

void add(InstructionCost* sum, const InstructionCost& cost, int64_t times) {
  const auto factor = static_cast<double>(times);
  sum->flops += cost.flops * factor;
  sum->transcendentals += cost.transcendentals * factor;
  sum->bytes += cost.bytes * factor;
}

void summarize_interface(const Module& module, ModuleSummary* summary) {
  const Computation& entry = module.entry_computation();
  for (const Instruction& instruction : entry.instructions) {
    if (instruction.opcode != Opcode::kParameter) continue;
    ++summary->parameters;
    summary->parameter_bytes =
        saturating_add(summary->parameter_bytes, byte_size(instruction.shape));
  }
  summary->output_bytes = byte_size(entry.at(entry.root).shape);
}

}  // namespace

ModuleSummary summarize(const Module& module) {
  ModuleSummary summary;
  summary.name = module.name;
  summary.fingerprint = fingerprint(module);
  summary.computations = static_cast<int64_t>(module.computations.size());
  summarize_interface(module, &summary);
  const std::vector<int64_t> executions = executions_of(module, &summary);
  CostAnalysis costs(module, true);
  std::map<std::string_view, OpcodeSummary> opcodes;
  for (uint32_t i = 0; i < module.computations.size(); ++i) {
    const Computation& computation = module.computations[i];
    summary.instructions +=
        static_cast<int64_t>(computation.instructions.size());
    for (uint32_t j = 0; j < computation.instructions.size(); ++j) {
      const Instruction& instruction = computation.instructions[j];
      OpcodeSummary& row = opcodes[written_opcode(instruction)];
      ++row.count;
      if (executions[i] > 0 && !is_caller(wrapped_opcode(instruction))) {
        add(&row.cost, costs.instruction(computation, InstructionId{j}),
            executions[i]);
      }
      if (!begins_collective(instruction)) continue;
      CollectiveSummary collective =
          summarize_collective(computation, instruction);
      collective.name = ComputationId{i} == module.entry
                            ? instruction.name
                            : computation.name + "/" + instruction.name;
      collective.executions = executions[i];
      summary.collectives.push_back(std::move(collective));
    }
  }
  summary.cost = costs.computation(module.entry);
  for (auto& [name, row] : opcodes) {
    row.opcode = name;
    summary.opcodes.push_back(std::move(row));
  }
  std::stable_sort(summary.opcodes.begin(), summary.opcodes.end(),
                   [](const OpcodeSummary& a, const OpcodeSummary& b) {
                     return a.count > b.count;
                   });
  return summary;
}

std::vector<InstructionSummary> summarize_instructions(const Module& module,
                                                       ComputationId id) {
  const Computation& computation = module.at(id);
  const std::vector<std::vector<InstructionId>> users = users_of(computation);
  CostAnalysis costs(module, true);
  std::vector<InstructionSummary> rows;
  for (uint32_t i = 0; i < computation.instructions.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    InstructionSummary& row = rows.emplace_back();
    row.name = instruction.name;
    row.opcode = written_opcode(instruction);
    row.shape = shape_text(instruction.shape, false);
    row.cost = costs.instruction(computation, InstructionId{i});
    row.operands = static_cast<int64_t>(instruction.operands.size());
    row.users = static_cast<int64_t>(users[i].size());
  }
  return rows;
}

Result<ComputationId> find_computation(const Module& module,
                                       std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  for (uint32_t i = 0; i < module.computations.size(); ++i) {
    if (module.computations[i].name == name) return ComputationId{i};
  }
  return fail(ErrorKind::kInvalid, "module `{}` has no computation `{}`",
              module.name, name);
}

}  // namespace reprise

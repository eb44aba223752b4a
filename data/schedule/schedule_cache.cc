#include "data/schedule/schedule_cache.h"

#include "data/hlo/called_rows.h"
#include "data/hlo/cost_analysis.h"
#include "data/hlo/hlo.h"
#include "data/kernel/kernel_flops.h"
#include "data/kernel/kernel_traffic.h"
#include "data/kernel/lower_kernel.h"
#include "data/schedule/called_program.h"
#include "data/schedule/called_state.h"
#include "data/sha256.h"

namespace reprise {
namespace {

std::string cache_key(const PlannedUnit& unit) {
  std::string key;
  key.reserve((unit.ops.size() + unit.outputs.size() + 1) * sizeof(uint32_t));
  const auto append = [&](uint32_t word) {
    key.append(reinterpret_cast<const char*>(&word), sizeof(word));
  };
  for (InstructionId op : unit.ops) append(index_of(op));
  append(UINT32_MAX);
  for (InstructionId output : unit.outputs) append(index_of(output));
  return key;
}

Result<LoweredKernel> lower(const PlannedUnit& unit, const Module& module) {
  Result<Kernel> kernel = lower_kernel(module, unit.ops, unit.outputs);
  if (!kernel) return pass(kernel.error());
  LoweredKernel lowered;
  lowered.kernel = *std::move(kernel);
  lowered.key = kernel_key(lowered.kernel);
  lowered.flops = kernel_flops(lowered.kernel);
  lowered.bytes = kernel_traffic(lowered.kernel);
  return lowered;
}

/// An instruction without names: opcode, shapes, attributes that are no
/// computations nor notes.
std::string routine_text(const Computation& entry,
                         const Instruction& instruction) {
  std::string text(opcode_name(instruction.opcode));
  for (const InstructionId operand : instruction.operands)
    text += " " + shape_text(entry.at(operand).shape, false);
  text += " -> " + shape_text(instruction.shape, false);
  for (const Attribute& attribute : instruction.attributes) {
    if (attribute.name == "metadata" || attribute.name == "sharding" ||
        attribute.name == "control-predecessors")
      continue;
    if (const auto* raw = std::get_if<RawText>(&attribute.value)) {
      text += fmt::format(" {}={}", attribute.name, raw->text);
    } else if (const auto* list =
                   std::get_if<std::vector<int64_t>>(&attribute.value)) {
      text += fmt::format(" {}={}", attribute.name, fmt::join(*list, ","));
    }
  }
  return text;
}

/// RoutineSpec::first_read.
int64_t first_read(const OpGraph& graph, InstructionId id) {
  const Instruction& sort = graph.entry->at(id);
  const std::vector<int64_t> along = integer_list(sort, "dimensions");
  const auto results = graph.results.find(index_of(id));
  if (sort.opcode != Opcode::kSort || along.size() != 1 ||
      results == graph.results.end())
    return -1;
  int64_t most = 0;
  for (const InstructionId value : results->second) {
    if (value == kNoInstruction) continue;
    if (graph.is_output[index_of(value)]) return -1;
    for (const InstructionId reader : graph.readers[index_of(value)]) {
      const Instruction& slice = graph.entry->at(reader);
      // Readers of its views read it, too: of another shape.
      if (slice.opcode != Opcode::kSlice || slice.operands[0] != value)
        return -1;
      const auto ranges = slice_dimensions(slice);
      if (!ranges || along[0] >= std::ssize(*ranges)) return -1;
      most = std::max(most, (*ranges)[static_cast<size_t>(along[0])].limit);
    }
  }
  return most > 0 ? most : -1;
}

CalledFusion fusion_of(const ScheduleCache& cache,
                       const Instruction& instruction) {
  if (cache.called_fusion) return *cache.called_fusion;
  if (!has_called_rows(instruction)) return CalledFusion::kRowsApart;
  return cache.module->device == LoweredFor::kGpu ? CalledFusion::kLaunches
                                                  : CalledFusion::kLoops;
}

Result<LoweredRoutine> lower(const ScheduleCache& cache, InstructionId id,
                             int64_t ranks) {
  const OpGraph& graph = cache.graph;
  const InlinedModule& module = *cache.module;
  const Computation& entry = *graph.entry;
  const Instruction& instruction = entry.at(id);
  CalledState state = called_state(graph, id);
  Result<std::vector<RoutineCallee>> callees =
      lower_callees(module, instruction, ranks, fusion_of(cache, instruction),
                    state.old_value);
  if (!callees) return pass(callees.error());
  LoweredRoutine lowered;
  lowered.replaces = std::move(state.replaces);
  const int64_t read = first_read(graph, id);
  lowered.key =
      "routine:" +
      sha256_hex(routine_text(entry, instruction) + callees_text(*callees) +
                 (read < 0 ? "" : fmt::format(" first {}", read)));
  const InstructionCost cost =
      CostAnalysis(module, true).instruction(entry, id);
  lowered.flops = cost.flops;
  lowered.bytes = cost.bytes;
  const Shape& shape = instruction.shape;
  lowered.written.assign(shape.is_tuple() ? shape.elements.size() : 1, true);
  if (instruction.opcode == Opcode::kWhile) {
    for (size_t k = 0; k < lowered.written.size(); ++k) {
      lowered.written[k] = !is_invariant(callees->back().program->schedule, k);
    }
  }
  const int64_t passes =
      instruction.opcode == Opcode::kWhile
          ? trip_count(module, entry, instruction).value_or(1)
          : 1;
  lowered.spec = {.instruction = id,
                  .callees = *std::move(callees),
                  .is_loop = instruction.opcode == Opcode::kWhile,
                  .trips = instruction.opcode == Opcode::kWhile
                               ? proven_trip_count(module, entry, instruction)
                               : std::nullopt,
                  .first_read = read,
                  .communicates = false,
                  .communicated_bytes = 0};
  lowered.workspace_bytes = workspace_bytes(lowered.spec);
  add_communication(passes, &lowered.spec);
  return lowered;
}

std::string matrix_text(const StridedMatrix& matrix) {
  return fmt::format("[{}]({})", fmt::join(matrix.dimensions, ","),
                     fmt::join(matrix.strides, ","));
}

std::string dot_text(const DotView& view, const DotEpilogue& epilogue) {
  std::string text = fmt::format("{} {} {} {}", primitive_type_name(view.type),
                                 matrix_text(view.lhs), matrix_text(view.rhs),
                                 matrix_text(view.out));
  if (view.result_type != view.type)
    text += fmt::format(" {}", primitive_type_name(view.result_type));
  if (!epilogue.is_plain()) {
    text += ' ';
    text += epilogue_text(epilogue.alpha, epilogue.bias != kNoInstruction,
                          epilogue.accumulate != kNoInstruction,
                          epilogue.activation);
  }
  return text;
}

}  // namespace

Status open_cache(const InlinedModule& inlined, ScheduleCache* cache) {
  if (cache->module == &inlined) return {};
  *cache = {};
  Result<OpGraph> graph = build_op_graph(inlined);
  if (!graph) return pass(graph.error());
  cache->graph = *std::move(graph);
  cache->module = &inlined;
  return {};
}

Result<const LoweredKernel*> find_kernel(const PlannedUnit& unit,
                                         ScheduleCache* cache) {
  std::string key = cache_key(unit);
  auto found = cache->kernels.find(key);
  if (found == cache->kernels.end()) {
    found = cache->kernels.emplace(std::move(key), lower(unit, *cache->module))
                .first;
  }
  if (found->second) return &*found->second;
  const Error& error = found->second.error();
  if (error.kind == ErrorKind::kInfeasible) {
    return fail(ErrorKind::kInvalid, "group '{}' cannot be one kernel: {}",
                unit.name, error.message);
  }
  return pass(error);
}

Result<const LoweredRoutine*> find_routine(InstructionId instruction,
                                           int64_t ranks,
                                           ScheduleCache* cache) {
  const std::pair key(index_of(instruction), ranks);
  auto found = cache->routines.find(key);
  if (found == cache->routines.end()) {
    found =
        cache->routines.emplace(key, lower(*cache, instruction, ranks)).first;
  }
  if (found->second) return &*found->second;
  return pass(found->second.error());
}

DotFigures dot_figures(const std::vector<InstructionId>& ops,
                       const DotEpilogue& epilogue, ScheduleCache* cache) {
  const OpGraph& graph = cache->graph;
  const DotView& view =
      graph.dots[static_cast<size_t>(graph.dot_of[index_of(ops.front())])];
  const std::string text = dot_text(view, epilogue);
  std::string& key = cache->dot_keys[text];
  if (key.empty()) key = "dot:" + sha256_hex(text);
  DotFigures figures{.key = key};
  for (const InstructionId op : ops) {
    const InstructionCost cost =
        instruction_cost(*graph.module, *graph.entry, op);
    figures.flops += cost.flops;
    if (op == ops.front()) figures.bytes = cost.bytes;
  }
  for (const InstructionId value : {epilogue.bias, epilogue.accumulate}) {
    if (value == kNoInstruction) continue;
    figures.bytes += static_cast<double>(byte_size(graph.at(value).shape));
  }
  return figures;
}

}  // namespace reprise

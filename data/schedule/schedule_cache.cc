#include "data/schedule/schedule_cache.h"

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"
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
  lowered.bytes = kernel_bytes(lowered.kernel);
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

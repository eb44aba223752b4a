// Cuts a kernel into stages: segments first (print_cuda_edit.h), then, in each,
// the stores that the main stage cannot do become stages of their own, with
// what they cannot compute again saved in the workspace; at last a literal that
// only fills an output becomes the start of the accumulation after it. How the
// loops of a stage meet threads is print_cuda_mapping.cc. Cost: stores ×
// statements.
#include "runtime/kernels/print_cuda_stages.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/kernels/print_cuda_edit.h"
#include "runtime/kernels/print_cuda_facts.h"
#include "runtime/kernels/print_cuda_mapping.h"

namespace reprise {
namespace {

using Block = StatementBlock;
using Kind = KernelStatement::Kind;

constexpr int64_t kAlignment = 256;

KernelStatement let(int32_t value) {
  KernelStatement statement;
  statement.value = value;
  return statement;
}

class Planner {
 public:
  explicit Planner(const Kernel& original) : original_(original) {}
  CudaPlan plan();

 private:
  void plan_segment(Kernel kernel, Block body, bool hoist);
  void save_overwritten_lets(Kernel& kernel, Block& body);
  Kernel deferred_stage(Kernel& kernel, const Block& body,
                        const KernelFacts& facts, const StatementNest& nest,
                        size_t ordinal, StatementEdit& main);
  int32_t add_workspace(Kernel& kernel, PrimitiveType type, int64_t elements);
  void add_stage(Kernel kernel, Block body);
  void fold_initial_values();

  const Kernel& original_;
  CudaPlan plan_;
  std::vector<KernelArgument> workspace_;
};

int32_t Planner::add_workspace(Kernel& kernel, PrimitiveType type,
                               int64_t elements) {
  KernelArgument argument;
  argument.type = type;
  argument.elements = elements;
  argument.is_output = true;
  workspace_.push_back(argument);
  plan_.workspace_offsets.push_back(plan_.workspace_bytes);
  const int64_t bytes = elements * (primitive_type_bits(type) / 8);
  plan_.workspace_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  kernel.arguments = original_.arguments;
  kernel.arguments.insert(kernel.arguments.end(), workspace_.begin(),
                          workspace_.end());
  return static_cast<int32_t>(kernel.arguments.size() - 1);
}

/// Values loaded before the loops from memory that the loops overwrite: every
/// thread loads them, so a stage of its own loads them first.
void Planner::save_overwritten_lets(Kernel& kernel, Block& body) {
  if (std::none_of(body.begin(), body.end(), [](const KernelStatement& s) {
        return s.kind == Kind::kLoop;
      })) {
    return;
  }
  const KernelFacts facts(original_, kernel, body);
  const std::vector<bool> reduced = facts.reduced_values();
  Block saving;
  std::vector<std::pair<int32_t, int32_t>> saved;  // Value, argument.
  for (const KernelStatement& statement : body) {
    if (statement.kind != Kind::kLet) continue;
    const size_t id = static_cast<size_t>(statement.value);
    const KernelValue& value = kernel.values[id];
    if (value.kind != KernelValue::Kind::kLoad || reduced[id] ||
        static_cast<size_t>(value.source) >= original_.arguments.size() ||
        kernel.arguments[static_cast<size_t>(value.source)].elements == 1 ||
        !facts.is_overwritten(value.source, -1)) {
      continue;
    }
    saved.emplace_back(statement.value, add_workspace(kernel, value.type, 1));
  }
  if (saved.empty()) return;
  for (const KernelStatement& statement : body) {
    if (statement.kind == Kind::kLet) saving.push_back(statement);
  }
  const int32_t zero = kernel.indices.constant(0);
  for (const auto& [value, argument] : saved) {
    KernelStatement store;
    store.kind = Kind::kStore;
    store.value = value;
    store.target = argument;
    store.index = zero;
    saving.push_back(store);
  }
  add_stage(kernel, pruned(kernel, saving));
  for (const auto& [value, argument] : saved) {
    KernelValue& loaded = kernel.values[static_cast<size_t>(value)];
    loaded.source = argument;
    loaded.index = zero;
  }
}

/// The stage of one store that the main stage leaves out. Inputs that it cannot
/// compute again are saved by the main stage, or before it where the main stage
/// runs in more loops than they do.
Kernel Planner::deferred_stage(Kernel& kernel, const Block& body,
                               const KernelFacts& facts,
                               const StatementNest& nest, size_t ordinal,
                               StatementEdit& main) {
  const StorePlace& place = facts.stores()[ordinal];
  const std::vector<bool> lost = facts.lost_values(place.statement->target);
  StatementEdit edit;
  edit.drop_other_stores = true;
  edit.opened_loops = facts.redundant_loops(place);
  std::vector<int32_t> loops;
  for (const int32_t loop : place.loops) {
    if (!edit.opened_loops.contains(loop)) loops.push_back(loop);
  }
  const int32_t position = position_of(kernel, loops);
  Block saving;
  for (const int32_t input : facts.inputs_of(*place.statement)) {
    if (!lost[static_cast<size_t>(input)]) continue;
    KernelStatement store;
    store.kind = Kind::kStore;
    store.value = input;
    store.index = position;
    store.target =
        add_workspace(kernel, kernel.values[static_cast<size_t>(input)].type,
                      iterations_of(kernel, loops));
    saving.push_back(store);
  }
  const bool early = !nest.lanes || place.loops.size() < nest.path.size();
  if (early && !saving.empty()) {
    StatementEdit save = edit;
    save.stores[ordinal] = saving;
    plan_segment(kernel, pruned(kernel, save.apply(body)), false);
  }
  main.stores[ordinal] = early ? Block() : saving;
  Kernel deferred = kernel;
  Block& kept = edit.stores[ordinal];
  for (const KernelStatement& store : saving) {
    KernelValue& loaded = deferred.values[static_cast<size_t>(store.value)];
    const PrimitiveType type = loaded.type;
    loaded = KernelValue{};
    loaded.kind = KernelValue::Kind::kLoad;
    loaded.type = type;
    loaded.source = store.target;
    loaded.index = position;
    edit.dropped_lets.insert(store.value);
    kept.push_back(let(store.value));
  }
  kept.push_back(*place.statement);
  deferred.body = pruned(deferred, edit.apply(body));
  return deferred;
}

void Planner::plan_segment(Kernel kernel, Block body, bool hoist) {
  if (hoist) save_overwritten_lets(kernel, body);
  const StatementNest nest = nest_of(body);
  const KernelFacts facts(original_, kernel, body);
  if (!nest.regular) return add_stage(std::move(kernel), std::move(body));
  StatementEdit main;
  std::vector<Kernel> deferred;
  for (size_t i = 0; i < facts.stores().size(); ++i) {
    if (is_direct(original_, nest, facts, facts.stores()[i])) continue;
    deferred.push_back(deferred_stage(kernel, body, facts, nest, i, main));
  }
  if (deferred.empty()) return add_stage(std::move(kernel), std::move(body));
  Block rest = pruned(kernel, main.apply(body));
  if (!rest.empty()) plan_segment(kernel, std::move(rest), false);
  for (Kernel& stage : deferred) {
    Block stage_body = std::move(stage.body);
    plan_segment(std::move(stage), std::move(stage_body), false);
  }
}

void Planner::add_stage(Kernel kernel, Block body) {
  CudaStage stage;
  stage.kernel = std::move(kernel);
  stage.kernel.body = std::move(body);
  map_stage(original_, stage);
  plan_.stages.push_back(std::move(stage));
}

/// The literal and the output of a stage that fills an output with it.
const KernelStatement* fill_of(const CudaStage& stage, uint64_t* literal) {
  if (stage.mapping != StageMapping::kMap) return nullptr;
  const Block* inner = nest_of(stage.kernel.body).inner;
  const KernelStatement& store = inner->back();
  if (store.kind != Kind::kStore || store.combine != Opcode::kParameter ||
      store.guard >= 0) {
    return nullptr;
  }
  const KernelFacts facts(stage.kernel, stage.kernel, stage.kernel.body);
  const KernelValue& value =
      stage.kernel.values[static_cast<size_t>(store.value)];
  if (facts.stores().size() != 1 || value.kind != KernelValue::Kind::kLiteral) {
    return nullptr;
  }
  *literal = value.literal;
  return &store;
}

/// Lets accumulations start from a literal that a stage of its own would fill
/// into their output.
void Planner::fold_initial_values() {
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    uint64_t literal = 0;
    const KernelStatement* fill = fill_of(plan_.stages[i], &literal);
    if (fill == nullptr) continue;
    const int32_t target = fill->target;
    const int64_t elements =
        original_.arguments[static_cast<size_t>(target)].elements;
    for (size_t k = i + 1; k < plan_.stages.size(); ++k) {
      CudaStage& stage = plan_.stages[k];
      if (stage.mapping != StageMapping::kOwned &&
          iterations_of(stage.kernel, stage.parallel) != elements) {
        continue;
      }
      const auto found = std::find_if(
          stage.accumulators.begin(), stage.accumulators.end(),
          [target](const StageAccumulator& a) { return a.target == target; });
      if (found == stage.accumulators.end()) continue;
      found->initial = literal;
      plan_.stages.erase(plan_.stages.begin() +
                         static_cast<std::ptrdiff_t>(i--));
      break;
    }
  }
}

CudaPlan Planner::plan() {
  for (Block& segment : segments_of(original_)) {
    Kernel kernel = original_;
    kernel.arguments.insert(kernel.arguments.end(), workspace_.begin(),
                            workspace_.end());
    kernel.body.clear();
    plan_segment(std::move(kernel), std::move(segment), true);
  }
  fold_initial_values();
  for (CudaStage& stage : plan_.stages) {
    stage.kernel.arguments = original_.arguments;
    stage.kernel.arguments.insert(stage.kernel.arguments.end(),
                                  workspace_.begin(), workspace_.end());
  }
  return std::move(plan_);
}

}  // namespace

CudaPlan plan_cuda_stages(const Kernel& kernel) {
  return Planner(kernel).plan();
}

}  // namespace reprise

#include "runtime/kernels/print_cuda_stages.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/kernels/print_cuda_edit.h"
#include "runtime/kernels/print_cuda_facts.h"

namespace reprise {
namespace {

using Block = StatementBlock;
using Kind = KernelStatement::Kind;

/// Of a row, from how many elements on a block beats kLanes threads, and up to
/// how many rows: beyond, kLanes threads a row fill the device, unless the rows
/// are long. Source: reckoned from latencies; to be measured.
constexpr int64_t kBlockColumns = 256;
constexpr int64_t kManyRows = 32768;
constexpr int64_t kLongRow = 2048;
/// A register walks this many sequential iterations alone; parallel iterations
/// that fill a device need no help either.
constexpr int64_t kShortWalk = 32;
constexpr int64_t kWideWalk = 65536;
/// Up to so many elements times updates, every element looks at every update:
/// some tens of microseconds on a device of 10^13 simple operations a second,
/// against a walk of each update through memory. Source: reckoned; to be
/// measured.
constexpr int64_t kMostLooks = int64_t{1} << 28;
/// Accumulations that share a block's memory.
constexpr size_t kMostTogether = 8;
constexpr int64_t kAlignment = 256;

KernelStatement let(int32_t value) {
  KernelStatement statement;
  statement.value = value;
  return statement;
}

/// Row-major place of an iteration of these loops.
int32_t position_of(Kernel& kernel, const std::vector<int32_t>& loops) {
  int32_t position = kernel.indices.constant(0);
  for (const int32_t loop : loops) {
    const int64_t extent = kernel.loops[static_cast<size_t>(loop)].extent;
    position = kernel.indices.add(kernel.indices.scale(position, extent),
                                  kernel.indices.loop(loop, extent));
  }
  return position;
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
  bool is_direct(const StatementNest& nest, const KernelFacts& facts,
                 const StorePlace& place) const;
  bool maps_by_rows(CudaStage& stage, const StatementNest& nest) const;
  bool maps_by_owner(CudaStage& stage, const KernelFacts& facts) const;
  void map_loops(CudaStage& stage, const StatementNest& nest) const;
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

/// True if the main stage of the nest can do the store itself. Threads may
/// write the same value to the workspace several times.
bool Planner::is_direct(const StatementNest& nest, const KernelFacts& facts,
                        const StorePlace& place) const {
  if (place.loops.size() < nest.path.size()) return false;
  const bool saves = static_cast<size_t>(place.statement->target) >=
                     original_.arguments.size();
  if (!saves && !facts.redundant_loops(place).empty()) return false;
  return !nest.lanes || facts.ordered_loops(place).empty();
}

void Planner::plan_segment(Kernel kernel, Block body, bool hoist) {
  if (hoist) save_overwritten_lets(kernel, body);
  const StatementNest nest = nest_of(body);
  const KernelFacts facts(original_, kernel, body);
  if (!nest.regular) return add_stage(std::move(kernel), std::move(body));
  StatementEdit main;
  std::vector<Kernel> deferred;
  for (size_t i = 0; i < facts.stores().size(); ++i) {
    if (is_direct(nest, facts, facts.stores()[i])) continue;
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

int64_t loop_extent(const Kernel& kernel, int32_t loop) {
  return kernel.loops[static_cast<size_t>(loop)].extent;
}

/// Loops of a phase, one inside the other; empty when it is not of that shape
/// or accumulates outside the innermost. `lane_loops` gets those of what it
/// accumulates.
std::vector<int32_t> phase_loops(const Kernel& kernel,
                                 const KernelStatement& phase,
                                 LoopSet& lane_loops) {
  std::vector<int32_t> loops;
  for (const KernelStatement* loop = &phase; loop != nullptr;) {
    loops.push_back(loop->target);
    const KernelStatement* next = nullptr;
    bool accumulates = false;
    for (const KernelStatement& inner : loop->body) {
      if (inner.kind == Kind::kReset) return {};
      if (inner.kind == Kind::kAccumulate) {
        accumulates = true;
        lane_loops.insert(
            kernel.accumulators[static_cast<size_t>(inner.target)].lane_loop);
      }
      if (inner.kind != Kind::kLoop) continue;
      if (next != nullptr) return {};
      next = &inner;
    }
    if (next != nullptr && accumulates) return {};
    loop = next;
  }
  return loops;
}

/// True if scratches are read and written at `place` alone.
bool scratches_are_at(const Kernel& kernel, const Block& block, int32_t place) {
  return std::all_of(block.begin(), block.end(), [&](const auto& statement) {
    if (statement.kind == Kind::kScratchStore && statement.index != place)
      return false;
    if (statement.kind == Kind::kLet) {
      const KernelValue& value =
          kernel.values[static_cast<size_t>(statement.value)];
      if (value.kind == KernelValue::Kind::kScratch && value.index != place)
        return false;
    }
    return scratches_are_at(kernel, statement.body, place);
  });
}

/// True if the statements below a row are phases over the same loops, and lanes
/// those of the innermost.
bool Planner::maps_by_rows(CudaStage& stage, const StatementNest& nest) const {
  LoopSet lane_loops;
  for (const KernelStatement& statement : *nest.inner) {
    if (statement.kind != Kind::kLoop) continue;
    const std::vector<int32_t> loops =
        phase_loops(stage.kernel, statement, lane_loops);
    if (stage.columns.empty()) stage.columns = loops;
    if (loops.empty() || stage.columns != loops) return false;
  }
  if (stage.columns.empty() || lane_loops != LoopSet{stage.columns.back()})
    return false;
  const int32_t place = position_of(stage.kernel, stage.columns);
  return scratches_are_at(stage.kernel, stage.kernel.body, place);
}

int64_t loop_coefficient(const Kernel& kernel, int32_t index, int32_t loop) {
  for (const IndexTerm& term : kernel.indices.at(index).terms) {
    const IndexAtom& atom = kernel.indices.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kLoop && atom.operand == loop)
      return term.coefficient;
  }
  return 0;
}

/// True if the parallel loops count the elements of each slab of the output,
/// and everything else in the store's index picks the slab. Puts the loops in
/// the order of the elements.
bool picks_slabs(CudaStage& stage, const KernelStatement& store) {
  const Kernel& kernel = stage.kernel;
  std::vector<int32_t>& loops = stage.parallel;
  std::stable_sort(loops.begin(), loops.end(), [&](int32_t a, int32_t b) {
    return loop_coefficient(kernel, store.index, a) >
           loop_coefficient(kernel, store.index, b);
  });
  int64_t slab = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    if (loop_coefficient(kernel, store.index, loops[i]) != slab) return false;
    slab *= loop_extent(kernel, loops[i]);
  }
  const IndexExpression& index = kernel.indices.at(store.index);
  for (const IndexTerm& term : index.terms) {
    const IndexAtom& atom = kernel.indices.atom(term.atom);
    const bool counts =
        atom.kind == IndexAtom::Kind::kLoop &&
        std::find(loops.begin(), loops.end(), atom.operand) != loops.end();
    if (!counts && term.coefficient % slab != 0) return false;
  }
  return index.constant % slab == 0;
}

/// True if the one store of the stage scatters over so few elements that each
/// element may look for its own updates.
bool Planner::maps_by_owner(CudaStage& stage, const KernelFacts& facts) const {
  const std::vector<StorePlace>& stores = facts.stores();
  if (stores.size() != 1 || !stage.accumulators.empty()) return false;
  const KernelStatement& store = *stores[0].statement;
  const int64_t elements =
      stage.kernel.arguments[static_cast<size_t>(store.target)].elements;
  const int64_t walk = iterations_of(stage.kernel, stage.sequential);
  if (elements > kMostLooks / walk || !picks_slabs(stage, store)) return false;
  stage.accumulators.push_back({store.target, {}});
  return true;
}

void Planner::map_loops(CudaStage& stage, const StatementNest& nest) const {
  const KernelFacts facts(original_, stage.kernel, stage.kernel.body);
  LoopSet ordered;
  for (const StorePlace& place : facts.stores()) {
    if (!facts.redundant_loops(place).empty() ||
        place.loops.size() != nest.path.size()) {
      return;  // Serial.
    }
    const LoopSet loops = facts.ordered_loops(place);
    ordered.insert(loops.begin(), loops.end());
  }
  for (const int32_t loop : nest.path)
    (ordered.contains(loop) ? stage.sequential : stage.parallel)
        .push_back(loop);
  stage.mapping = ordered.empty() ? StageMapping::kMap : StageMapping::kOrdered;
  bool tiled = !ordered.empty();
  for (const StorePlace& place : facts.stores()) {
    const KernelStatement& store = *place.statement;
    const LoopSet loops = facts.loops_of_index(store.index);
    const bool moves =
        std::any_of(ordered.begin(), ordered.end(),
                    [&](int32_t loop) { return loops.contains(loop); });
    if (store.combine != Opcode::kParameter && store.guard < 0 && !moves) {
      if (!ordered.empty()) stage.accumulators.push_back({store.target, {}});
    } else if (!facts.ordered_loops(place).empty()) {
      tiled = false;
    }
  }
  tiled = tiled && stage.accumulators.size() <= kMostTogether;
  if (tiled && iterations_of(stage.kernel, stage.sequential) >= kShortWalk &&
      iterations_of(stage.kernel, stage.parallel) < kWideWalk) {
    stage.mapping = StageMapping::kTiled;
  } else if (stage.mapping == StageMapping::kOrdered &&
             maps_by_owner(stage, facts)) {
    stage.mapping = StageMapping::kOwned;
  }
}

size_t count_resets(const Block& block) {
  return static_cast<size_t>(std::count_if(
      block.begin(), block.end(),
      [](const auto& statement) { return statement.kind == Kind::kReset; }));
}

void Planner::add_stage(Kernel kernel, Block body) {
  CudaStage stage;
  stage.kernel = std::move(kernel);
  stage.kernel.body = std::move(body);
  const StatementNest nest = nest_of(stage.kernel.body);
  if (nest.regular && !nest.lanes) {
    map_loops(stage, nest);
  } else if (nest.regular) {
    const KernelFacts facts(original_, stage.kernel, stage.kernel.body);
    const bool direct = std::all_of(
        facts.stores().begin(), facts.stores().end(),
        [&](const StorePlace& place) { return is_direct(nest, facts, place); });
    if (direct && maps_by_rows(stage, nest)) {
      stage.parallel = nest.path;
      const int64_t rows = iterations_of(stage.kernel, stage.parallel);
      const int64_t columns = iterations_of(stage.kernel, stage.columns);
      const bool aligned =
          stage.columns.size() == 1 ||
          loop_extent(stage.kernel, stage.columns.back()) % kLanes == 0;
      const bool block = aligned && columns >= kBlockColumns &&
                         (rows < kManyRows || columns >= kLongRow) &&
                         count_resets(*nest.inner) <= kMostTogether;
      stage.mapping = block ? StageMapping::kBlocks : StageMapping::kRows;
    }
  }
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

int64_t iterations_of(const Kernel& kernel, const std::vector<int32_t>& loops) {
  int64_t iterations = 1;
  for (const int32_t loop : loops) iterations *= loop_extent(kernel, loop);
  return iterations;
}

CudaPlan plan_cuda_stages(const Kernel& kernel) {
  return Planner(kernel).plan();
}

}  // namespace reprise

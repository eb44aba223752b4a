// The choice follows what must be in order. Nothing: a thread an iteration.
// Reductions by lanes: kLanes threads a row, or a block where rows are long and
// few. Accumulations in memory: a thread an element walks the sequential loops,
// a block computes tiles of them together, or, of a scatter over few elements,
// each element looks for its own updates.
#include "runtime/kernels/print_cuda_mapping.h"

#include <algorithm>

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
constexpr size_t kMostAccumulations = 8;

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
bool maps_by_rows(CudaStage& stage, const StatementNest& nest) {
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

/// True if the parallel loops count the elements of each slab of the output,
/// and everything else in the store's index picks the slab. Puts the loops in
/// the order of the elements.
bool picks_slabs(CudaStage& stage, const KernelStatement& store) {
  const Kernel& kernel = stage.kernel;
  std::vector<int32_t>& loops = stage.parallel;
  std::stable_sort(loops.begin(), loops.end(), [&](int32_t a, int32_t b) {
    return loop_coefficient(kernel.indices, store.index, a) >
           loop_coefficient(kernel.indices, store.index, b);
  });
  int64_t slab = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    if (loop_coefficient(kernel.indices, store.index, loops[i]) != slab)
      return false;
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
bool maps_by_owner(CudaStage& stage, const KernelFacts& facts) {
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

void map_loops(const Kernel& original, CudaStage& stage,
               const StatementNest& nest) {
  const KernelFacts facts(original, stage.kernel, stage.kernel.body);
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
  tiled = tiled && stage.accumulators.size() <= kMostAccumulations;
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

}  // namespace

int32_t position_of(Kernel& kernel, const std::vector<int32_t>& loops) {
  int32_t position = kernel.indices.constant(0);
  for (const int32_t loop : loops) {
    const int64_t extent = kernel.loops[static_cast<size_t>(loop)].extent;
    position = kernel.indices.add(kernel.indices.scale(position, extent),
                                  kernel.indices.loop(loop, extent));
  }
  return position;
}

bool is_direct(const Kernel& original, const StatementNest& nest,
               const KernelFacts& facts, const StorePlace& place) {
  if (place.loops.size() < nest.path.size()) return false;
  const bool saves =
      static_cast<size_t>(place.statement->target) >= original.arguments.size();
  if (!saves && !facts.redundant_loops(place).empty()) return false;
  return !nest.lanes || facts.ordered_loops(place).empty();
}

int64_t iterations_of(const Kernel& kernel, const std::vector<int32_t>& loops) {
  int64_t iterations = 1;
  for (const int32_t loop : loops) iterations *= loop_extent(kernel, loop);
  return iterations;
}

void map_stage(const Kernel& original, CudaStage& stage) {
  const StatementNest nest = nest_of(stage.kernel.body);
  if (!nest.regular) return;
  if (!nest.lanes) return map_loops(original, stage, nest);
  const KernelFacts facts(original, stage.kernel, stage.kernel.body);
  const bool direct =
      std::all_of(facts.stores().begin(), facts.stores().end(),
                  [&](const StorePlace& place) {
                    return is_direct(original, nest, facts, place);
                  });
  if (!direct || !maps_by_rows(stage, nest)) return;
  stage.parallel = nest.path;
  const int64_t rows = iterations_of(stage.kernel, stage.parallel);
  const int64_t columns = iterations_of(stage.kernel, stage.columns);
  const bool aligned =
      stage.columns.size() == 1 ||
      loop_extent(stage.kernel, stage.columns.back()) % kLanes == 0;
  const bool block = aligned && columns >= kBlockColumns &&
                     (rows < kManyRows || columns >= kLongRow) &&
                     count_resets(*nest.inner) <= kMostAccumulations;
  stage.mapping = block ? StageMapping::kBlocks : StageMapping::kRows;
}

}  // namespace reprise

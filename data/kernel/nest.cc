// Nests of a group: picks a hero (hero.h), makes its loops, gives every op that
// is one to one with them an index map (canonical_maps.h), and takes the
// outputs that fit; what is left makes the next nest. A loop that some index
// expression divides is split and the nest built anew, so that reshapes become
// strides. Cost: linear in ops × nests; few groups need more than one nest.
#include "data/kernel/nest.h"

#include <algorithm>
#include <string>
#include <utility>

#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"
#include "data/kernel/hero.h"

namespace reprise {
namespace {

constexpr size_t kMaxLoops = 60;
/// Two nests of a kernel may both compute what is no heavier (a division).
constexpr int32_t kCheapWeight = 4;

int64_t count_of(const NestSpace& space, uint64_t loops) {
  int64_t count = 1;
  for (const NestSpace::Loop& loop : space.loops) {
    if ((loops >> loop.id & 1) != 0) count *= loop.extent;
  }
  return count;
}

/// True if the loops are the outermost ones down to some depth, or all.
bool is_prefix(const NestSpace& space, uint64_t loops) {
  bool inside = true;
  for (const NestSpace::Loop& loop : space.loops) {
    const bool used = (loops >> loop.id & 1) != 0;
    if (used && !inside) return false;
    inside = used;
  }
  return true;
}

uint64_t loops_of(const IndexTable& indices, const IndexMap& map) {
  uint64_t loops = 0;
  for (const int32_t expression : map) loops |= indices.at(expression).loops;
  return loops;
}

/// Builds one nest around a hero and takes the outputs that fit.
class NestBuilder {
 public:
  NestBuilder(const Group& group, std::vector<InstructionId>& sources,
              const Hero& hero)
      : group_(group), sources_(sources), hero_(hero) {}

  Result<std::unique_ptr<Nest>> build(std::vector<size_t>& pending);

 private:
  IndexMap make_loops();
  Status add_sink(size_t output);
  /// Where the elements of one iteration stand; none where it has no map.
  std::vector<IndexMap> places_of(InstructionId id) const;
  Status add_store(size_t output, InstructionId id);
  Status add_reduction(size_t output, const Instruction& reduce,
                       const ReduceSpec& spec);
  Status add_scatter(size_t output, const Instruction& scatter);
  Status check_order(const Instruction& reduce, const ReduceSpec& spec,
                     const IndexMap& map);
  Status unfit(const std::string& name, const char* why) const {
    return fail(ErrorKind::kInfeasible, "{}: {}", name, why);
  }

  const Group& group_;
  std::vector<InstructionId>& sources_;
  const Hero& hero_;
  std::unique_ptr<Nest> nest_ = std::make_unique<Nest>();
  /// Of each element of what is written out; else one.
  std::vector<CanonicalMaps> maps_;
};

IndexMap NestBuilder::make_loops() {
  IndexMap map(hero_.factors.size());
  for (const bool column : {false, true}) {
    for (size_t i = 0; i < hero_.factors.size(); ++i) {
      if (hero_.column[i] != column || !has_loops(hero_, i)) continue;
      int32_t position = nest_->indices.constant(0);
      for (const int64_t extent : hero_.factors[i]) {
        if (extent == 1) continue;
        const int32_t id = static_cast<int32_t>(nest_->space.loops.size());
        nest_->space.loops.push_back({id, extent, column});
        (column ? nest_->space.columns : nest_->space.rows) |= uint64_t{1}
                                                               << id;
        position = nest_->indices.add(nest_->indices.scale(position, extent),
                                      nest_->indices.loop(id, extent));
      }
      map[i] = position;
    }
  }
  return map;
}

std::vector<IndexMap> NestBuilder::places_of(InstructionId id) const {
  std::vector<IndexMap> places;
  for (const CanonicalMaps& maps : maps_) {
    const IndexMap* map = maps.find(id);
    if (map == nullptr) return {};
    if (std::find(places.begin(), places.end(), *map) == places.end())
      places.push_back(*map);
  }
  return places;
}

Status NestBuilder::add_store(size_t output, InstructionId id) {
  const Instruction& instruction = group_.at(id);
  const std::vector<IndexMap> places = places_of(id);
  if (places.empty())
    return unfit(instruction.name, "its elements are not those of the loops");
  const uint64_t loops = loops_of(nest_->indices, places[0]);
  if (!is_prefix(nest_->space, loops) ||
      count_of(nest_->space, loops) * static_cast<int64_t>(places.size()) !=
          element_count(instruction.shape)) {
    return unfit(instruction.name, "its elements are not those of the loops");
  }
  for (const IndexMap& map : places) {
    Sink sink;
    sink.output = output;
    sink.loops = loops;
    sink.node = nest_->trace->value(id, map);
    if (!nest_->trace->status()) return nest_->trace->status();
    const Node& node = nest_->trace->nodes()[static_cast<size_t>(sink.node)];
    if (node.level > 0 && (loops & nest_->space.rows) != nest_->space.rows) {
      return unfit(instruction.name,
                   "a reduction inside loops that it does not depend on");
    }
    sink.index = nest_->indices.linearize(map, instruction.shape.dimensions);
    nest_->sinks.push_back(sink);
  }
  return {};
}

Status NestBuilder::check_order(const Instruction& reduce,
                                const ReduceSpec& spec, const IndexMap& map) {
  IndexMap reduced;
  for (size_t i = 0; i < map.size(); ++i) {
    if (spec.reduced[i]) reduced.push_back(map[i]);
  }
  const IndexExpression& position = nest_->indices.at(
      nest_->indices.linearize(reduced, spec.reduced_extents));
  int64_t below = 0;
  for (size_t i = nest_->space.loops.size(); i-- > 0;) {
    const NestSpace::Loop& loop = nest_->space.loops[i];
    if ((position.loops >> loop.id & 1) == 0) continue;
    int64_t coefficient = 0;
    for (const IndexTerm& term : position.terms) {
      const IndexAtom& atom = nest_->indices.atom(term.atom);
      if (atom.kind == IndexAtom::Kind::kLoop && atom.operand == loop.id) {
        coefficient = term.coefficient;
      } else if (atom.kind != IndexAtom::Kind::kLoop) {
        return unfit(reduce.name,
                     "the loops do not visit its elements in order");
      }
    }
    if (coefficient <= below) {
      return unfit(reduce.name, "the loops do not visit its elements in order");
    }
    below += coefficient * (loop.extent - 1);
  }
  return {};
}

Status NestBuilder::add_reduction(size_t output, const Instruction& reduce,
                                  const ReduceSpec& spec) {
  const std::optional<IndexMap> map = maps_[0].derive(reduce.operands[0]);
  if (!map || maps_.size() > 1 ||
      loops_of(nest_->indices, *map) !=
          (nest_->space.rows | nest_->space.columns) ||
      count_of(nest_->space, ~uint64_t{0}) !=
          element_count(operand_shape(group_, reduce, 0))) {
    return unfit(reduce.name,
                 "the elements it reduces are not those of the loops");
  }
  if (Status ordered = check_order(reduce, spec, *map); !ordered)
    return ordered;
  Sink sink;
  sink.output = output;
  sink.loops = nest_->space.rows | nest_->space.columns;
  sink.combine = spec.combine;
  sink.ordered = true;
  sink.node = nest_->trace->value(reduce.operands[0], *map);
  if (!nest_->trace->status()) return nest_->trace->status();
  IndexMap kept;
  for (size_t i = 0; i < map->size(); ++i) {
    if (!spec.reduced[i]) kept.push_back((*map)[i]);
  }
  sink.index = nest_->indices.linearize(kept, reduce.shape.dimensions);
  nest_->sinks.push_back(sink);
  return {};
}

Status NestBuilder::add_scatter(size_t output, const Instruction& scatter) {
  const std::optional<Opcode> combine =
      combining_opcode(group_.module(), scatter);
  if (scatter.operands.size() != 3 || !combine ||
      (*combine != Opcode::kParameter &&
       !is_computable(*combine, scatter.shape.type))) {
    return fail(ErrorKind::kUnsupported,
                "{}: no kernel for a scatter of several arrays or of "
                "a computation that is not one binary op",
                scatter.name);
  }
  const Shape& updates = operand_shape(group_, scatter, 2);
  const std::optional<IndexMap> map = maps_[0].derive(scatter.operands[2]);
  if (!map || maps_.size() > 1 ||
      loops_of(nest_->indices, *map) !=
          (nest_->space.rows | nest_->space.columns) ||
      count_of(nest_->space, ~uint64_t{0}) != element_count(updates)) {
    return unfit(scatter.name, "its updates are not those of the loops");
  }
  ReduceSpec whole;  // Row-major order over all updates, like a reduce of all
                     // dimensions.
  whole.reduced.assign(updates.dimensions.size(), true);
  whole.reduced_extents = updates.dimensions;
  if (Status ordered = check_order(scatter, whole, *map); !ordered)
    return ordered;
  Sink sink;
  sink.output = output;
  sink.loops = nest_->space.rows | nest_->space.columns;
  sink.combine = *combine;
  sink.ordered = true;
  sink.node = nest_->trace->value(scatter.operands[2], *map);
  const ElementTrace::Target target =
      nest_->trace->scatter_target(scatter, *map);
  if (!nest_->trace->status()) return nest_->trace->status();
  sink.index = target.index;
  sink.guard = target.guard;
  nest_->sinks.push_back(sink);
  return {};
}

Status NestBuilder::add_sink(size_t output) {
  const InstructionId id = group_.outputs()[output];
  const Instruction& instruction = group_.at(id);
  if (instruction.opcode == Opcode::kScatter)
    return add_scatter(output, instruction);
  if (instruction.opcode == Opcode::kReduce) {
    const Result<ReduceSpec> spec = reduce_spec(group_, instruction);
    if (!spec) return pass(spec.error());
    if (spec->kind == ReduceKind::kSequential)
      return add_reduction(output, instruction, *spec);
  }
  return add_store(output, id);
}

Result<std::unique_ptr<Nest>> NestBuilder::build(std::vector<size_t>& pending) {
  IndexMap map = make_loops();
  if (nest_->space.loops.size() > kMaxLoops) {
    return fail(ErrorKind::kInfeasible, "{}: too many loops",
                group_.at(hero_.anchor).name);
  }
  nest_->trace = std::make_unique<ElementTrace>(group_, sources_,
                                                nest_->indices, nest_->space);
  const int64_t written_out =
      hero_.written_out ? group_.at(hero_.anchor).shape.dimensions.back() : 1;
  for (int64_t i = 0; i < written_out; ++i) {
    if (hero_.written_out) map.back() = nest_->indices.constant(i);
    maps_.emplace_back(group_, nest_->indices, nest_->space);
    maps_.back().assign(hero_.anchor, map);
    maps_.back().propagate();
  }
  std::vector<size_t> left;
  Status first;
  for (const size_t output : pending) {
    nest_->trace->clear_status();
    const Status added = add_sink(output);
    if (added) continue;
    if (added.error().kind != ErrorKind::kInfeasible)
      return pass(added.error());
    if (first) first = added;
    left.push_back(output);
  }
  if (nest_->sinks.empty()) return pass(first.error());
  pending = std::move(left);
  return std::move(nest_);
}

/// Fills the outputs that a nest accumulates into.
Result<std::unique_ptr<Nest>> initial_nest(const Group& group,
                                           std::vector<InstructionId>& sources,
                                           const Sink& sink) {
  const InstructionId id = group.outputs()[sink.output];
  const Instruction& instruction = group.at(id);
  auto nest = std::make_unique<Nest>();
  IndexMap map;
  for (const int64_t extent : instruction.shape.dimensions) {
    if (extent == 1) {
      map.push_back(nest->indices.constant(0));
      continue;
    }
    const int32_t loop = static_cast<int32_t>(nest->space.loops.size());
    nest->space.loops.push_back({loop, extent, false});
    nest->space.rows |= uint64_t{1} << loop;
    map.push_back(nest->indices.loop(loop, extent));
  }
  nest->trace = std::make_unique<ElementTrace>(group, sources, nest->indices,
                                               nest->space);
  Sink store;
  store.output = sink.output;
  store.loops = nest->space.rows;
  store.node = instruction.opcode == Opcode::kScatter
                   ? nest->trace->value(instruction.operands[0], map)
                   : nest->trace->value(instruction.operands[1], {});
  if (!nest->trace->status()) return pass(nest->trace->status().error());
  store.index = nest->indices.linearize(map, instruction.shape.dimensions);
  nest->sinks.push_back(store);
  return nest;
}

Result<std::unique_ptr<Nest>> split_and_build(
    const Group& group, std::vector<InstructionId>& sources, Hero hero,
    std::vector<size_t>& pending) {
  const std::vector<size_t> wanted = pending;
  const std::vector<InstructionId> known = sources;
  for (int round = 0;; ++round) {
    pending = wanted;
    sources = known;
    Result<std::unique_ptr<Nest>> nest =
        NestBuilder(group, sources, hero).build(pending);
    if (hero.written_out && (!nest || !pending.empty())) {
      hero.written_out = false;
      continue;
    }
    if (!nest || round >= 8 || !split_loop(**nest, hero)) return nest;
  }
}

/// A value that two nests need is computed twice; refuse when that is dear.
Status check_repeats(const Group& group,
                     const std::vector<std::unique_ptr<Nest>>& nests) {
  std::vector<InstructionId> seen;
  for (const auto& nest : nests) {
    for (const InstructionId id : nest->trace->computed()) {
      if (std::find(seen.begin(), seen.end(), id) == seen.end()) continue;
      if (facts_of(group.at(id).opcode).weight > kCheapWeight) {
        return fail(ErrorKind::kInfeasible,
                    "{}: two loop nests of the kernel would compute it",
                    group.at(id).name);
      }
    }
    seen.insert(seen.end(), nest->trace->computed().begin(),
                nest->trace->computed().end());
  }
  return {};
}

}  // namespace

Result<NestList> build_nests(const Group& group) {
  std::vector<size_t> pending;
  for (size_t i = 0; i < group.outputs().size(); ++i) pending.push_back(i);
  NestList list;
  while (!pending.empty()) {
    Result<Hero> hero = choose_hero(group, pending);
    if (!hero) return pass(hero.error());
    auto nest = split_and_build(group, list.sources, std::move(*hero), pending);
    if (!nest) return pass(nest.error());
    for (const Sink& sink : (*nest)->sinks) {
      if (!sink.ordered) continue;
      auto initial = initial_nest(group, list.sources, sink);
      if (!initial) return pass(initial.error());
      list.nests.push_back(std::move(*initial));
    }
    list.nests.push_back(std::move(*nest));
  }
  if (const Status repeats = check_repeats(group, list.nests); !repeats) {
    return pass(repeats.error());
  }
  return list;
}

}  // namespace reprise

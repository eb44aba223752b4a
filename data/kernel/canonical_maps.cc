// An index map says which element of an op one iteration of the loops stands
// for. From the hero's map, maps spread over the group to a fixed point: an op
// that is one to one with its operand takes the operand's map, and gives it its
// own. Maps go down from results to operands first, and up from operands where
// only those are known. XLA's indexing analysis goes down from outputs alone;
// going both ways lets one nest store several outputs. Cost: a sweep over the
// ops for each step of the longest chain that goes up, in practice a few.
#include "data/kernel/canonical_maps.h"

#include <utility>

#include "data/hlo/hlo.h"

namespace reprise {

std::optional<IndexMap> lane_operand_map(IndexTable& indices,
                                         const NestSpace& space,
                                         const ReduceSpec& spec,
                                         const IndexMap& map) {
  int32_t position = indices.constant(0);
  int64_t count = 1, minor = 1;
  for (const NestSpace::Loop& loop : space.loops) {
    if (!loop.column) continue;
    position = indices.add(indices.scale(position, loop.extent),
                           indices.loop(loop.id, loop.extent));
    count *= loop.extent;
    minor = loop.extent;
  }
  uint64_t loops = 0;
  for (const int32_t expression : map) loops |= indices.at(expression).loops;
  int64_t reduced = 1, last = 1;
  for (const int64_t extent : spec.reduced_extents) {
    reduced *= extent;
    if (extent > 1) last = extent;
  }
  // Lanes are positions in the minor reduced dimension: equal, or both whole
  // lanes.
  const bool same_lanes =
      last == minor || (last % kLanes == 0 && minor % kLanes == 0);
  if (space.columns == 0 || (loops & space.columns) != 0 || count != reduced ||
      !same_lanes) {
    return std::nullopt;
  }
  const IndexMap columns = indices.delinearize(position, spec.reduced_extents);
  IndexMap inner;
  size_t kept = 0, column = 0;
  for (const bool is_reduced : spec.reduced) {
    inner.push_back(is_reduced ? columns[column++] : map[kept++]);
  }
  return inner;
}

CanonicalMaps::CanonicalMaps(const Group& group, IndexTable& indices,
                             const NestSpace& space)
    : group_(group), indices_(indices), space_(space) {}

const IndexMap* CanonicalMaps::find(InstructionId id) const {
  const auto found = maps_.find(index_of(id));
  return found == maps_.end() ? nullptr : &found->second;
}

uint64_t CanonicalMaps::loops_of(const IndexMap& map) const {
  uint64_t loops = 0;
  for (const int32_t expression : map) loops |= indices_.at(expression).loops;
  return loops;
}

void CanonicalMaps::assign(InstructionId id, const IndexMap& map) {
  if (!maps_.emplace(index_of(id), map).second) return;
  const bool goes_on = is_view(group_.at(id).opcode) || group_.contains(id);
  if (!goes_on || depth_ >= kMaxDepth) return;
  ++depth_;
  to_operands(id, map);
  --depth_;
}

void CanonicalMaps::to_operands(InstructionId id, const IndexMap& map) {
  const Instruction& instruction = group_.at(id);
  const auto& operands = instruction.operands;
  if (runs_elementwise(instruction.opcode)) {
    for (const InstructionId operand : operands) {
      const size_t rank = group_.at(operand).shape.dimensions.size();
      if (rank == 0) {
        assign(operand, {});
      } else if (rank == map.size()) {  // Not a bitcast to another width.
        assign(operand, map);
      }
    }
    return;
  }
  if (const auto inner = moved_map(group_, indices_, instruction, map)) {
    assign(operands.at(0), *inner);
    return;
  }
  switch (instruction.opcode) {
    case Opcode::kDynamicUpdateSlice:
      assign(operands[0], map);
      break;
    case Opcode::kReduce: {
      const Result<ReduceSpec> spec = reduce_spec(group_, instruction);
      if (!spec || spec->kind != ReduceKind::kByLanes) break;
      if (const auto inner = lane_operand_map(indices_, space_, *spec, map)) {
        assign(operands[0], *inner);
      }
      break;
    }
    default:
      break;
  }
}

std::optional<IndexMap> CanonicalMaps::from_broadcast(
    const Instruction& broadcast) {
  const std::optional<IndexMap> inner = derive(broadcast.operands[0]);
  if (!inner) return std::nullopt;
  const uint64_t used = loops_of(*inner);
  int32_t position = indices_.constant(0);
  int64_t count = 1;
  for (const NestSpace::Loop& loop : space_.loops) {
    if ((used >> loop.id & 1) != 0) continue;
    position = indices_.add(indices_.scale(position, loop.extent),
                            indices_.loop(loop.id, loop.extent));
    count *= loop.extent;
  }
  const std::vector<int64_t> dimensions = integer_list(broadcast, "dimensions");
  std::vector<int64_t> added;
  std::vector<int32_t> source(broadcast.shape.dimensions.size(), -1);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    source.at(static_cast<size_t>(dimensions[i])) = static_cast<int32_t>(i);
  }
  int64_t wanted = 1;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] >= 0) continue;
    added.push_back(broadcast.shape.dimensions[i]);
    wanted *= added.back();
  }
  if (wanted != count) return std::nullopt;
  const IndexMap fresh = indices_.delinearize(position, added);
  IndexMap map;
  size_t next = 0;
  for (const int32_t from : source) {
    map.push_back(from >= 0 ? (*inner)[static_cast<size_t>(from)]
                            : fresh[next++]);
  }
  return map;
}

std::optional<IndexMap> CanonicalMaps::from_operands(
    const Instruction& instruction) {
  if (instruction.opcode == Opcode::kBroadcast)
    return from_broadcast(instruction);
  if (runs_elementwise(instruction.opcode)) {
    for (const InstructionId operand : instruction.operands) {
      if (group_.at(operand).shape.dimensions.size() !=
          instruction.shape.dimensions.size()) {
        continue;
      }
      if (auto map = derive(operand)) return map;
    }
    return std::nullopt;
  }
  switch (instruction.opcode) {
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kTranspose:
    case Opcode::kReduce:
    case Opcode::kOptimizationBarrier:
    case Opcode::kDynamicUpdateSlice:
      break;
    default:
      return std::nullopt;
  }
  std::optional<IndexMap> inner = derive(instruction.operands[0]);
  if (!inner) return std::nullopt;
  if (instruction.opcode == Opcode::kTranspose) {
    IndexMap map;
    for (const int64_t dimension : integer_list(instruction, "dimensions")) {
      map.push_back(inner->at(static_cast<size_t>(dimension)));
    }
    return map;
  }
  if (instruction.opcode == Opcode::kReduce) {
    const Result<ReduceSpec> spec = reduce_spec(group_, instruction);
    if (!spec) return std::nullopt;
    IndexMap map;
    for (size_t i = 0; i < inner->size(); ++i) {
      if (!spec->reduced[i]) map.push_back((*inner)[i]);
    }
    return map;
  }
  if (is_reshape(instruction.opcode)) {
    const int32_t position = indices_.linearize(
        *inner, operand_shape(group_, instruction, 0).dimensions);
    return indices_.delinearize(position, instruction.shape.dimensions);
  }
  return inner;
}

std::optional<IndexMap> CanonicalMaps::derive(InstructionId id) {
  if (const IndexMap* known = find(id)) return *known;
  const Instruction& instruction = group_.at(id);
  if (!is_view(instruction.opcode) || depth_ >= kMaxDepth) return std::nullopt;
  ++depth_;
  std::optional<IndexMap> map = from_operands(instruction);
  --depth_;
  return map;
}

void CanonicalMaps::propagate() {
  const std::vector<InstructionId>& members = group_.members();
  for (bool changed = true; changed;) {
    changed = false;
    for (const InstructionId id : members) {
      if (find(id) != nullptr) continue;
      if (const auto map = from_operands(group_.at(id))) {
        assign(id, *map);
        changed = true;
      }
    }
  }
}

}  // namespace reprise

// A reduction over the minor dimension cannot be moved, since its lanes are
// positions in that dimension; so the largest one decides. A reduction in
// memory must see its elements in order and comes next; a plain output fits
// most loops.
#include "data/kernel/hero.h"

#include <algorithm>
#include <utility>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

void anchor_at(const Group& group, Hero& hero, InstructionId anchor) {
  hero.anchor = anchor;
  const std::vector<int64_t>& extents = group.at(anchor).shape.dimensions;
  hero.factors.clear();
  for (const int64_t extent : extents) hero.factors.push_back({extent});
  hero.column.assign(extents.size(), false);
}

/// Members that the outputs need, as flags by member.
std::vector<bool> needed_members(const Group& group,
                                 const std::vector<size_t>& pending) {
  const std::vector<InstructionId>& members = group.members();
  std::vector<bool> needed(members.size(), false);
  std::vector<InstructionId> open;
  open.reserve(pending.size());
  for (const size_t output : pending) open.push_back(group.outputs()[output]);
  std::vector<InstructionId> seen_views;
  while (!open.empty()) {
    const InstructionId id = open.back();
    open.pop_back();
    const auto member = std::lower_bound(members.begin(), members.end(), id);
    if (member != members.end() && *member == id) {
      const size_t place = static_cast<size_t>(member - members.begin());
      if (needed[place]) continue;
      needed[place] = true;
    } else {
      const bool seen = std::find(seen_views.begin(), seen_views.end(), id) !=
                        seen_views.end();
      if (seen || !is_view(group.at(id).opcode)) continue;
      seen_views.push_back(id);
    }
    for (const InstructionId operand : group.at(id).operands)
      open.push_back(operand);
  }
  return needed;
}

/// What the loops of a nest for one output run over, and whether it
/// accumulates.
Result<std::pair<InstructionId, bool>> anchor_of(const Group& group,
                                                 InstructionId output) {
  const Instruction& instruction = group.at(output);
  if (instruction.opcode == Opcode::kScatter &&
      instruction.operands.size() == 3) {
    return std::pair{instruction.operands[2], true};
  }
  if (instruction.opcode == Opcode::kReduce) {
    const Result<ReduceSpec> spec = reduce_spec(group, instruction);
    if (!spec) return pass(spec.error());
    if (spec->kind == ReduceKind::kSequential) {
      return std::pair{instruction.operands[0], true};
    }
  }
  return std::pair{output, false};
}

/// Anchors at the largest lane reduce that the outputs need; false if none.
Result<bool> choose_lane_reduce(const Group& group,
                                const std::vector<size_t>& pending,
                                Hero& hero) {
  const std::vector<bool> needed = needed_members(group, pending);
  int64_t best = -1;
  for (size_t i = 0; i < needed.size(); ++i) {
    const InstructionId id = group.members()[i];
    const Instruction& instruction = group.at(id);
    if (!needed[i] || instruction.opcode != Opcode::kReduce) continue;
    const Result<ReduceSpec> spec = reduce_spec(group, instruction);
    if (!spec) return pass(spec.error());
    if (spec->kind != ReduceKind::kByLanes) continue;
    const int64_t size = element_count(operand_shape(group, instruction, 0));
    if (size <= best) continue;
    best = size;
    anchor_at(group, hero, instruction.operands[0]);
    hero.column = spec->reduced;
  }
  return best >= 0;
}

/// Whether the anchor's last dimension is one that some reduce which the
/// outputs need reduces as short rows.
bool has_short_rows(const Group& group, const std::vector<size_t>& pending,
                    const Hero& hero) {
  const Shape& anchor = group.at(hero.anchor).shape;
  if (anchor.dimensions.empty()) return false;
  const std::vector<bool> needed = needed_members(group, pending);
  for (size_t i = 0; i < needed.size(); ++i) {
    const Instruction& instruction = group.at(group.members()[i]);
    if (!needed[i] || instruction.opcode != Opcode::kReduce) continue;
    const Result<ReduceSpec> spec = reduce_spec(group, instruction);
    if (!spec || !spec->rows || spec->kind != ReduceKind::kUnrolled) continue;
    const Shape& operand = operand_shape(group, instruction, 0);
    if (spec->reduced_extents.size() == 1 && spec->reduced.back() &&
        operand.dimensions.back() == anchor.dimensions.back() &&
        element_count(operand) == element_count(anchor))
      return true;
  }
  return false;
}

}  // namespace

Result<Hero> choose_hero(const Group& group,
                         const std::vector<size_t>& pending) {
  Hero hero;
  const Result<bool> lanes = choose_lane_reduce(group, pending, hero);
  if (!lanes) return pass(lanes.error());
  if (*lanes) return hero;
  std::pair<bool, int64_t> best{false, -1};
  for (const size_t output : pending) {
    const auto anchor = anchor_of(group, group.outputs()[output]);
    if (!anchor) return pass(anchor.error());
    const std::pair<bool, int64_t> rank{
        anchor->second, element_count(group.at(anchor->first).shape)};
    if (rank <= best) continue;
    best = rank;
    anchor_at(group, hero, anchor->first);
  }
  hero.written_out = has_short_rows(group, pending, hero);
  return hero;
}

bool has_loops(const Hero& hero, size_t dimension) {
  return !hero.written_out || dimension + 1 < hero.factors.size();
}

namespace {

/// Dimension and factor of each loop, by id.
std::vector<std::pair<size_t, size_t>> places_of_loops(const Hero& hero) {
  std::vector<std::pair<size_t, size_t>> place;
  for (const bool column : {false, true}) {
    for (size_t i = 0; i < hero.factors.size(); ++i) {
      if (hero.column[i] != column || !has_loops(hero, i)) continue;
      for (size_t k = 0; k < hero.factors[i].size(); ++k) {
        if (hero.factors[i][k] != 1) place.emplace_back(i, k);
      }
    }
  }
  return place;
}

}  // namespace

bool split_loop(const Nest& nest, Hero& hero) {
  const std::vector<std::pair<size_t, size_t>> place = places_of_loops(hero);
  for (const IndexAtom& atom : nest.indices.atoms()) {
    if (atom.kind != IndexAtom::Kind::kFloorDiv &&
        atom.kind != IndexAtom::Kind::kMod)
      continue;
    const IndexExpression& operand = nest.indices.at(atom.operand);
    if (operand.terms.size() != 1 || operand.constant != 0 ||
        operand.terms[0].coefficient != 1) {
      continue;
    }
    const IndexAtom& inner = nest.indices.atom(operand.terms[0].atom);
    if (inner.kind != IndexAtom::Kind::kLoop) continue;
    const size_t id = static_cast<size_t>(inner.operand);
    const NestSpace::Loop& loop = nest.space.loops[id];
    const bool lanes = loop.column && id + 1 == nest.space.loops.size();
    if (loop.extent % atom.divisor != 0 || atom.divisor >= loop.extent ||
        (lanes && atom.divisor % kLanes != 0)) {
      continue;
    }
    auto& factors = hero.factors[place[id].first];
    const auto at =
        factors.begin() + static_cast<std::ptrdiff_t>(place[id].second);
    *at = atom.divisor;
    factors.insert(at, loop.extent / atom.divisor);
    return true;
  }
  return false;
}

}  // namespace reprise

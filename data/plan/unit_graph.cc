// Groups first, then buckets, then every op and collective that is in none:
// each becomes a unit. They are sorted by text position, so that ids do not
// depend on how the plan lists its groups; then edges, checks and the order.
#include "data/plan/unit_graph.h"

#include <algorithm>
#include <map>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

constexpr uint32_t kNoUnit = UINT32_MAX;

/// Builds and checks units; see plan_units.
class Resolver {
 public:
  Resolver(const OpGraph& graph, const PlanChoice& plan)
      : graph_(graph), plan_(plan) {
    units_.owner.assign(graph.role.size(), kNoUnit);
    slot_taken_.assign(graph.slots.size(), false);
  }

  Result<UnitGraph> resolve() {
    for (auto step :
         {&Resolver::add_groups, &Resolver::add_buckets,
          &Resolver::add_single_ops, &Resolver::connect, &Resolver::check_dots,
          &Resolver::check_cycles, &Resolver::read_order}) {
      Status status = (this->*step)();
      if (!status) return pass(status.error());
    }
    return std::move(units_);
  }

 private:
  const std::string& name_of(InstructionId id) const {
    return graph_.at(id).name;
  }
  std::string name_of(UnitRef unit) const {
    return unit_name(graph_, plan_, unit);
  }

  /// The ops of one group, without views, folded transposes and dead code.
  Result<std::vector<InstructionId>> group_ops(const ChosenGroup& group,
                                               const std::string& name) const {
    std::vector<InstructionId> ops = group.ops;
    std::sort(ops.begin(), ops.end());
    const auto twice = std::adjacent_find(ops.begin(), ops.end());
    if (twice != ops.end()) {
      return fail(ErrorKind::kInvalid, "group '{}': op '{}' stands twice", name,
                  name_of(*twice));
    }
    for (const InstructionId op : ops) {
      const OpRole role = graph_.role_of(op);
      if (role == OpRole::kRoutine || role == OpRole::kCollective ||
          role == OpRole::kParameter) {
        return fail(ErrorKind::kInvalid,
                    "group '{}': '{}' is a {}, which no group may hold", name,
                    name_of(op), opcode_name(graph_.at(op).opcode));
      }
    }
    std::erase_if(ops, [&](InstructionId op) {
      const OpRole role = graph_.role_of(op);
      return role != OpRole::kKernel && role != OpRole::kDot;
    });
    return ops;
  }

  Status add_groups() {
    for (uint32_t g = 0; g < plan_.fusion.size(); ++g) {
      const UnitRef ref{UnitRef::Kind::kGroup, g};
      PlannedUnit unit{.name = name_of(ref), .ref = ref};
      Result<std::vector<InstructionId>> ops =
          group_ops(plan_.fusion[g], unit.name);
      if (!ops) return pass(ops.error());
      if (ops->empty()) {
        return fail(ErrorKind::kInvalid, "group '{}' holds no op that runs",
                    unit.name);
      }
      unit.ops = *std::move(ops);
      Status dot = read_epilogue(&unit);
      if (!dot) return pass(dot.error(), fmt::format("group '{}'", unit.name));
      add_unit(std::move(unit));
    }
    return {};
  }

  /// Makes a unit with a dot a library call with its epilogue.
  Status read_epilogue(PlannedUnit* unit) {
    const InstructionId dot = dot_among(graph_, unit->ops);
    if (dot == kNoInstruction) return {};
    unit->role = OpRole::kDot;
    Result<DotEpilogue> epilogue = match_dot_epilogue(graph_, unit->ops);
    if (!epilogue) return pass(epilogue.error());
    if (units_.owner[index_of(dot)] != kNoUnit) {
      return fail(ErrorKind::kInvalid,
                  "'{}' is a dot, which runs in one unit only", name_of(dot));
    }
    unit->epilogue = *epilogue;
    return {};
  }

  void add_unit(PlannedUnit unit) {
    const auto index = static_cast<uint32_t>(units_.units.size());
    for (InstructionId op : unit.ops) {
      uint32_t& owner = units_.owner[index_of(op)];
      if (owner == kNoUnit) owner = index;
    }
    unit.position = index_of(unit.ops.back());
    units_.units.push_back(std::move(unit));
  }

  Status add_buckets() {
    for (uint32_t b = 0; b < plan_.buckets.size(); ++b) {
      const ChosenBucket& bucket = plan_.buckets[b];
      const UnitRef ref{UnitRef::Kind::kBucket, b};
      const std::string name = bucket_name(graph_, plan_, b);
      for (const int32_t slot : bucket.slots) {
        if (slot_taken_[static_cast<size_t>(slot)]) {
          return fail(ErrorKind::kInvalid,
                      "bucket '{}': '{}' is in a bucket already", name,
                      slot_name(graph_, slot));
        }
        slot_taken_[static_cast<size_t>(slot)] = true;
      }
      if (bucket.slots.empty())
        return fail(ErrorKind::kInvalid, "bucket '{}' is empty", name);
      Status added = add_collective(ref, bucket.slots, bucket.chunks);
      if (!added) return pass(added.error(), fmt::format("bucket '{}'", name));
    }
    return {};
  }

  /// Adds the units, one a chunk, of slots that run as one.
  Status add_collective(UnitRef ref, const std::vector<int32_t>& members,
                        int64_t chunks) {
    const CollectiveSlot& first = graph_.slots[static_cast<size_t>(members[0])];
    if (ref.kind == UnitRef::Kind::kBucket &&
        !facts_of(first.kind).shares_buckets) {
      return fail(ErrorKind::kInvalid, "'{}' is of kind {}, which runs alone",
                  graph_.at(first.collective).name,
                  reprise::name_of(first.kind));
    }
    Result<PlannedCollective> collective =
        plan_collective(graph_, plan_.ranks, members, chunks);
    if (!collective) return pass(collective.error());
    if (ref.kind == UnitRef::Kind::kBucket)
      collective->bucket = static_cast<int32_t>(ref.index);
    collective->first_unit = static_cast<uint32_t>(units_.units.size());
    PlannedUnit unit{.name = {}, .role = OpRole::kCollective};
    for (const int32_t slot : members) {
      unit.ops.push_back(graph_.slots[static_cast<size_t>(slot)].collective);
    }
    std::sort(unit.ops.begin(), unit.ops.end());
    unit.ops.erase(std::unique(unit.ops.begin(), unit.ops.end()),
                   unit.ops.end());
    unit.collective = static_cast<int32_t>(units_.collectives.size());
    for (unit.chunk = 0; unit.chunk < chunks; ++unit.chunk) {
      ref.chunk = static_cast<uint32_t>(unit.chunk);
      unit.ref = ref;
      unit.name = name_of(ref);
      add_unit(unit);
    }
    units_.collectives.push_back(*std::move(collective));
    return {};
  }

  /// A collective that no bucket touches runs whole when its operands agree,
  /// else by operand.
  Status add_single_collective(InstructionId op) {
    const int32_t first = graph_.first_slot[index_of(op)];
    std::vector<int32_t> slots;
    bool whole = graph_.slot_count(op) == 1 ||
                 is_bytewise(graph_.slots[static_cast<size_t>(first)].kind);
    for (size_t k = 0; k < graph_.slot_count(op); ++k) {
      const int32_t slot = first + static_cast<int32_t>(k);
      const auto at = static_cast<size_t>(slot);
      whole = whole && !slot_taken_[at] &&
              graph_.slots[at].type ==
                  graph_.slots[static_cast<size_t>(first)].type;
      if (!slot_taken_[at]) slots.push_back(slot);
    }
    if (slots.empty()) return {};
    if (whole)
      return add_collective({UnitRef::Kind::kOp, index_of(op)}, slots, 1);
    for (int32_t slot : slots) {
      const UnitRef ref{UnitRef::Kind::kOperand, static_cast<uint32_t>(slot)};
      Status added = add_collective(ref, {slot}, 1);
      if (!added) return added;
    }
    return {};
  }

  Status add_single_ops() {
    for (size_t i = 0; i < graph_.role.size(); ++i) {
      const InstructionId op{static_cast<uint32_t>(i)};
      if (!graph_.is_op(op)) continue;
      if (graph_.role[i] == OpRole::kCollective) {
        Status added = add_single_collective(op);
        if (!added) return added;
      } else if (units_.owner[i] == kNoUnit) {
        PlannedUnit unit{.name = name_of(op),
                         .ref = {UnitRef::Kind::kOp, index_of(op)},
                         .role = graph_.role[i],
                         .ops = {op}};
        Status dot = read_epilogue(&unit);
        if (!dot) return dot;
        add_unit(std::move(unit));
      }
    }
    return {};
  }

  /// Puts units in text order, so that ids do not depend on the order of groups
  /// in the plan.
  Status connect() {
    std::vector<uint32_t> sorted(units_.units.size()),
        place(units_.units.size());
    for (uint32_t u = 0; u < sorted.size(); ++u) sorted[u] = u;
    std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
      return units_.units[a].position < units_.units[b].position;
    });
    std::vector<PlannedUnit> moved;
    moved.reserve(sorted.size());
    for (uint32_t u = 0; u < sorted.size(); ++u) {
      place[sorted[u]] = u;
      moved.push_back(std::move(units_.units[sorted[u]]));
    }
    units_.units = std::move(moved);
    for (uint32_t& owner : units_.owner) {
      if (owner != kNoUnit) owner = place[owner];
    }
    for (PlannedCollective& collective : units_.collectives) {
      collective.first_unit = place[collective.first_unit];
    }
    return connect_units(graph_, &units_);
  }

  /// A dot's unit writes one value. (Another group may recompute an op of its
  /// epilogue, and then reads what comes before it.)
  Status check_dots() {
    for (const PlannedUnit& unit : units_.units) {
      if (unit.role != OpRole::kDot) continue;
      for (const InstructionId value : unit.outputs) {
        if (value == unit.epilogue.result) continue;
        return fail(ErrorKind::kInvalid,
                    "group '{}': another unit reads '{}', but a library call "
                    "writes its last result only",
                    unit.name, name_of(value));
      }
    }
    return {};
  }

  Status check_cycles() {
    std::string reason = explain_cycle(graph_, units_);
    if (!reason.empty()) return fail(ErrorKind::kInvalid, "{}", reason);
    return {};
  }

  Status read_order() {
    if (plan_.order.empty()) return {};
    std::map<UnitRef, uint32_t> unit_of;
    for (uint32_t u = 0; u < units_.units.size(); ++u)
      unit_of.emplace(units_.units[u].ref, u);
    std::vector<uint32_t> place(units_.units.size(), kNoUnit);
    for (const UnitRef ref : plan_.order) {
      const auto found = unit_of.find(ref);
      if (found == unit_of.end()) {
        return fail(ErrorKind::kInvalid, "order: the plan has no unit '{}'",
                    name_of(ref));
      }
      const uint32_t u = found->second;
      if (place[u] != kNoUnit) {
        return fail(ErrorKind::kInvalid, "order: unit '{}' stands twice",
                    name_of(ref));
      }
      place[u] = static_cast<uint32_t>(units_.order.size());
      units_.order.push_back(u);
    }
    for (uint32_t u = 0; u < place.size(); ++u) {
      if (place[u] == kNoUnit) {
        return fail(ErrorKind::kInvalid, "order: unit '{}' is missing",
                    units_.units[u].name);
      }
    }
    for (uint32_t u : units_.order) {
      for (uint32_t before : units_.units[u].predecessors) {
        if (place[before] > place[u]) {
          return fail(ErrorKind::kInvalid,
                      "order: '{}' stands before '{}', whose result it reads",
                      units_.units[u].name, units_.units[before].name);
        }
      }
    }
    return {};
  }

  const OpGraph& graph_;
  const PlanChoice& plan_;
  UnitGraph units_;
  std::vector<bool> slot_taken_;
};

}  // namespace

Result<UnitGraph> plan_units(const OpGraph& graph, const PlanChoice& plan) {
  if (plan.ranks < 1 || plan.ranks > (1 << 20)) {
    return fail(ErrorKind::kInvalid,
                "the plan is for {} ranks, expected 1 to {}", plan.ranks,
                1 << 20);
  }
  return Resolver(graph, plan).resolve();
}

Result<UnitGraph> plan_units(const OpGraph& graph, const Plan& plan) {
  const Result<PlanChoice> choice = bind_plan(graph, plan);
  if (!choice) return pass(choice.error());
  return plan_units(graph, *choice);
}

}  // namespace reprise

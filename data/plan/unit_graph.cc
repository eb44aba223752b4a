#include "data/plan/unit_graph.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

constexpr uint32_t kNoUnit = UINT32_MAX;

/// Resolves names and builds units; see plan_units.
class Resolver {
 public:
  Resolver(const OpGraph& graph, const Plan& plan)
      : graph_(graph), plan_(plan) {
    units_.owner.assign(graph.role.size(), kNoUnit);
    slot_taken_.assign(graph.slots.size(), false);
  }

  Result<UnitGraph> resolve() {
    for (auto step :
         {&Resolver::add_groups, &Resolver::add_buckets,
          &Resolver::add_single_ops, &Resolver::finish_units,
          &Resolver::check_names, &Resolver::add_edges, &Resolver::check_dots,
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

  static Status check_unit_name(const std::string& name, const char* what) {
    if (name.empty() || name.find_first_of("#:") != std::string::npos) {
      return fail(ErrorKind::kInvalid,
                  "{} '{}': a unit's name is not empty and holds no '#' or ':'",
                  what, name);
    }
    return {};
  }

  /// The ops of one group, without views, folded transposes and dead code.
  Result<std::vector<InstructionId>> group_ops(const FusionGroup& group) {
    std::vector<InstructionId> ops;
    std::set<std::string_view> seen;
    for (const std::string& name : group.ops) {
      const auto found = graph_.by_name.find(name);
      if (found == graph_.by_name.end()) {
        return fail(ErrorKind::kInvalid,
                    "group '{}': the program has no op '{}'", group.unit, name);
      }
      if (!seen.insert(name).second) {
        return fail(ErrorKind::kInvalid, "group '{}': op '{}' stands twice",
                    group.unit, name);
      }
      const OpRole role = graph_.role_of(found->second);
      if (role == OpRole::kCollective || role == OpRole::kParameter) {
        return fail(ErrorKind::kInvalid,
                    "group '{}': '{}' is a {}, which no group may hold",
                    group.unit, name,
                    opcode_name(graph_.at(found->second).opcode));
      }
      if (role == OpRole::kKernel || role == OpRole::kDot)
        ops.push_back(found->second);
    }
    std::sort(ops.begin(), ops.end());
    return ops;
  }

  Status add_groups() {
    for (const FusionGroup& group : plan_.fusion) {
      Status name = check_unit_name(group.unit, "group");
      if (!name) return name;
      Result<std::vector<InstructionId>> ops = group_ops(group);
      if (!ops) return pass(ops.error());
      if (ops->empty()) {
        return fail(ErrorKind::kInvalid, "group '{}' holds no op that runs",
                    group.unit);
      }
      PlannedUnit unit{.name = group.unit, .ops = *std::move(ops)};
      Status dot = read_epilogue(&unit);
      if (!dot) return pass(dot.error(), fmt::format("group '{}'", group.unit));
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

  /// Slots that `name` or `name:operand` means.
  Result<std::vector<int32_t>> find_slots(const Bucket& bucket,
                                          const std::string& member) const {
    const size_t colon = member.rfind(':');
    const std::string_view name = std::string_view(member).substr(0, colon);
    const auto found = graph_.by_name.find(name);
    if (found == graph_.by_name.end() ||
        graph_.first_slot[index_of(found->second)] < 0) {
      return fail(ErrorKind::kInvalid,
                  "bucket '{}': the program has no collective '{}'",
                  bucket.unit, member);
    }
    const int32_t first = graph_.first_slot[index_of(found->second)];
    const auto count = static_cast<int32_t>(graph_.slot_count(found->second));
    std::vector<int32_t> slots;
    if (colon == std::string::npos) {
      for (int32_t k = 0; k < count; ++k) slots.push_back(first + k);
      return slots;
    }
    int32_t operand = -1;
    const char* end = member.data() + member.size();
    const auto parsed =
        std::from_chars(member.data() + colon + 1, end, operand);
    if (parsed.ec != std::errc() || parsed.ptr != end || operand < 0 ||
        operand >= count) {
      return fail(ErrorKind::kInvalid,
                  "bucket '{}': '{}' names operand '{}' of {}", bucket.unit,
                  member, member.substr(colon + 1), count);
    }
    slots.push_back(first + operand);
    return slots;
  }

  Status add_buckets() {
    for (size_t b = 0; b < plan_.buckets.size(); ++b) {
      const Bucket& bucket = plan_.buckets[b];
      Status name = check_unit_name(bucket.unit, "bucket");
      if (!name) return name;
      std::vector<int32_t> members;
      for (const std::string& member : bucket.collectives) {
        Result<std::vector<int32_t>> slots = find_slots(bucket, member);
        if (!slots) return pass(slots.error());
        for (int32_t slot : *slots) {
          if (slot_taken_[static_cast<size_t>(slot)]) {
            return fail(ErrorKind::kInvalid,
                        "bucket '{}': '{}' is in a bucket already", bucket.unit,
                        member);
          }
          slot_taken_[static_cast<size_t>(slot)] = true;
          members.push_back(slot);
        }
      }
      if (members.empty())
        return fail(ErrorKind::kInvalid, "bucket '{}' is empty", bucket.unit);
      Status added = add_collective(bucket.unit, members,
                                    static_cast<int32_t>(b), bucket.chunks);
      if (!added)
        return pass(added.error(), fmt::format("bucket '{}'", bucket.unit));
    }
    return {};
  }

  static std::optional<Reduction> reduction_by(Opcode opcode) {
    switch (opcode) {
      case Opcode::kAdd:
        return Reduction::kSum;
      case Opcode::kMaximum:
        return Reduction::kMax;
      case Opcode::kMinimum:
        return Reduction::kMin;
      case Opcode::kMultiply:
        return Reduction::kProduct;
      default:
        return std::nullopt;
    }
  }

  static bool combines_its_parameters(const Computation& computation) {
    const std::vector<InstructionId>& operands =
        computation.at(computation.root).operands;
    return computation.instructions.size() == 3 && operands.size() == 2 &&
           operands[0] != operands[1] &&
           std::all_of(operands.begin(), operands.end(), [&](InstructionId id) {
             return computation.at(id).opcode == Opcode::kParameter;
           });
  }

  static Result<Reduction> reduction_of(const Module& module,
                                        const Instruction& collective) {
    const std::optional<ComputationId> body = called_computation(collective);
    if (body) {
      const Computation& computation = module.at(*body);
      const Instruction& root = computation.at(computation.root);
      const std::optional<Reduction> reduction = reduction_by(root.opcode);
      if (reduction && combines_its_parameters(computation)) return *reduction;
    }
    return fail(ErrorKind::kUnsupported,
                "{}: expected a reduction by add, maximum, minimum or multiply",
                collective.name);
  }

  Status check_groups(const Instruction& collective,
                      const std::vector<std::vector<int64_t>>& groups) const {
    std::vector<bool> seen(static_cast<size_t>(plan_.ranks), false);
    int64_t covered = 0;
    for (const std::vector<int64_t>& group : groups) {
      for (int64_t rank : group) {
        if (rank < 0 || rank >= plan_.ranks ||
            seen[static_cast<size_t>(rank)]) {
          return fail(ErrorKind::kInvalid,
                      "{}: its replica groups name rank {}, but the plan is "
                      "for {} ranks",
                      collective.name, rank, plan_.ranks);
        }
        seen[static_cast<size_t>(rank)] = true;
        ++covered;
      }
    }
    if (covered != plan_.ranks) {
      return fail(
          ErrorKind::kInvalid,
          "{}: its replica groups hold {} ranks, but the plan is for {}",
          collective.name, covered, plan_.ranks);
    }
    return {};
  }

  /// Whether input and result have the sizes that the groups make of a part.
  Status check_sizes(const CollectiveSlot& slot,
                     const std::vector<std::vector<int64_t>>& groups) const {
    const CollectiveFacts& facts = facts_of(slot.kind);
    for (const std::vector<int64_t>& group : groups) {
      const auto parts = static_cast<int64_t>(group.size());
      const int64_t whole = std::max(slot.bytes, slot.output_bytes);
      const auto fits = [&](int64_t bytes, BufferShare share) {
        return (share == BufferShare::kPart ? bytes * parts : bytes) == whole;
      };
      if (fits(slot.bytes, facts.input) &&
          fits(slot.output_bytes, facts.output)) {
        continue;
      }
      return fail(ErrorKind::kInvalid,
                  "{}: {} among {} ranks cannot make {} bytes of {}",
                  name_of(slot.collective), facts.name, parts,
                  slot.output_bytes, slot.bytes);
    }
    return {};
  }

  /// Kind, type and groups of one slot's collective as a PlannedCollective
  /// without members.
  Result<PlannedCollective> describe_slot(int32_t slot) const {
    const CollectiveSlot& at = graph_.slots[static_cast<size_t>(slot)];
    const Instruction& collective = graph_.at(at.collective);
    Result<std::vector<std::vector<int64_t>>> groups =
        replica_groups(collective, plan_.ranks);
    if (!groups) return pass(groups.error());
    Status checked = check_groups(collective, *groups);
    if (!checked) return pass(checked.error());
    PlannedCollective described;
    described.kind = at.kind;
    if (facts_of(at.kind).reduces) {
      Result<Reduction> reduction = reduction_of(*graph_.module, collective);
      if (!reduction) return pass(reduction.error());
      described.reduction = *reduction;
    }
    described.type = at.type;
    described.groups = *std::move(groups);
    Status sizes = check_sizes(at, described.groups);
    if (!sizes) return pass(sizes.error());
    return described;
  }

  Status add_collective(const std::string& name,
                        const std::vector<int32_t>& members, int32_t bucket,
                        int64_t chunks) {
    Result<PlannedCollective> first = describe_slot(members[0]);
    if (!first) return pass(first.error());
    PlannedCollective collective = *std::move(first);
    collective.name = name;
    collective.bucket = bucket;
    if (bucket >= 0 && !is_bytewise(collective.kind)) {
      return fail(
          ErrorKind::kInvalid, "'{}' is of kind {}, which runs alone",
          name_of(graph_.slots[static_cast<size_t>(members[0])].collective),
          reprise::name_of(collective.kind));
    }
    for (int32_t slot : members) {
      const CollectiveSlot& at = graph_.slots[static_cast<size_t>(slot)];
      Result<PlannedCollective> other = describe_slot(slot);
      if (!other) return pass(other.error());
      const char* mixed =
          other->kind != collective.kind             ? "kinds"
          : other->type != collective.type           ? "types"
          : other->groups != collective.groups       ? "replica groups"
          : other->reduction != collective.reduction ? "reductions"
                                                     : nullptr;
      if (mixed != nullptr) {
        return fail(
            ErrorKind::kInvalid, "it mixes {}: '{}' and '{}' differ", mixed,
            name_of(graph_.slots[static_cast<size_t>(members[0])].collective),
            name_of(at.collective));
      }
      collective.members.push_back({slot, align_up(collective.bytes)});
      collective.bytes = collective.members.back().offset_bytes +
                         std::max(at.bytes, at.output_bytes);
    }
    return add_chunks(std::move(collective), chunks);
  }

  Status add_chunks(PlannedCollective collective, int64_t chunks) {
    collective.chunk_bytes =
        std::max(kAlignmentBytes, align_up((collective.bytes + chunks - 1) /
                                           std::max<int64_t>(chunks, 1)));
    collective.chunks = chunks;
    if (chunks < 1 || (chunks > 1 && collective.chunk_bytes * (chunks - 1) >=
                                         collective.bytes)) {
      return fail(ErrorKind::kInvalid,
                  "{} bytes do not make {} chunks of whole {}-byte lines",
                  collective.bytes, chunks, kAlignmentBytes);
    }
    collective.first_unit = static_cast<uint32_t>(units_.units.size());
    PlannedUnit unit{.name = collective.name, .role = OpRole::kCollective};
    for (const CollectiveMember& member : collective.members) {
      unit.ops.push_back(
          graph_.slots[static_cast<size_t>(member.slot)].collective);
    }
    std::sort(unit.ops.begin(), unit.ops.end());
    unit.ops.erase(std::unique(unit.ops.begin(), unit.ops.end()),
                   unit.ops.end());
    unit.collective = static_cast<int32_t>(units_.collectives.size());
    for (unit.chunk = 0; unit.chunk < chunks; ++unit.chunk) {
      if (chunks > 1)
        unit.name = fmt::format("{}#{}", collective.name, unit.chunk);
      add_unit(unit);
    }
    units_.collectives.push_back(std::move(collective));
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
    if (whole) return add_collective(name_of(op), slots, -1, 1);
    for (int32_t slot : slots) {
      Status added = add_collective(
          fmt::format("{}:{}", name_of(op), slot - first), {slot}, -1, 1);
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
        PlannedUnit unit{
            .name = name_of(op), .role = graph_.role[i], .ops = {op}};
        Status dot = read_epilogue(&unit);
        if (!dot) return dot;
        add_unit(std::move(unit));
      }
    }
    return {};
  }

  /// Puts units in text order, so that ids do not depend on the order of groups
  /// in the plan.
  Status finish_units() {
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
    return {};
  }

  Status check_names() {
    for (uint32_t u = 0; u < units_.units.size(); ++u) {
      if (!by_name_.emplace(units_.units[u].name, u).second) {
        return fail(ErrorKind::kInvalid, "two units are named '{}'",
                    units_.units[u].name);
      }
    }
    return {};
  }

  Status add_edges() { return connect_units(graph_, &units_); }

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

  /// Copies are placed by lowering, whatever an order says of them.
  static bool is_placed_by_lowering(const std::string& name) {
    return name.starts_with("copy:") || name.starts_with("update:") ||
           name.starts_with("output:");
  }

  Status read_order() {
    if (plan_.order.empty()) return {};
    std::vector<uint32_t> place(units_.units.size(), kNoUnit);
    for (const std::string& name : plan_.order) {
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) {
        if (is_placed_by_lowering(name)) continue;
        return fail(ErrorKind::kInvalid, "order: the plan has no unit '{}'",
                    name);
      }
      if (place[found->second] != kNoUnit) {
        return fail(ErrorKind::kInvalid, "order: unit '{}' stands twice", name);
      }
      place[found->second] = static_cast<uint32_t>(units_.order.size());
      units_.order.push_back(found->second);
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
  const Plan& plan_;
  UnitGraph units_;
  std::vector<bool> slot_taken_;
  std::unordered_map<std::string_view, uint32_t> by_name_;
};

}  // namespace

Result<UnitGraph> plan_units(const OpGraph& graph, const Plan& plan) {
  if (plan.ranks < 1 || plan.ranks > (1 << 20)) {
    return fail(ErrorKind::kInvalid,
                "the plan is for {} ranks, expected 1 to {}", plan.ranks,
                1 << 20);
  }
  return Resolver(graph, plan).resolve();
}

}  // namespace reprise

// Names to ids and back. Groups and buckets are bound by the program's names;
// their units, built once without an order, tell which names an order may use.
#include "data/plan/plan_choice.h"

#include <charconv>
#include <unordered_map>

#include "data/plan/unit_graph.h"

namespace reprise {
namespace {

Status check_unit_name(const std::string& name, const char* what) {
  if (name.empty() || name.find_first_of("#:") != std::string::npos) {
    return fail(ErrorKind::kInvalid,
                "{} '{}': a unit's name is not empty and holds no '#' or ':'",
                what, name);
  }
  return {};
}

/// Copies are placed by lowering, whatever an order says of them.
bool is_placed_by_lowering(std::string_view name) {
  return name.starts_with("copy:") || name.starts_with("update:") ||
         name.starts_with("output:");
}

/// Looks names up in the program and in the plan; see bind_plan.
class Binder {
 public:
  Binder(const OpGraph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

  Result<PlanChoice> bind() {
    choice_.ranks = plan_.ranks;
    for (auto step :
         {&Binder::bind_groups, &Binder::bind_buckets, &Binder::bind_order}) {
      const Status status = (this->*step)();
      if (!status) return pass(status.error());
    }
    return std::move(choice_);
  }

 private:
  Status bind_groups() {
    for (const FusionGroup& group : plan_.fusion) {
      const Status named = check_unit_name(group.unit, "group");
      if (!named) return named;
      ChosenGroup chosen{.ops = {}, .name = group.unit};
      for (const std::string& name : group.ops) {
        const auto found = graph_.by_name.find(name);
        if (found == graph_.by_name.end()) {
          return fail(ErrorKind::kInvalid,
                      "group '{}': the program has no op '{}'", group.unit,
                      name);
        }
        chosen.ops.push_back(found->second);
      }
      choice_.fusion.push_back(std::move(chosen));
    }
    return {};
  }

  /// Adds the slots that `name` or `name:operand` means.
  Status bind_member(const std::string& member, ChosenBucket* bucket) const {
    const size_t colon = member.rfind(':');
    const std::string_view name = std::string_view(member).substr(0, colon);
    const auto found = graph_.by_name.find(name);
    if (found == graph_.by_name.end() ||
        graph_.first_slot[index_of(found->second)] < 0) {
      return fail(ErrorKind::kInvalid,
                  "bucket '{}': the program has no collective '{}'",
                  bucket->name, member);
    }
    const int32_t first = graph_.first_slot[index_of(found->second)];
    const size_t count = graph_.slot_count(found->second);
    if (colon == std::string::npos) {
      for (size_t k = 0; k < count; ++k) {
        bucket->slots.push_back(first + static_cast<int32_t>(k));
      }
      return {};
    }
    uint32_t operand = 0;
    const char* end = member.data() + member.size();
    const auto parsed =
        std::from_chars(member.data() + colon + 1, end, operand);
    if (parsed.ec != std::errc() || parsed.ptr != end || operand >= count) {
      return fail(ErrorKind::kInvalid,
                  "bucket '{}': '{}' names operand '{}' of {}", bucket->name,
                  member, member.substr(colon + 1), count);
    }
    bucket->slots.push_back(first + static_cast<int32_t>(operand));
    return {};
  }

  Status bind_buckets() {
    for (const Bucket& bucket : plan_.buckets) {
      const Status named = check_unit_name(bucket.unit, "bucket");
      if (!named) return named;
      ChosenBucket chosen{
          .slots = {}, .chunks = bucket.chunks, .name = bucket.unit};
      for (const std::string& member : bucket.collectives) {
        const Status bound = bind_member(member, &chosen);
        if (!bound) return bound;
      }
      choice_.buckets.push_back(std::move(chosen));
    }
    return {};
  }

  /// Units of the groups and buckets have the names that an order may use.
  Status bind_order() {
    const Result<UnitGraph> units = plan_units(graph_, choice_);
    if (!units) return pass(units.error());
    std::unordered_map<std::string_view, UnitRef> unit_of;
    for (const PlannedUnit& unit : units->units) {
      if (!unit_of.emplace(unit.name, unit.ref).second) {
        return fail(ErrorKind::kInvalid, "two units are named '{}'", unit.name);
      }
    }
    for (const std::string& name : plan_.order) {
      const auto found = unit_of.find(name);
      if (found != unit_of.end()) {
        choice_.order.push_back(found->second);
      } else if (!is_placed_by_lowering(name)) {
        return fail(ErrorKind::kInvalid, "order: the plan has no unit '{}'",
                    name);
      }
    }
    return {};
  }

  const OpGraph& graph_;
  const Plan& plan_;
  PlanChoice choice_;
};

/// The given name, or one by the unit's place that no op of the program has.
std::string name_or_place(const OpGraph& graph, const std::string& given,
                          char letter, size_t place) {
  if (!given.empty()) return given;
  std::string name = fmt::format("{}{}", letter, place);
  while (graph.by_name.contains(name)) name += '_';
  return name;
}

std::string group_name(const OpGraph& graph, const PlanChoice& choice,
                       size_t g) {
  return name_or_place(graph, choice.fusion[g].name, 'f', g);
}

}  // namespace

Result<PlanChoice> bind_plan(const OpGraph& graph, const Plan& plan) {
  return Binder(graph, plan).bind();
}

std::string bucket_name(const OpGraph& graph, const PlanChoice& choice,
                        size_t b) {
  return name_or_place(graph, choice.buckets[b].name, 'b', b);
}

std::string slot_name(const OpGraph& graph, int32_t slot) {
  const CollectiveSlot& at = graph.slots[static_cast<size_t>(slot)];
  const std::string& name = graph.at(at.collective).name;
  return graph.slot_count(at.collective) == 1
             ? name
             : fmt::format("{}:{}", name, at.operand);
}

std::string unit_name(const OpGraph& graph, const PlanChoice& choice,
                      UnitRef unit) {
  switch (unit.kind) {
    case UnitRef::Kind::kOp:
      return graph.at(InstructionId{unit.index}).name;
    case UnitRef::Kind::kOperand: {
      const CollectiveSlot& slot = graph.slots[unit.index];
      return fmt::format("{}:{}", graph.at(slot.collective).name, slot.operand);
    }
    case UnitRef::Kind::kGroup:
      return group_name(graph, choice, unit.index);
    case UnitRef::Kind::kBucket: {
      std::string name = bucket_name(graph, choice, unit.index);
      if (choice.buckets[unit.index].chunks == 1) return name;
      return fmt::format("{}#{}", name, unit.chunk);
    }
    case UnitRef::Kind::kNone:
    case UnitRef::Kind::kCopy:
      break;
  }
  REPRISE_CHECK(false && "a unit of no plan");
  return {};
}

Plan name_plan(const OpGraph& graph, const PlanChoice& choice) {
  Plan plan = identity_plan(*graph.module, choice.ranks);
  for (size_t g = 0; g < choice.fusion.size(); ++g) {
    FusionGroup group{.unit = group_name(graph, choice, g), .ops = {}};
    for (const InstructionId op : choice.fusion[g].ops) {
      group.ops.push_back(graph.at(op).name);
    }
    plan.fusion.push_back(std::move(group));
  }
  for (size_t b = 0; b < choice.buckets.size(); ++b) {
    Bucket bucket{.unit = bucket_name(graph, choice, b),
                  .collectives = {},
                  .chunks = choice.buckets[b].chunks};
    for (const int32_t slot : choice.buckets[b].slots) {
      bucket.collectives.push_back(slot_name(graph, slot));
    }
    plan.buckets.push_back(std::move(bucket));
  }
  for (const UnitRef unit : choice.order) {
    plan.order.push_back(unit_name(graph, choice, unit));
  }
  return plan;
}

}  // namespace reprise

#include "optimizer/recompute/recomputation.h"

#include <algorithm>
#include <numeric>

#include "data/hlo/hlo.h"
#include "data/hlo/opcode.h"
#include "data/schedule/memory_plan.h"
#include "optimizer/recompute/kept_values.h"

namespace reprise {
namespace {

/// Values of less than this share of the arena stay in memory.
constexpr int64_t kLeastShareOfArena = 256;
/// Ops that cost more than this of an addition run once: those that call a
/// function (OpcodeFacts::weight).
constexpr int32_t kDearestWeight = 4;

/// The unit during which temporaries hold the most bytes.
uint32_t fullest_unit(const Schedule& schedule) {
  std::vector<uint32_t> computing;
  for (uint32_t u = 0; u < schedule.units.size(); ++u) {
    if (schedule.units[u].stream == Stream::kCompute) computing.push_back(u);
  }
  std::vector<int64_t> change(computing.size() + 1, 0);
  const std::vector<LiveInterval> live = live_intervals(schedule);
  for (size_t b = 0; b < live.size(); ++b) {
    if (live[b].end < live[b].begin) continue;
    const int64_t bytes = schedule.buffers[b].size_bytes;
    change[static_cast<size_t>(live[b].begin)] += bytes;
    if (live[b].end < static_cast<int64_t>(computing.size()))
      change[static_cast<size_t>(live[b].end) + 1] -= bytes;
  }
  if (computing.empty()) return 0;
  std::partial_sum(change.begin(), change.end(), change.begin());
  return computing[static_cast<size_t>(
      std::max_element(change.begin(), change.end() - 1) - change.begin())];
}

}  // namespace

/// The values that cross one moment: after `last`, a unit of the schedule.
class Recomputation::Moment {
 public:
  Moment(const Recomputation& plans, const Schedule& schedule, uint32_t last,
         const std::set<UnitKey>& fixed)
      : plans_(plans),
        graph_(plans.graph_),
        schedule_(schedule),
        last_(last),
        fixed_(fixed),
        units_of_(graph_.role.size()),
        index_of_value_(graph_.role.size(), kNone) {
    for (uint32_t u = 0; u < schedule.units.size(); ++u) {
      for (const InstructionId op : schedule.units[u].ops)
        units_of_[index_of(op)].push_back(u);
    }
  }

  void add_recomputed(Recomputed* recomputed) {
    std::vector<InstructionId> crossing;
    for (uint32_t v = 0; v < graph_.role.size(); ++v) {
      if (is_needed_after(InstructionId{v}))
        crossing.push_back(InstructionId{v});
    }
    add_ancestors(crossing);
    std::vector<CrossingValue> values;
    for (const InstructionId value : values_)
      values.push_back(described(value));
    kept_ = fewest_bytes_kept(values);
    for (const InstructionId value : crossing) {
      if (kept_[index_of_value_[index_of(value)]]) continue;
      for (const uint32_t reader : readers_after(value)) {
        add_ops(value, reader,
                &(*recomputed)[plans_.key_of(schedule_.units[reader])]);
      }
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  InstructionId producer(InstructionId value) const {
    return graph_.producer[index_of(value)];
  }
  bool contains(uint32_t unit, InstructionId op) const {
    const auto& units = units_of_[index_of(op)];
    return std::binary_search(units.begin(), units.end(), unit);
  }
  /// In the arena.
  int64_t bytes_of(InstructionId value) const {
    return align_up(byte_size(graph_.at(value).shape));
  }

  /// The unit that writes a value; kNone for what is there in any case.
  uint32_t writer(InstructionId value) const {
    const InstructionId op = producer(value);
    if (op == kNoInstruction || units_of_[index_of(op)].empty()) return kNone;
    return units_of_[index_of(op)].front();
  }

  /// Units after the moment that read the value from memory.
  std::vector<uint32_t> readers_after(InstructionId value) const {
    std::vector<uint32_t> found;
    for (const InstructionId reader : graph_.readers[index_of(value)]) {
      for (const uint32_t unit : units_of_[index_of(reader)]) {
        if (unit > last_ && !contains(unit, producer(value)))
          found.push_back(unit);
      }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  bool is_needed_after(InstructionId value) const {
    const uint32_t unit = writer(value);
    return unit != kNone && unit <= last_ && !readers_after(value).empty();
  }

  bool can_compute_again(uint32_t unit) const {
    return schedule_.units[unit].kind == UnitKind::kKernel &&
           !fixed_.contains(plans_.key_of(schedule_.units[unit]));
  }

  /// It is in memory after the moment, whatever is chosen.
  bool stays(InstructionId value) const {
    if (writer(value) == kNone || graph_.is_output[index_of(value)])
      return true;
    const std::vector<uint32_t> readers = readers_after(value);
    return std::any_of(readers.begin(), readers.end(),
                       [&](uint32_t unit) { return !can_compute_again(unit); });
  }

  bool is_recomputable(InstructionId value) const {
    const uint32_t unit = writer(value);
    if (unit == kNone || schedule_.units[unit].kind != UnitKind::kKernel ||
        bytes_of(value) * kLeastShareOfArena < schedule_.arena_bytes)
      return false;
    const OpcodeFacts& facts = facts_of(graph_.at(producer(value)).opcode);
    return facts.lowering == Lowering::kElement &&
           facts.weight <= kDearestWeight;
  }

  CrossingValue described(InstructionId value) const {
    CrossingValue described{.bytes = stays(value) ? 0 : bytes_of(value),
                            .recomputable = is_recomputable(value),
                            .needed = is_needed_after(value),
                            .inputs = {}};
    if (!described.recomputable) return described;
    for (const InstructionId input : graph_.inputs[index_of(producer(value))])
      described.inputs.push_back(index_of_value_[index_of(input)]);
    return described;
  }

  /// Fills `values_`: the needed ones and what they can be computed from.
  void add_ancestors(std::vector<InstructionId> stack) {
    std::set<InstructionId> seen(stack.begin(), stack.end());
    while (!stack.empty()) {
      const InstructionId value = stack.back();
      stack.pop_back();
      if (!is_recomputable(value)) continue;
      for (const InstructionId input :
           graph_.inputs[index_of(producer(value))]) {
        if (seen.insert(input).second) stack.push_back(input);
      }
    }
    values_.assign(seen.begin(), seen.end());
    for (uint32_t i = 0; i < values_.size(); ++i)
      index_of_value_[index_of(values_[i])] = i;
  }

  /// The ops that `unit` needs to compute `value` from what is kept.
  void add_ops(InstructionId value, uint32_t unit,
               std::set<InstructionId>* ops) const {
    std::vector<InstructionId> stack{value};
    while (!stack.empty()) {
      const InstructionId at = stack.back();
      stack.pop_back();
      if (kept_[index_of_value_[index_of(at)]] || !is_recomputable(at))
        continue;
      const InstructionId op = producer(at);
      if (contains(unit, op) || !ops->insert(op).second) continue;
      const auto& inputs = graph_.inputs[index_of(op)];
      stack.insert(stack.end(), inputs.begin(), inputs.end());
    }
  }

  const Recomputation& plans_;
  const OpGraph& graph_;
  const Schedule& schedule_;
  const uint32_t last_;
  const std::set<UnitKey>& fixed_;
  std::vector<std::vector<uint32_t>> units_of_;  ///< [op] ascending.
  std::vector<InstructionId> values_;            ///< Ascending.
  std::vector<uint32_t> index_of_value_;         ///< [value] in `values_`.
  std::vector<bool> kept_;                       ///< [in `values_`]
};

Recomputation::Recomputation(const OpGraph& graph, const PricedPlan& priced)
    : graph_(graph), base_(priced.plan), place_(graph.role.size(), 0) {
  for (uint32_t i = 0; i < graph.role.size(); ++i)
    key_.push_back(InstructionId{i});
  for (ChosenGroup& group : base_.fusion) {
    std::erase_if(group.ops, [&](InstructionId op) {
      return graph.role_of(op) != OpRole::kKernel &&
             graph.role_of(op) != OpRole::kDot;
    });
    const UnitKey last = *std::max_element(group.ops.begin(), group.ops.end());
    for (const InstructionId op : group.ops) key_[index_of(op)] = last;
  }
  for (uint32_t u = 0; u < priced.schedule.units.size(); ++u) {
    for (const InstructionId op : priced.schedule.units[u].ops)
      place_[index_of(key_of(op))] = u;
  }
}

PlanChoice Recomputation::plan_of(const Recomputed& recomputed) const {
  if (recomputed.empty()) return base_;
  std::map<UnitKey, ChosenGroup> group_of;
  for (const ChosenGroup& group : base_.fusion)
    group_of.emplace(key_of(group.ops.front()), group);
  for (const auto& [unit, ops] : recomputed) {
    ChosenGroup& group =
        group_of.try_emplace(unit, ChosenGroup{.ops = {unit}}).first->second;
    group.ops.insert(group.ops.end(), ops.begin(), ops.end());
    // What writes a value runs it first, so it must be told as a group, too.
    for (const InstructionId op : ops)
      group_of.try_emplace(key_of(op), ChosenGroup{.ops = {op}});
  }
  std::vector<std::pair<uint32_t, ChosenGroup>> placed;
  for (auto& [unit, group] : group_of) {
    std::sort(group.ops.begin(), group.ops.end());
    placed.emplace_back(place_[index_of(unit)], std::move(group));
  }
  std::stable_sort(
      placed.begin(), placed.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  PlanChoice plan = base_;
  plan.order.clear();
  plan.fusion.clear();
  for (auto& [place, group] : placed) plan.fusion.push_back(std::move(group));
  drop_unread(&plan.fusion);
  return plan;
}

/// From the last op to the first, since a reader stands after what it reads.
void Recomputation::drop_unread(std::vector<ChosenGroup>* groups) const {
  std::vector<std::vector<uint32_t>> groups_of(graph_.role.size());
  for (uint32_t g = 0; g < groups->size(); ++g) {
    for (const InstructionId op : (*groups)[g].ops)
      groups_of[index_of(op)].push_back(g);
  }
  for (size_t i = groups_of.size(); i-- > 0;) {
    const std::vector<uint32_t> holders = groups_of[i];
    if (holders.empty()) continue;
    const InstructionId value = graph_.value_of[i];
    const auto& readers = graph_.readers[index_of(value)];
    const auto reads_here = [&](InstructionId reader, uint32_t g) {
      const auto& of_reader = groups_of[index_of(reader)];
      return std::find(of_reader.begin(), of_reader.end(), g) !=
             of_reader.end();
    };
    const auto reads_elsewhere = [&](InstructionId reader) {
      const auto& of_reader = groups_of[index_of(reader)];
      return of_reader.empty() ||
             std::any_of(of_reader.begin(), of_reader.end(), [&](uint32_t g) {
               return std::find(holders.begin(), holders.end(), g) ==
                      holders.end();
             });
    };
    std::erase_if(groups_of[i], [&](uint32_t g) {
      const bool writes =
          g == holders.front() &&
          (graph_.is_output[index_of(value)] ||
           std::any_of(readers.begin(), readers.end(), reads_elsewhere));
      return !writes && std::none_of(readers.begin(), readers.end(),
                                     [&](InstructionId reader) {
                                       return reads_here(reader, g);
                                     });
    });
  }
  for (uint32_t g = 0; g < groups->size(); ++g) {
    std::erase_if((*groups)[g].ops, [&](InstructionId op) {
      const auto& left = groups_of[index_of(op)];
      return std::find(left.begin(), left.end(), g) == left.end();
    });
  }
  std::erase_if(*groups,
                [](const ChosenGroup& group) { return group.ops.empty(); });
}

Recomputed Recomputation::at_fullest_moment(
    const PricedPlan& priced, const Recomputed& recomputed,
    const std::set<UnitKey>& fixed) const {
  Recomputed more = recomputed;
  Moment(*this, priced.schedule, fullest_unit(priced.schedule), fixed)
      .add_recomputed(&more);
  std::erase_if(more, [](const auto& unit) { return unit.second.empty(); });
  return more;
}

}  // namespace reprise

#include "tests/testing/random_plan.h"

#include <algorithm>
#include <random>

#include "data/plan/op_graph.h"
#include "data/plan/unit_graph.h"
#include "data/schedule/schedule_cache.h"

namespace reprise {
namespace {

/// Grows a plan edit by edit; an edit that makes it invalid is taken back.
class PlanMaker {
 public:
  PlanMaker(const InlinedModule& module, uint64_t seed, int64_t ranks)
      : module_(module), random_(seed), plan_(identity_plan(module, ranks)) {
    REPRISE_CHECK(open_cache(module, &cache_).has_value());
    taken_.assign(graph_.role.size(), false);
  }

  Plan make(bool with_order) {
    add_dot_groups();
    add_groups();
    add_buckets();
    if (with_order) add_order();
    REPRISE_CHECK(validate_plan(plan_, module_).has_value());
    return plan_;
  }

 private:
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  /// Ops that read or write what `op` does, for growing a group along the data.
  std::vector<InstructionId> neighbours(InstructionId op) const {
    std::vector<InstructionId> result = graph_.readers[index_of(op)];
    for (InstructionId value : graph_.inputs[index_of(op)]) {
      result.push_back(value);
      const auto& siblings = graph_.readers[index_of(value)];
      result.insert(result.end(), siblings.begin(), siblings.end());
    }
    return result;
  }

  /// About half of the dots take in what they can, or some of it.
  void add_dot_groups() {
    for (uint32_t i = 0; i < graph_.role.size(); ++i) {
      const bool is_dot = graph_.role[i] == OpRole::kDot;
      if (is_dot && below(2) == 0) grow_dot_group(InstructionId{i});
    }
  }

  void grow_dot_group(InstructionId dot) {
    std::vector<InstructionId> ops{dot};
    do {
      const auto epilogue = match_dot_epilogue(graph_, ops);
      const auto& readers = graph_.readers[index_of(epilogue->result)];
      if (readers.size() != 1 || taken_[index_of(readers[0])] ||
          graph_.role_of(readers[0]) != OpRole::kKernel) {
        break;
      }
      ops.push_back(readers[0]);
      if (!match_dot_epilogue(graph_, ops)) {
        ops.pop_back();
        break;
      }
    } while (below(4) != 0);
    if (ops.size() == 1) return;
    FusionGroup group{.unit = fmt::format("f{}", plan_.fusion.size()),
                      .ops = {}};
    for (InstructionId op : ops) group.ops.push_back(graph_.at(op).name);
    plan_.fusion.push_back(std::move(group));
    if (!plan_units(graph_, plan_)) {
      plan_.fusion.pop_back();
      return;
    }
    // Not free for a second group: the product never goes to memory.
    for (InstructionId op : ops) taken_[index_of(op)] = true;
  }

  void add_groups() {
    std::vector<InstructionId> kernels;
    for (uint32_t i = 0; i < graph_.role.size(); ++i) {
      if (graph_.role[i] == OpRole::kKernel)
        kernels.push_back(InstructionId{i});
    }
    if (kernels.empty()) return;
    const size_t attempts = std::min<size_t>(kernels.size() / 3 + 1, 60);
    for (size_t attempt = 0; attempt < attempts; ++attempt) {
      grow_group(kernels[below(kernels.size())]);
    }
  }

  void grow_group(InstructionId seed_op) {
    if (taken_[index_of(seed_op)]) return;
    std::vector<InstructionId> ops{seed_op};
    const size_t goal = 2 + below(12);
    for (size_t step = 0; step < 3 * goal && ops.size() < goal; ++step) {
      const auto near = neighbours(ops[below(ops.size())]);
      if (near.empty()) continue;
      const InstructionId op = near[below(near.size())];
      if (graph_.role_of(op) != OpRole::kKernel || taken_[index_of(op)])
        continue;
      if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
    }
    FusionGroup group{.unit = fmt::format("f{}", plan_.fusion.size()),
                      .ops = {}};
    std::sort(ops.begin(), ops.end());
    for (InstructionId op : ops) group.ops.push_back(graph_.at(op).name);
    plan_.fusion.push_back(std::move(group));
    if (!is_lowerable()) {
      plan_.fusion.pop_back();
      return;
    }
    // Some ops stay free for a second group, which recomputes them.
    for (InstructionId op : ops) taken_[index_of(op)] = below(8) != 0;
  }

  /// True if the plan is valid and its newest group is one kernel.
  bool is_lowerable() {
    const Result<UnitGraph> units = plan_units(graph_, plan_);
    if (!units) return false;
    for (const PlannedUnit& unit : units->units) {
      // A newer group may change what an older one must write.
      const bool grouped = unit.role == OpRole::kKernel && unit.ops.size() > 1;
      if (grouped && !find_kernel(unit, &cache_)) return false;
    }
    return true;
  }

  void add_buckets() {
    std::vector<std::string> names;
    for (const CollectiveSlot& slot : graph_.slots) {
      names.push_back(graph_.slot_count(slot.collective) == 1
                          ? graph_.at(slot.collective).name
                          : fmt::format("{}:{}",
                                        graph_.at(slot.collective).name,
                                        slot.operand));
    }
    std::shuffle(names.begin(), names.end(), random_);
    size_t next = 0;
    while (next < names.size()) {
      const size_t count = std::min(names.size() - next, 1 + below(6));
      Bucket bucket{.unit = fmt::format("b{}", plan_.buckets.size()),
                    .collectives = {
                        names.begin() + static_cast<ptrdiff_t>(next),
                        names.begin() + static_cast<ptrdiff_t>(next + count)}};
      next += count;
      if (below(4) == 0) continue;
      bucket.chunks = 1 + static_cast<int64_t>(below(3));
      plan_.buckets.push_back(bucket);
      if (plan_units(graph_, plan_)) continue;
      plan_.buckets.back().chunks = 1;
      if (!plan_units(graph_, plan_)) plan_.buckets.pop_back();
    }
  }

  void add_order() {
    const Result<UnitGraph> units = plan_units(graph_, plan_);
    REPRISE_CHECK(units.has_value());
    std::vector<uint32_t> waits(units->units.size(), 0), ready;
    std::vector<std::vector<uint32_t>> successors(waits.size());
    for (uint32_t u = 0; u < waits.size(); ++u) {
      waits[u] = static_cast<uint32_t>(units->units[u].predecessors.size());
      for (uint32_t before : units->units[u].predecessors)
        successors[before].push_back(u);
      if (waits[u] == 0) ready.push_back(u);
    }
    while (!ready.empty()) {
      std::swap(ready[below(ready.size())], ready.back());
      const uint32_t u = ready.back();
      ready.pop_back();
      plan_.order.push_back(units->units[u].name);
      for (uint32_t after : successors[u]) {
        if (--waits[after] == 0) ready.push_back(after);
      }
    }
  }

  const InlinedModule& module_;
  std::mt19937_64 random_;
  Plan plan_;
  ScheduleCache cache_;
  const OpGraph& graph_ = cache_.graph;
  std::vector<bool> taken_;
};

}  // namespace

Plan random_valid_plan(const InlinedModule& module, uint64_t seed,
                       int64_t ranks) {
  return PlanMaker(module, seed, ranks).make(seed % 2 == 1);
}

}  // namespace reprise

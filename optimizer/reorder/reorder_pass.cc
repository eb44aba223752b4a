// The order search works on fixed durations, those of the best plan's replay;
// its answer counts only if the replay, in which streams slow each other down,
// agrees that it gains.
#include "optimizer/reorder/reorder_pass.h"

#include <numeric>

#include "optimizer/order/list_schedule.h"
#include "optimizer/order/order_search.h"
#include "optimizer/search/plan_search.h"

namespace reprise {
namespace {

/// An order found by search replaces the plain one only when it gains this
/// share: less is within the noise of any run, and plain orders bear noise
/// better.
constexpr double kLeastGainOfOrder = 5e-4;

/// Two candidates: the list schedule under units' times alone, and the order
/// searched under their times as then replayed.
class ReorderTurn : public Turn {
 public:
  using Turn::Turn;

  Result<bool> propose() override {
    switch (next_++) {
      case 0:
        return list_schedule();
      case 1:
        return search_order_of_best();
      default:
        remember_compute_order();
        return false;
    }
  }

  void apply(PlanChoice* plan) const override { plan->order = order_; }

  bool accept(const PricedPlan& priced) override {
    if (!is_searched_) return true;
    const auto best = static_cast<double>(search_score(search_.best()));
    const auto gain = best - static_cast<double>(search_score(priced));
    return gain > kLeastGainOfOrder * best;
  }

  std::string explain() const override { return "order"; }

 private:
  Result<bool> list_schedule() {
    const PricedPlan& best = search_.best();
    const auto graph = order_graph_of(best.graph, alone_durations(best.priced));
    if (!graph) return pass(graph.error());
    order_ =
        order_of(best.schedule, schedule_by_critical_path(*graph).sequence);
    return true;
  }

  Result<bool> search_order_of_best() {
    const PricedPlan& best = search_.best();
    const auto durations =
        replayed_durations(best.priced, replay_step(best.priced));
    const auto graph = order_graph_of(best.graph, durations);
    if (!graph) return pass(graph.error());
    std::vector<uint32_t> start(best.schedule.units.size());
    std::iota(start.begin(), start.end(), 0U);
    const OptimizeOptions& options = search_.options();
    OrderSearchOptions search{
        .evaluations = options.inner_evaluations / kJointRounds,
        .seed = options.seed,
        .threads = options.threads};
    search.should_stop = [this] { return search_.out_of_time(); };
    const OrderSearchResult found = search_order(*graph, search, &start);
    search_.count_inner(found.evaluations);
    search_.say(fmt::format(
        "order search: {} evaluations, {} windows solved, {} improved{}",
        found.evaluations, found.windows_solved, found.windows_improved,
        found.best.makespan == found.lower_bound
            ? "; the order meets its bound: optimal"
            : ""));
    order_ = order_of(best.schedule, found.best.sequence);
    is_searched_ = true;
    return true;
  }

  /// Compute units of the best plan in its order, for other edits to start
  /// from.
  void remember_compute_order() {
    const PricedPlan& best = search_.best();
    std::vector<UnitRef>& compute = search_.order_rule.compute;
    compute.clear();
    for (const uint32_t unit : best.priced.order.compute)
      compute.push_back(best.schedule.units[unit].ref);
  }

  int next_ = 0;
  bool is_searched_ = false;
  std::vector<UnitRef> order_;
};

class ReorderPass : public Pass {
 public:
  using Pass::Pass;

  Status settle(PlanChoice*) override {
    search_.order_rule.idle_updates = true;
    return {};
  }

  /// Where no pass before leaves orders open, nobody else tries this one.
  Status open(const PricedPlan& start, bool is_first) override {
    if (!is_first) return {};
    auto idle = order_by(search_.order_rule, search_.pricer(), start);
    if (!idle) return pass(idle.error());
    search_.offer(*std::move(idle));
    return {};
  }

  std::unique_ptr<Turn> turn(int index) override {
    if (index > 0 || !search_.has_best()) return nullptr;
    return std::make_unique<ReorderTurn>(search_);
  }
};

}  // namespace

PassEntry reorder_pass() {
  return {.name = "order",
          .summary = "what each stream runs first",
          .make = make_pass<ReorderPass>};
}

}  // namespace reprise

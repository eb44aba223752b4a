#include "optimizer/search/plan_search.h"

namespace reprise {

int64_t search_score(const PricedPlan& plan) {
  const double meetings =
      static_cast<double>(plan.priced.order.communication.size());
  return (plan.step_time_ns + plan.calm_step_time_ns) / 2 +
         static_cast<int64_t>(plan.priced.meeting_ns * meetings);
}

Result<std::unique_ptr<PlanSearch>> PlanSearch::make(
    const InlinedModule& inlined, const CostModel& costs,
    const OptimizeOptions& options, const Measure& measure) {
  std::unique_ptr<PlanSearch> search(new PlanSearch(costs, options, measure));
  auto pricer = PlanPricer::make(inlined, search->costs_);
  if (!pricer) return pass(pricer.error());
  search->pricer_ = *std::move(pricer);
  return search;
}

Result<PricedPlanPtr> PlanSearch::price_open(PlanChoice plan,
                                             const OrderRule& rule) {
  plan.order.clear();
  auto lowered = pricer_->price(std::move(plan));
  if (!lowered) return lowered;
  auto ordered = order_by(rule, *pricer_, **lowered);
  // The order of no rule takes less where much is gathered.
  if (ordered && !fits(**ordered) && fits(**lowered)) return lowered;
  return ordered;
}

bool PlanSearch::fits(const PricedPlan& plan) const {
  return options_.memory_limit_bytes <= 0 ||
         plan.schedule.arena_bytes <= options_.memory_limit_bytes;
}

void PlanSearch::offer(PricedPlanPtr candidate) {
  if (candidate == nullptr) return;
  const int64_t bytes = candidate->schedule.arena_bytes;
  if (least_arena_bytes_ == 0 || bytes < least_arena_bytes_)
    least_arena_bytes_ = bytes;
  if (!fits(*candidate)) return;
  if (best_ == nullptr || search_score(*candidate) < search_score(*best_)) {
    best_ = std::move(candidate);
    searched_.push_back(
        {static_cast<int64_t>(evaluations()), best_->step_time_ns});
  }
}

void PlanSearch::measure(const PlanChoice& plan, const std::string& what) {
  if (options_.should_stop && options_.should_stop()) return;
  const auto before = std::chrono::steady_clock::now();
  Result<CostModel> costs = measure_(name_plan(pricer_->ops(), plan));
  measuring_ += std::chrono::steady_clock::now() - before;
  if (!costs) {
    say(fmt::format("{} not measured: {}", what, costs.error().message));
    return;
  }
  say(fmt::format("{} measured: {} prices, were {}", what, costs->units.size(),
                  costs_.units.size()));
  costs_ = *std::move(costs);
}

bool PlanSearch::out_of_time() const {
  if (options_.should_stop && options_.should_stop()) return true;
  tell_progress();
  return options_.time_limit && spent() >= share_;
}

double PlanSearch::spent() const {
  if (!options_.time_limit) return 0;
  const auto searching = std::chrono::steady_clock::now() - begin_ - measuring_;
  return std::chrono::duration<double>(searching) /
         std::chrono::duration<double>(*options_.time_limit);
}

void PlanSearch::tell_progress() const {
  if (!options_.watch) return;
  options_.watch({.what = "searching",
                  .share = options_.time_limit ? spent() : done_,
                  .count = static_cast<double>(evaluations()),
                  .unit = "plans"});
}

double PlanSearch::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                       begin_)
      .count();
}

}  // namespace reprise

#include "optimizer/optimize.h"

#include <algorithm>
#include <limits>
#include <map>

#include "data/schedule/called_buckets.h"
#include "optimizer/baselines/baselines.h"
#include "optimizer/pricing/least_speedup.h"
#include "optimizer/pricing/step_bound.h"
#include "optimizer/search/plan_search.h"

namespace reprise {
namespace {

double milliseconds(int64_t time_ns) {
  return static_cast<double>(time_ns) / 1e6;
}

class Optimizer {
 public:
  Optimizer(std::unique_ptr<PlanSearch> search, const Plan& recorded,
            const std::vector<PassEntry>& passes)
      : search_(std::move(search)), recorded_(recorded), entries_(passes) {}

  Result<OptimizeResult> run();

 private:
  struct ActivePass {
    const PassEntry* entry = nullptr;
    std::unique_ptr<Pass> pass;
  };

  Status choose_passes();
  Status settle();
  Status measure_baselines();
  Status price_baselines();
  Status price_recorded();
  Status add_rival(std::string_view name, PricedPlanPtr rival);
  Status price_start();
  Status take_turns();
  Status take(Turn& turn);
  bool is_found_worth_it();
  Status finish();

  std::unique_ptr<PlanSearch> search_;
  const Plan& recorded_;
  const std::vector<PassEntry>& entries_;
  std::vector<ActivePass> active_;
  bool has_all_passes_ = true;
  PlanChoice recorded_choice_;
  std::map<std::string, int64_t> baselines_;
  /// The fastest of those that fit: the baselines, the recorded plan.
  PricedPlanPtr rival_;
  std::string rival_name_;
  OptimizeResult result_;
};

Status Optimizer::choose_passes() {
  const std::vector<std::string>& only = search_->options().only;
  for (const std::string& name : only) {
    const bool known =
        std::any_of(entries_.begin(), entries_.end(),
                    [&](const PassEntry& entry) { return entry.name == name; });
    if (!known)
      return fail(ErrorKind::kInvalid, "the optimizer has no pass '{}'", name);
  }
  for (const PassEntry& entry : entries_) {
    const bool asked =
        std::find(only.begin(), only.end(), entry.name) != only.end();
    if (asked || (only.empty() && !entry.on_request)) {
      active_.push_back({&entry, entry.make(*search_)});
    } else if (!entry.on_request) {
      has_all_passes_ = false;
    }
  }
  return {};
}

/// The plan that turns start from: the recorded one but for what passes settle.
Status Optimizer::settle() {
  Result<PlanChoice> recorded = bind_plan(search_->pricer().ops(), recorded_);
  if (!recorded) return pass(recorded.error());
  recorded_choice_ = *std::move(recorded);
  PlanChoice start = recorded_choice_;
  for (const ActivePass& active : active_) {
    if (Status ok = active.pass->settle(&start); !ok) return ok;
    if (active.entry->edits_units) start.order.clear();
  }
  search_->start = std::move(start);
  return {};
}

/// Units that only baselines have: measured before any baseline is priced, so
/// that all are priced alike.
Status Optimizer::measure_baselines() {
  if (!search_->can_measure()) return {};
  for (const std::string& name : baseline_names()) {
    const auto baseline = make_baseline(search_->pricer(), recorded_.ranks,
                                        name, search_->start.fusion);
    if (!baseline) return pass(baseline.error(), "baseline " + name);
    if (!has_unknown_prices(**baseline, search_->costs())) continue;
    search_->measure((*baseline)->plan, "baseline " + name);
  }
  return {};
}

Status Optimizer::add_rival(std::string_view name, PricedPlanPtr rival) {
  if (!search_->fits(*rival)) return {};
  if (rival_ == nullptr || rival->step_time_ns < rival_->step_time_ns) {
    auto again = search_->pricer().price(rival->plan);
    if (!again) return pass(again.error());
    rival_ = *std::move(again);
    rival_name_ = name;
  }
  search_->offer(std::move(rival));
  return {};
}

Status Optimizer::price_baselines() {
  for (const std::string& name : baseline_names()) {
    auto baseline = make_baseline(search_->pricer(), recorded_.ranks, name,
                                  search_->start.fusion);
    if (!baseline) return pass(baseline.error(), "baseline " + name);
    const int64_t time_ns = (*baseline)->step_time_ns;
    baselines_[name] = time_ns;
    search_->say(
        fmt::format("baseline {}: {:.3f} ms", name, milliseconds(time_ns)));
    if (!has_all_passes_) continue;
    if (Status ok = add_rival(name, *std::move(baseline)); !ok) return ok;
  }
  return {};
}

/// What was recorded may lie outside of what the search reaches.
Status Optimizer::price_recorded() {
  if (has_all_passes_ &&
      recorded_choice_ == PlanChoice{.ranks = recorded_.ranks}) {
    return {};  // It is the baseline `none`.
  }
  auto recorded = search_->pricer().price(recorded_choice_);
  if (!recorded) return pass(recorded.error());
  search_->say(fmt::format("recorded plan: {:.3f} ms",
                           milliseconds((*recorded)->step_time_ns)));
  return add_rival("the recorded plan", *std::move(recorded));
}

Status Optimizer::price_start() {
  auto start = search_->pricer().price(search_->start);
  if (!start) return pass(start.error());
  bool is_first = true;
  for (const ActivePass& active : active_) {
    Status ok = active.pass->open(**start, is_first);
    if (!ok) return ok;
    is_first = is_first && !active.entry->takes_turns;
  }
  search_->offer(*std::move(start));
  return {};
}

Status Optimizer::take(Turn& turn) {
  while (!search_->out_of_time()) {
    const Result<bool> proposed = turn.propose();
    if (!proposed) return pass(proposed.error());
    if (!*proposed) break;
    PlanChoice plan =
        search_->has_best() ? search_->best().plan : search_->start;
    turn.apply(&plan);
    auto priced = turn.price(std::move(plan));
    if (!priced) return pass(priced.error());
    if (turn.accept(**priced)) search_->offer(*std::move(priced));
  }
  if (!search_->has_best()) return {};
  const PricedPlan& best = search_->best();
  search_->say(fmt::format("{}: {:.3f} ms, {} buckets", turn.explain(),
                           milliseconds(best.step_time_ns),
                           best.plan.buckets.size()));
  return {};
}

/// The passes in turns, on what the others found, as long as that helps.
Status Optimizer::take_turns() {
  const auto turns = static_cast<double>(std::count_if(
      active_.begin(), active_.end(),
      [](const ActivePass& active) { return active.entry->takes_turns; }));
  int64_t last = std::numeric_limits<int64_t>::max();
  for (uint64_t round = 0; round < kJointRounds; ++round) {
    auto share = static_cast<double>(round);
    for (const ActivePass& active : active_) {
      if (!active.entry->takes_turns) continue;
      share += 1 / turns;
      search_->set_share(share / kJointRounds);
      for (int index = 0; !search_->out_of_time(); ++index) {
        const std::unique_ptr<Turn> turn = active.pass->turn(index);
        if (turn == nullptr) break;
        if (Status ok = take(*turn); !ok) return ok;
      }
    }
    search_->set_share(1);
    if (search_->out_of_time() || !search_->has_best()) break;
    if (search_->best().step_time_ns >= last) break;
    last = search_->best().step_time_ns;
  }
  return {};
}

/// Whether the best plan found gains enough over the fastest rival.
bool Optimizer::is_found_worth_it() {
  if (rival_ == nullptr) return true;
  const auto speedup = static_cast<double>(rival_->step_time_ns) /
                       static_cast<double>(search_->best().step_time_ns);
  if (speedup >= kLeastSpeedup) return true;
  search_->say(fmt::format("found {:.3f}x as fast as {}, below {}x: {} kept",
                           speedup, rival_name_, kLeastSpeedup, rival_name_));
  return false;
}

Status Optimizer::finish() {
  if (!search_->has_best()) {
    return fail(ErrorKind::kInfeasible,
                "no plan fits into {} bytes: the smallest that was tried "
                "takes {}",
                search_->options().memory_limit_bytes,
                search_->least_arena_bytes());
  }
  const bool is_found = is_found_worth_it();
  const PricedPlan& best = is_found ? search_->best() : *rival_;
  const auto bound = step_lower_bound(search_->pricer(), best);
  if (!bound) return pass(bound.error());
  PlanPrediction predicted;
  predicted.step_time_ns = best.step_time_ns;
  predicted.baselines = baselines_;
  predicted.lower_bound_ns = *bound;
  REPRISE_CHECK(*bound <= best.step_time_ns);  // Else it bounds nothing.
  if (predicted.lower_bound_ns > 0) {
    predicted.gap =
        static_cast<double>(best.step_time_ns - predicted.lower_bound_ns) /
        static_cast<double>(predicted.lower_bound_ns);
  }
  result_.evaluations = search_->evaluations();
  result_.arena_bytes = best.schedule.arena_bytes;
  result_.plan = name_plan(search_->pricer().ops(), best.plan);
  result_.plan.called = joined_in(best.schedule);
  result_.plan.device = recorded_.device;
  result_.plan.seed = search_->options().seed;
  result_.plan.evaluations = static_cast<int64_t>(result_.evaluations);
  result_.plan.searched = search_->searched();
  search_->say(
      fmt::format("plan: {:.3f} ms, bound {:.3f} ms, gap {:.1f} % "
                  "(the bound holds for all buckets and orders under "
                  "this plan's fusion and these prices)",
                  milliseconds(predicted.step_time_ns),
                  milliseconds(predicted.lower_bound_ns), 100 * predicted.gap));
  search_->say(
      fmt::format("memory: {} bytes for what a step of the plan computes, {} "
                  "of the plan that takes least",
                  best.schedule.arena_bytes, search_->least_arena_bytes()));
  result_.plan.predicted = std::move(predicted);
  return {};
}

Result<OptimizeResult> Optimizer::run() {
  for (const auto stage :
       {&Optimizer::choose_passes, &Optimizer::settle,
        &Optimizer::measure_baselines, &Optimizer::price_baselines,
        &Optimizer::price_recorded, &Optimizer::price_start,
        &Optimizer::take_turns, &Optimizer::finish}) {
    const Status ok = (this->*stage)();
    if (!ok) return pass(ok.error());
  }
  result_.log = search_->log();
  result_.seconds = search_->seconds();
  return std::move(result_);
}

}  // namespace

Result<OptimizeResult> optimize(const InlinedModule& inlined,
                                const Plan& recorded, const CostModel& costs,
                                const OptimizeOptions& options,
                                const Measure& measure,
                                const std::vector<PassEntry>& passes) {
  auto search = PlanSearch::make(inlined, costs, options, measure);
  if (!search) return pass(search.error());
  return Optimizer(*std::move(search), recorded, passes).run();
}

}  // namespace reprise

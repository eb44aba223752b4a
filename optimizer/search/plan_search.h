// What the passes of one search share: prices, the best plan so far, the clock
// and the log.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "optimizer/pricing/order_rule.h"
#include "optimizer/search/search_options.h"

namespace reprise {

/// Turns that each pass takes, on what the others found: options' evaluations
/// are spread over them.
constexpr uint64_t kJointRounds = 3;

/// What the search minimises: the mean of the step time with and without mutual
/// slow-down, which is the least certain of all prices (a plan must not give up
/// overlap for it), plus CostModel::meeting_ns for every collective, so that of
/// nearly equal plans the one of fewer meetings wins.
int64_t search_score(const PricedPlan& plan);

/// One thread at a time. The module, options and callback must outlive it.
class PlanSearch {
 public:
  static Result<std::unique_ptr<PlanSearch>> make(
      const InlinedModule& inlined, const CostModel& costs,
      const OptimizeOptions& options, const Measure& measure);

  const OptimizeOptions& options() const { return options_; }
  PlanPricer& pricer() { return *pricer_; }
  const CostModel& costs() const { return costs_; }

  /// The plan that all turns start from.
  PlanChoice start;
  /// Orders plans whose order is open.
  OrderRule order_rule;
  /// A plan whose order is void, in that of the rule.
  Result<PricedPlanPtr> price_open(PlanChoice plan, const OrderRule& rule);

  /// Takes a plan as a candidate; the one of lower score stays.
  void offer(PricedPlanPtr candidate);
  bool fits(const PricedPlan& plan) const;
  bool has_best() const { return best_ != nullptr; }
  const PricedPlan& best() const { return *best_; }
  /// Of all that was offered, the least memory; 0 where nothing was.
  int64_t least_arena_bytes() const { return least_arena_bytes_; }
  /// The plans that were the best one, in order.
  const std::vector<SearchedPlan>& searched() const { return searched_; }

  bool can_measure() const { return measure_ != nullptr; }
  /// Learns prices from a run of the plan, if that succeeds.
  void measure(const PlanChoice& plan, const std::string& what);

  /// By its time limit or the caller's wish the search must end, or the share
  /// of the limit that may be spent by now is. Who asks, works: the watcher is
  /// told how far the search is.
  bool out_of_time() const;
  void set_share(double share) {
    if (share_ < 1) done_ = share_;
    share_ = share;
  }

  /// Adds a line to the log, which is for people.
  void say(std::string line) { log_.push_back(std::move(line)); }
  const std::vector<std::string>& log() const { return log_; }

  /// Of inner models, for the count in the plan file.
  void count_inner(uint64_t evaluations) { inner_evaluations_ += evaluations; }
  uint64_t evaluations() const {
    return pricer_->evaluations() + inner_evaluations_;
  }
  double seconds() const;

 private:
  void tell_progress() const;
  /// Of the time limit, measuring left out; 0 without one.
  double spent() const;
  PlanSearch(const CostModel& costs, const OptimizeOptions& options,
             const Measure& measure)
      : options_(options), measure_(measure), costs_(costs) {}

  const OptimizeOptions& options_;
  const Measure& measure_;
  CostModel costs_;  ///< Learns.
  std::unique_ptr<PlanPricer> pricer_;
  PricedPlanPtr best_;
  int64_t least_arena_bytes_ = 0;
  std::vector<SearchedPlan> searched_;
  const std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration measuring_{};
  /// Of the turns: what those before this one take, and up to which this one
  /// may.
  double done_ = 0, share_ = 1;
  uint64_t inner_evaluations_ = 0;
  std::vector<std::string> log_;
};

}  // namespace reprise

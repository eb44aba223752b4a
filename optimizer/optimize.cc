#include "optimizer/optimize.h"

#include <algorithm>
#include <limits>
#include <map>

#include "data/hlo/hlo.h"
#include "optimizer/baselines/baselines.h"
#include "optimizer/fusion/fusion.h"
#include "optimizer/plan_search.h"
#include "optimizer/pricing/step_bound.h"

namespace reprise {
namespace {

/// Turns of buckets and order, each on what the other found.
constexpr uint64_t kJointRounds = 3;
/// Dots take in epilogues only for a step shorter than this share of the one
/// without: the two are measured in runs that differ by noise (a step predicted
/// 1.5 % shorter ran 2.5 % longer; GPT, two ranks on one host).
constexpr double kLeastOfEpilogues = 0.97;
/// A plan found by search must be predicted faster than its rivals by this
/// factor: being the least of hundreds of predictions, its own errs low. Over
/// 20 rounds on each of four shapes (tests/loop/accept.py) predicted gains of
/// 9, 5, 3 and 1 % over horovod+fusion ran as 6, 2, 1 and -5 %.
constexpr double kLeastSpeedup = 1.03;
/// Most dots have no epilogue, so what splitting leaves unknown is little.
constexpr int kEpilogueRounds = 2;

int64_t dots_with_epilogue(const Schedule& schedule) {
  return std::count_if(
      schedule.units.begin(), schedule.units.end(), [](const Unit& unit) {
        return unit.kind == UnitKind::kLibrary && !unit.dot.is_plain();
      });
}

class Optimizer {
 public:
  Optimizer(const InlinedModule& inlined, const Plan& recorded,
            const CostModel& costs, const OptimizeOptions& options,
            const Measure& measure)
      : module_(inlined),
        recorded_(recorded),
        options_(options),
        measure_(measure),
        costs_(costs) {}

  Result<OptimizeResult> run();

 private:
  bool out_of_time() const;
  bool has_all_moves() const {
    return options_.fusion && options_.buckets && options_.order;
  }
  void say(std::string line) { result_.log.push_back(std::move(line)); }
  Plan base_plan() const;
  Status choose_fusion();
  void measure_plan(const Plan& plan, const char* what);
  bool has_unknown_prices(const PricedPlan& plan) const;
  Status measure_fusion(const FusionTree& tree);
  Status try_dot_epilogues();
  Status measure_baselines();
  Status add_rival(std::string_view name, PricedPlanPtr rival);
  Status price_baselines();
  Status price_recorded();
  Status search();
  Status take_turns(const Plan& start);
  bool is_found_worth_it();
  Status finish();

  const InlinedModule& module_;
  const Plan& recorded_;
  const OptimizeOptions& options_;
  const Measure& measure_;
  CostModel costs_;  ///< Learns.
  const std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration measuring_{};
  double share_ = 1;  ///< Of the time limit, that may be spent by now.
  std::unique_ptr<PlanPricer> pricer_;
  std::vector<FusionGroup> fusion_;
  std::map<std::string, int64_t> baselines_;
  /// The fastest of those that fit: the baselines, the recorded plan.
  PricedPlanPtr rival_;
  std::string rival_name_;
  std::unique_ptr<PlanSearch> search_;
  OptimizeResult result_;
};

bool Optimizer::out_of_time() const {
  if (options_.should_stop && options_.should_stop()) return true;
  if (!options_.time_limit) return false;
  const auto searching = std::chrono::steady_clock::now() - begin_ - measuring_;
  return std::chrono::duration<double>(searching) >=
         share_ * std::chrono::duration<double>(*options_.time_limit);
}

Plan Optimizer::base_plan() const {
  Plan plan = identity_plan(module_, recorded_.ranks);
  plan.device = recorded_.device;
  plan.fusion = fusion_;
  return plan;
}

void Optimizer::measure_plan(const Plan& plan, const char* what) {
  const auto start = std::chrono::steady_clock::now();
  Result<CostModel> costs = measure_(plan);
  measuring_ += std::chrono::steady_clock::now() - start;
  if (!costs) {
    say(fmt::format("{} not measured: {}", what, costs.error().message));
    return;
  }
  say(fmt::format("{} measured: {} prices, were {}", what, costs->units.size(),
                  costs_.units.size()));
  costs_ = *std::move(costs);
}

bool Optimizer::has_unknown_prices(const PricedPlan& plan) const {
  const auto& units = plan.schedule.units;
  return std::any_of(units.begin(), units.end(), [&](const Unit& unit) {
    const bool computes =
        unit.kind == UnitKind::kKernel || unit.kind == UnitKind::kLibrary;
    return computes && !costs_.units.contains(unit.key);
  });
}

Status Optimizer::measure_fusion(const FusionTree& tree) {
  if (!measure_) return {};
  for (int round = 0; round < options_.measure_rounds && !out_of_time();
       ++round) {
    auto priced = pricer_->price(base_plan());
    if (!priced) return pass(priced.error());
    if (!has_unknown_prices(**priced)) break;
    measure_plan((*priced)->plan, "fused units");
    fusion_ = tree.choose(costs_);
    say(fmt::format("fusion by measured prices: {} groups", fusion_.size()));
  }
  return {};
}

Status Optimizer::choose_fusion() {
  if (!options_.fusion) {
    fusion_ = recorded_.fusion;
    return {};
  }
  const auto tree = FusionTree::build(pricer_->cache(), costs_, {});
  if (!tree) return pass(tree.error());
  fusion_ = tree->choose(costs_);
  if (Status ok = measure_fusion(*tree); !ok) return ok;
  fusion_ = tree->choose(costs_, UnknownPrices::kLikeTheirWhole);
  if (Status ok = try_dot_epilogues(); !ok) return ok;
  say(fmt::format("fusion: {} groups", fusion_.size()));
  return {};
}

/// Takes a fusion in which dots have epilogues where all of its units have
/// known prices and its step is predicted to be clearly shorter.
Status Optimizer::try_dot_epilogues() {
  const auto tree =
      FusionTree::build(pricer_->cache(), costs_, {.dot_epilogues = true});
  if (!tree) return pass(tree.error());
  Plan plan = base_plan();
  plan.fusion = tree->choose(costs_);
  auto priced = pricer_->price(plan);
  if (!priced) return pass(priced.error());
  if (dots_with_epilogue((*priced)->schedule) == 0) return {};
  const int rounds = std::min(options_.measure_rounds, kEpilogueRounds);
  for (int round = 0; measure_ && round < rounds && !out_of_time() &&
                      has_unknown_prices(**priced);
       ++round) {
    measure_plan(plan, "dots with epilogues");
    plan.fusion = tree->choose(costs_, UnknownPrices::kLikeTheirWhole);
    priced = pricer_->price(plan);
    if (!priced) return pass(priced.error());
  }
  const auto without = pricer_->price(base_plan());
  if (!without) return pass(without.error());
  const int64_t dots = dots_with_epilogue((*priced)->schedule);
  const bool taken =
      dots > 0 && !has_unknown_prices(**priced) &&
      static_cast<double>((*priced)->step_time_ns) <
          kLeastOfEpilogues * static_cast<double>((*without)->step_time_ns);
  say(fmt::format("{} dots with epilogues: {:.3f} ms, without {:.3f} ms{}",
                  dots, static_cast<double>((*priced)->step_time_ns) / 1e6,
                  static_cast<double>((*without)->step_time_ns) / 1e6,
                  taken ? "" : ", left alone"));
  if (taken) fusion_ = plan.fusion;
  return {};
}

/// Units that only baselines have: measured before any baseline is priced, so
/// that all are priced alike.
Status Optimizer::measure_baselines() {
  if (!measure_) return {};
  for (const std::string& name : baseline_names()) {
    const auto baseline =
        make_baseline(*pricer_, recorded_.ranks, name, fusion_);
    if (!baseline) return pass(baseline.error(), "baseline " + name);
    if (!has_unknown_prices(**baseline)) continue;
    measure_plan((*baseline)->plan, ("baseline " + name).c_str());
  }
  return {};
}

Status Optimizer::add_rival(std::string_view name, PricedPlanPtr rival) {
  if (!search_->fits(*rival)) return {};
  if (rival_ == nullptr || rival->step_time_ns < rival_->step_time_ns) {
    auto again = pricer_->price(rival->plan);
    if (!again) return pass(again.error());
    rival_ = *std::move(again);
    rival_name_ = name;
  }
  search_->offer(std::move(rival));
  return {};
}

Status Optimizer::price_baselines() {
  for (const std::string& name : baseline_names()) {
    auto baseline = make_baseline(*pricer_, recorded_.ranks, name, fusion_);
    if (!baseline) return pass(baseline.error(), "baseline " + name);
    const int64_t time_ns = (*baseline)->step_time_ns;
    baselines_[name] = time_ns;
    say(fmt::format("baseline {}: {:.3f} ms", name,
                    static_cast<double>(time_ns) / 1e6));
    if (!has_all_moves()) continue;
    if (Status ok = add_rival(name, *std::move(baseline)); !ok) return ok;
  }
  return {};
}

/// What was recorded may lie outside of what the search reaches.
Status Optimizer::price_recorded() {
  if (has_all_moves() && recorded_.fusion.empty() &&
      recorded_.buckets.empty() && recorded_.order.empty()) {
    return {};  // It is the baseline `none`.
  }
  auto recorded = pricer_->price(recorded_);
  if (!recorded) return pass(recorded.error());
  say(fmt::format("recorded plan: {:.3f} ms",
                  static_cast<double>((*recorded)->step_time_ns) / 1e6));
  return add_rival("the recorded plan", *std::move(recorded));
}

Status Optimizer::search() {
  Plan start = base_plan();
  if (!options_.buckets) start.buckets = recorded_.buckets;
  if (!options_.fusion && !options_.buckets) start.order = recorded_.order;
  auto as_recorded = pricer_->price(start);
  if (!as_recorded) return pass(as_recorded.error());
  if (!options_.buckets && options_.order) {
    auto idle = order_with_idle_updates(*pricer_, **as_recorded);
    if (!idle) return pass(idle.error());
    search_->offer(std::move(*idle));
  }
  search_->offer(std::move(*as_recorded));
  return take_turns(start);
}

Status Optimizer::take_turns(const Plan& start) {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (uint64_t round = 0; round < kJointRounds; ++round) {
    const auto spent = static_cast<double>(round) / kJointRounds;
    if (options_.buckets) {
      share_ = spent + 0.5 / kJointRounds;
      Status ok = search_->solve_buckets_by_replay(start);
      if (ok) ok = search_->refine_buckets(options_.evaluations / kJointRounds);
      if (!ok) return ok;
    }
    if (options_.order) {
      share_ = spent + 1.0 / kJointRounds;
      Status ok =
          search_->refine_order(options_.order_evaluations / kJointRounds);
      if (!ok) return ok;
    }
    share_ = 1;
    if (out_of_time() || !search_->has_best()) break;
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
  say(fmt::format("found {:.3f}x as fast as {}, below {}x: {} kept", speedup,
                  rival_name_, kLeastSpeedup, rival_name_));
  return false;
}

Status Optimizer::finish() {
  if (!search_->has_best()) {
    return fail(ErrorKind::kInfeasible, "no plan fits into {} bytes",
                options_.memory_limit_bytes);
  }
  for (const std::string& line : search_->log()) say(line);
  const bool is_found = is_found_worth_it();
  const PricedPlan& best = is_found ? search_->best() : *rival_;
  const auto bound = step_lower_bound(*pricer_, best);
  if (!bound) return pass(bound.error());
  result_.plan = best.plan;
  result_.plan.device = recorded_.device;
  PlanPrediction predicted;
  predicted.step_time_ns = best.step_time_ns;
  predicted.baselines = baselines_;
  predicted.lower_bound_ns = std::min(*bound, best.step_time_ns);
  if (predicted.lower_bound_ns > 0) {
    predicted.gap =
        static_cast<double>(best.step_time_ns - predicted.lower_bound_ns) /
        static_cast<double>(predicted.lower_bound_ns);
  }
  result_.plan.predicted = predicted;
  result_.evaluations = pricer_->evaluations() + search_->order_evaluations();
  result_.plan.seed = options_.seed;
  result_.plan.evaluations = static_cast<int64_t>(result_.evaluations);
  say(fmt::format("plan: {:.3f} ms, bound {:.3f} ms, gap {:.1f} %",
                  static_cast<double>(predicted.step_time_ns) / 1e6,
                  static_cast<double>(predicted.lower_bound_ns) / 1e6,
                  100 * predicted.gap));
  return {};
}

Result<OptimizeResult> Optimizer::run() {
  auto pricer = PlanPricer::make(module_, costs_);
  if (!pricer) return pass(pricer.error());
  pricer_ = *std::move(pricer);
  search_ = std::make_unique<PlanSearch>(*pricer_, options_,
                                         [this] { return out_of_time(); });
  if (Status ok = choose_fusion(); !ok) return pass(ok.error());
  if (Status ok = measure_baselines(); !ok) return pass(ok.error());
  if (Status ok = price_baselines(); !ok) return pass(ok.error());
  if (Status ok = price_recorded(); !ok) return pass(ok.error());
  if (Status ok = search(); !ok) return pass(ok.error());
  if (Status ok = finish(); !ok) return pass(ok.error());
  result_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_)
          .count();
  return std::move(result_);
}

}  // namespace

Result<OptimizeResult> optimize(const InlinedModule& inlined,
                                const Plan& recorded, const CostModel& costs,
                                const OptimizeOptions& options,
                                const Measure& measure) {
  return Optimizer(inlined, recorded, costs, options, measure).run();
}

Result<Plan> baseline_plan(
    std::string_view name, const InlinedModule& inlined, int64_t ranks,
    const CostModel& costs,
    const std::optional<std::vector<FusionGroup>>& fusion) {
  auto pricer = PlanPricer::make(inlined, costs);
  if (!pricer) return pass(pricer.error());
  std::vector<FusionGroup> groups = fusion.value_or(std::vector<FusionGroup>());
  if (!fusion && name.find("+fusion") != std::string_view::npos) {
    const auto tree = FusionTree::build((*pricer)->cache(), costs, {});
    if (!tree) return pass(tree.error());
    groups = tree->choose(costs, UnknownPrices::kLikeTheirWhole);
  }
  auto baseline = make_baseline(**pricer, ranks, name, groups);
  if (!baseline) return pass(baseline.error());
  Plan plan = (*baseline)->plan;
  plan.predicted.emplace();
  plan.predicted->step_time_ns = (*baseline)->step_time_ns;
  return plan;
}

}  // namespace reprise

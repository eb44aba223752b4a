#include "optimizer/plan_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <unordered_map>

#include "optimizer/order/list_schedule.h"
#include "optimizer/order/order_search.h"

namespace reprise {
namespace {

/// Of dynamic program and replay; it settles in two or three.
constexpr int kMaxRounds = 6;
/// What a search adds for every collective of a plan: each makes ranks meet, so
/// noise on either one delays both, which replay, without noise, cannot show.
/// Half of the wait typical of a collective on two emulated hosts (0.1 ms).
constexpr int64_t kMeeting_ns = 50'000;
/// Edits of borders without progress after which local search ends.
constexpr int kIdleEdits = 200;
/// An order found by search replaces the plain one only when it gains this
/// share: less is within the noise of any run, and plain orders bear noise
/// better.
constexpr double kLeastGainOfOrder = 5e-4;

/// Borders that `plan`'s buckets draw over the gradients, if its buckets are
/// runs of them.
std::vector<size_t> borders_of(const Gradients& gradients, const Plan& plan) {
  std::map<std::string, size_t> bucket_of;
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    for (const std::string& name : plan.buckets[b].collectives)
      bucket_of[name] = b + 1;
  }
  std::vector<size_t> borders;
  for (size_t i = 0; i < gradients.list.size(); ++i) {
    const size_t here = bucket_of[gradients.list[i].name];
    const bool last = i + 1 == gradients.list.size();
    const bool together =
        !last && here != 0 && bucket_of[gradients.list[i + 1].name] == here &&
        gradients.list[i + 1].figures.key == gradients.list[i].figures.key;
    if (!together) borders.push_back(i + 1);
  }
  return borders;
}

/// One random edit: a border moves, goes or comes. Nothing when it would be
/// illegal.
std::vector<size_t> edit_borders(const Gradients& gradients,
                                 std::vector<size_t> borders,
                                 std::mt19937_64& random) {
  const size_t count = gradients.list.size();
  const auto must_cut = [&](size_t at) {
    return gradients.list[at].figures.key != gradients.list[at - 1].figures.key;
  };
  const uint64_t kind = random() % 3;
  if (kind == 2 || borders.size() < 2) {
    borders.push_back(1 + random() % (count - 1));
  } else {
    const size_t chosen = random() % (borders.size() - 1);
    if (must_cut(borders[chosen])) return {};
    const int64_t reach = static_cast<int64_t>(std::max<size_t>(1, count / 16));
    const auto step =
        static_cast<int64_t>(random() % static_cast<uint64_t>(2 * reach + 1)) -
        reach;
    const int64_t moved = static_cast<int64_t>(borders[chosen]) + step;
    borders.erase(borders.begin() + static_cast<int64_t>(chosen));
    if (kind == 1 && moved > 0 && moved < static_cast<int64_t>(count)) {
      borders.push_back(static_cast<size_t>(moved));
    }
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

}  // namespace

Result<PricedPlanPtr> order_with_idle_updates(
    PlanPricer& pricer, const PricedPlan& plan,
    const std::vector<std::string>& compute_order) {
  const auto graph = order_graph_of(plan.graph, alone_durations(plan.priced));
  if (!graph) return pass(graph.error());
  // Higher first: early units by their place in the order, late ones after all
  // of them by who is ready first, which the list scheduler decides (equal
  // priorities, ids in text order).
  const std::vector<uint32_t> eager = eager_order(plan.graph);
  const auto count = static_cast<int64_t>(eager.size());
  std::unordered_map<std::string_view, int64_t> place_of;
  for (const std::string& name : compute_order) {
    place_of.emplace(name, static_cast<int64_t>(place_of.size()));
  }
  std::vector<int64_t> priority(eager.size(), 0);
  for (int64_t place = 0; place < count; ++place) {
    const uint32_t unit = eager[static_cast<size_t>(place)];
    if (!plan.graph.is_early[unit]) continue;
    const auto found = place_of.find(plan.schedule.units[unit].name);
    priority[unit] =
        2 * count - (found == place_of.end() ? place : found->second);
  }
  ListScheduler scheduler(*graph);
  scheduler.run(priority, std::numeric_limits<int64_t>::max());
  return pricer.reorder(plan, scheduler.solution().sequence);
}

int64_t search_score(const PricedPlan& plan) {
  return (plan.step_time_ns + plan.calm_step_time_ns) / 2 +
         kMeeting_ns *
             static_cast<int64_t>(plan.priced.order.communication.size());
}

bool PlanSearch::fits(const PricedPlan& plan) const {
  return options_.memory_limit_bytes <= 0 ||
         plan.schedule.arena_bytes <= options_.memory_limit_bytes;
}

void PlanSearch::offer(PricedPlanPtr candidate) {
  if (candidate == nullptr || !fits(*candidate)) return;
  if (best_ == nullptr || search_score(*candidate) < search_score(*best_)) {
    best_ = std::move(candidate);
  }
}

void PlanSearch::note(const std::string& stage) {
  if (best_ == nullptr) return;
  log_.push_back(fmt::format("{}: {:.3f} ms, {} buckets", stage,
                             static_cast<double>(best_->step_time_ns) / 1e6,
                             best_->plan.buckets.size()));
}

Result<PricedPlanPtr> PlanSearch::with_borders(
    const Plan& plan, const Gradients& gradients,
    const std::vector<size_t>& borders) {
  Plan bucketed = plan;
  bucketed.order.clear();
  bucketed.buckets = buckets_of(gradients, borders);
  auto lowered = pricer_.price(std::move(bucketed));
  if (!lowered) return lowered;
  return options_.order
             ? order_with_idle_updates(pricer_, **lowered, compute_order_)
             : pricer_.reorder(**lowered, eager_order((*lowered)->graph));
}

Status PlanSearch::solve_buckets_by_replay(Plan start) {
  start.order.clear();
  start.buckets.clear();
  auto current = pricer_.price(start);
  if (!current) return pass(current.error());
  current = compute_order_.empty()
                ? pricer_.reorder(**current, eager_order((*current)->graph))
                : order_with_idle_updates(pricer_, **current, compute_order_);
  if (!current) return pass(current.error());
  int64_t last = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < kMaxRounds && !out_of_time_(); ++round) {
    const Gradients gradients = gradients_of(pricer_, **current);
    if (gradients.list.empty()) break;
    BucketProgram program = bucket_program_of(gradients, pricer_.costs());
    program.price_ns = [price_ns = std::move(program.price_ns)](int64_t bytes,
                                                                uint32_t key) {
      return price_ns(bytes, key) + kMeeting_ns;
    };
    auto next = with_borders(start, gradients, solve_buckets(program).borders);
    if (!next) return pass(next.error());
    const int64_t time = search_score(**next);
    offer(std::move(*current));
    current = std::move(next);
    if (time >= last) break;
    last = time;
  }
  offer(std::move(*current));
  note("buckets by dynamic program");
  return {};
}

Status PlanSearch::refine_buckets(uint64_t evaluations) {
  if (best_ == nullptr) return {};
  const Gradients gradients = gradients_of(pricer_, *best_);
  if (gradients.list.size() < 2) return {};
  std::mt19937_64 random(options_.seed + pricer_.evaluations());
  std::vector<size_t> borders = borders_of(gradients, best_->plan);
  const Plan base = best_->plan;
  int64_t best_time = std::numeric_limits<int64_t>::max();
  const uint64_t end = pricer_.evaluations() + evaluations;
  std::vector<size_t> trial = borders;
  for (int idle = 0;
       idle < kIdleEdits && pricer_.evaluations() < end && !out_of_time_();
       ++idle) {
    auto candidate = with_borders(base, gradients, trial);
    if (!candidate) return pass(candidate.error());
    if (search_score(**candidate) <= best_time && fits(**candidate)) {
      if (search_score(**candidate) < best_time) idle = 0;
      best_time = search_score(**candidate);
      borders = trial;
    }
    offer(std::move(*candidate));
    do {
      trial = edit_borders(gradients, borders, random);
    } while (trial.empty());
  }
  note("buckets by local search");
  return {};
}

/// Compute units of the best plan in its order, for other buckets to start
/// from.
void PlanSearch::remember_order() {
  compute_order_.clear();
  for (const uint32_t unit : best_->priced.order.compute) {
    compute_order_.push_back(best_->schedule.units[unit].name);
  }
}

Status PlanSearch::refine_order(uint64_t evaluations) {
  if (best_ == nullptr || out_of_time_()) return {};
  const auto alone =
      order_graph_of(best_->graph, alone_durations(best_->priced));
  if (!alone) return pass(alone.error());
  auto listed =
      pricer_.reorder(*best_, schedule_by_critical_path(*alone).sequence);
  if (!listed) return pass(listed.error());
  offer(std::move(*listed));
  const auto durations =
      replayed_durations(best_->priced, replay_step(best_->priced));
  const auto graph = order_graph_of(best_->graph, durations);
  if (!graph) return pass(graph.error());
  std::vector<uint32_t> start(best_->schedule.units.size());
  for (uint32_t unit = 0; unit < start.size(); ++unit) start[unit] = unit;
  OrderSearchOptions search{.evaluations = evaluations,
                            .seed = options_.seed,
                            .threads = options_.threads};
  search.should_stop = out_of_time_;
  const OrderSearchResult found = search_order(*graph, search, &start);
  order_evaluations_ += found.evaluations;
  log_.push_back(fmt::format(
      "order search: {} evaluations, {} windows solved, {} improved",
      found.evaluations, found.windows_solved, found.windows_improved));
  auto searched = pricer_.reorder(*best_, found.best.sequence);
  if (!searched) return pass(searched.error());
  const auto gain =
      static_cast<double>(search_score(*best_) - search_score(**searched));
  if (gain > kLeastGainOfOrder * static_cast<double>(search_score(*best_))) {
    offer(std::move(*searched));
  }
  remember_order();
  note("order");
  return {};
}

}  // namespace reprise

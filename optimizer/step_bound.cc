#include "optimizer/step_bound.h"

#include <algorithm>
#include <cmath>

#include "data/plan/unit_graph.h"
#include "optimizer/order/order_bounds.h"

namespace reprise {
namespace {

/// Sizes sampled below the first measured point, per doubling.
constexpr double kSamplesPerDoubling = 8;

/// Least time per byte of any bucket, or chunk of one, of up to `most` bytes.
/// Between measured points prices are powers of the size, beyond them lines, so
/// the rate is monotone in each piece and its least value is at an end of one;
/// below the first point the price has kinks, which samples bracket.
template <typename Rate>
double best_rate(const CollectivePrice& price, double most, Rate rate) {
  double best = rate(most);
  for (const auto& [bytes, time_ns] : price.points) {
    if (bytes < most) best = std::min(best, rate(bytes));
  }
  const double first =
      price.points.empty() ? most : std::min(most, price.points.front().first);
  const double step = std::exp2(1 / kSamplesPerDoubling);
  for (double bytes = kAlignmentBytes; bytes < first; bytes *= step) {
    best = std::min(best, rate(bytes));
  }
  return best;
}

struct RelaxedDurations {
  std::vector<double> at_floor, sustained;
  bool all_gradients = true;
};

RelaxedDurations relax(const PricedPlan& single, const CostModel& costs) {
  RelaxedDurations durations{alone_durations(single.priced), {}};
  durations.sustained = durations.at_floor;
  double total = 0;
  for (const Unit& unit : single.schedule.units) {
    if (unit.kind != UnitKind::kCollective) continue;
    total += static_cast<double>(align_up(unit.collective.bytes));
  }
  for (size_t u = 0; u < single.schedule.units.size(); ++u) {
    const Unit& unit = single.schedule.units[u];
    if (unit.kind != UnitKind::kCollective) continue;
    durations.all_gradients =
        durations.all_gradients && single.graph.is_gradient[u];
    durations.at_floor[u] = durations.sustained[u] = 0;
    const CollectivePrice* price = costs.find_collective(unit);
    const auto bytes = static_cast<double>(unit.collective.bytes);
    if (price == nullptr || bytes <= 0) continue;
    if (!single.graph.is_gradient[u]) {
      durations.at_floor[u] = price->floor_ns(bytes);
      durations.sustained[u] = price->price_ns(bytes);
      continue;
    }
    durations.at_floor[u] = bytes * best_rate(*price, total, [&](double size) {
                              return price->floor_ns(size) / size;
                            });
    durations.sustained[u] = bytes * best_rate(*price, total, [&](double size) {
                               return price->price_ns(size) / size;
                             });
  }
  return durations;
}

/// Order durations are rounded down, so the bound stays one.
Result<int64_t> bound_of(const StepGraph& graph,
                         const std::vector<double>& durations) {
  const auto order = order_graph_of(graph, durations);
  if (!order) return pass(order.error());
  return set_bound(*order) * kOrderUnit_ns;
}

}  // namespace

Result<int64_t> step_lower_bound(PlanPricer& pricer, const PricedPlan& plan) {
  Plan unbucketed = plan.plan;
  unbucketed.buckets.clear();
  unbucketed.order.clear();
  const auto single = pricer.price(std::move(unbucketed));
  if (!single) return pass(single.error());
  const RelaxedDurations durations = relax(**single, pricer.costs());
  auto bound = bound_of((*single)->graph, durations.at_floor);
  if (!bound) return bound;
  const PricedSchedule& priced = (*single)->priced;
  if (priced.burst_ns > 0 && durations.all_gradients) {
    const auto sustained = bound_of((*single)->graph, durations.sustained);
    if (!sustained) return sustained;
    *bound = std::max(
        *bound, *sustained - static_cast<int64_t>(std::ceil(priced.burst_ns)));
  }
  const double around =
      std::max(0.0, priced.feed_ns) + std::max(0.0, priced.step_overhead_ns);
  return *bound + static_cast<int64_t>(around);
}

}  // namespace reprise

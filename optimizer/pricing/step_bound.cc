// The bound relaxes a plan's step in three ways and takes the largest.
//
// - Collectives that may share a bucket unbucketed, each at the best rate that
//   any bucket gets: an ordering problem whose set bound (order_bounds.h) holds
//   for all buckets and orders.
// - A link with burst credit: the same at the sustained rate, less one credit.
// - Mutual slow-down: what overlaps is paid for, by the share of both streams
//   that can overlap at all (contention_bound).
#include "optimizer/pricing/step_bound.h"

#include <algorithm>
#include <cmath>

#include "data/plan/unit_graph.h"
#include "optimizer/order/order_bounds.h"

namespace reprise {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
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

bool is_alike(const CollectiveSpec& a, const CollectiveSpec& b) {
  return a.kind == b.kind && a.reduction == b.reduction && a.type == b.type &&
         a.groups == b.groups;
}

/// Which collectives may share a bucket with another: those for which one alike
/// neither waits for them nor they for it.
std::vector<bool> may_share(const PricedPlan& plan) {
  using Bits = std::vector<bool>;
  const size_t units = plan.schedule.units.size();
  std::vector<uint32_t> collectives;
  std::vector<bool> shares(units);
  std::vector<Bits> waits_for(units);     ///< [unit][place in collectives]
  for (uint32_t u = 0; u < units; ++u) {  // They stand in a topological order.
    Bits& mine = waits_for[u];
    mine.resize(collectives.size());
    for (const uint32_t before : plan.graph.before[u]) {
      const Bits& others = waits_for[before];
      for (size_t c = 0; c < others.size(); ++c) {
        if (others[c]) mine[c] = true;
      }
    }
    const Unit& unit = plan.schedule.units[u];
    if (unit.kind != UnitKind::kCollective) continue;
    for (size_t c = 0; c < collectives.size(); ++c) {
      const Unit& other = plan.schedule.units[collectives[c]];
      if (mine[c] || !facts_of(unit.collective.kind).shares_buckets ||
          !is_alike(unit.collective, other.collective))
        continue;
      shares[u] = shares[collectives[c]] = true;
    }
    mine.push_back(true);
    collectives.push_back(u);
  }
  return shares;
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
  const std::vector<bool> shares = may_share(single);
  for (size_t u = 0; u < single.schedule.units.size(); ++u) {
    const Unit& unit = single.schedule.units[u];
    if (unit.kind != UnitKind::kCollective) continue;
    durations.all_gradients =
        durations.all_gradients && single.graph.is_gradient[u];
    durations.at_floor[u] = durations.sustained[u] = 0;
    const CollectivePrice* price = costs.find_collective(unit);
    const auto bytes = static_cast<double>(unit.collective.bytes);
    if (price == nullptr || bytes <= 0) continue;
    if (!single.graph.is_gradient[u] && !shares[u]) {
      durations.at_floor[u] = price->floor_ns(bytes);
      durations.sustained[u] = price->price_ns(bytes);
      continue;
    }
    durations.at_floor[u] = bytes * best_rate(*price, total, [&](double size) {
                              return price->floor_ns(size) / size;
                            });
    // While a price above the wire's own time passes, the link earns credit
    // that the next transfer spends: in the long run bytes pass at the rate of
    // the wire, if that is faster.
    const double wire_ns_per_byte =
        price->bandwidth_bytes_per_s > 0
            ? kNanosecondsPerSecond / price->bandwidth_bytes_per_s
            : 0;
    const double price_ns_per_byte = best_rate(*price, total, [&](double size) {
      return price->price_ns(size) / size;
    });
    durations.sustained[u] =
        bytes * std::min(price_ns_per_byte, wire_ns_per_byte);
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

/// Two streams that slow each other down cannot hide each other fully. With K
/// compute and C communication alone, and o the time both run: compute takes
/// K + o (1 - 1/s_k), communication likewise, so
///   T >= K + C - e o,  e = 1/s_k + 1/s_c - 1,
/// where o <= min(K s_k, C s_c), and o <= T - h - q: no communication is ready
/// before h, and after its last end q is left.
double contention_bound(const PricedPlan& single,
                        const std::vector<double>& durations) {
  double compute = 0, transfer = 0, compute_slowdown = 1e9,
         transfer_slowdown = 1e9;
  std::vector<double> head(durations.size(), 0), tail(durations.size(), 0);
  double first = 1e18, last = 1e18;
  for (size_t u = 0; u < durations.size(); ++u) {
    for (const uint32_t before : single.graph.before[u]) {
      head[u] = std::max(head[u], head[before] + durations[before]);
    }
    const bool is_compute = single.schedule.units[u].stream == Stream::kCompute;
    (is_compute ? compute : transfer) += durations[u];
    double& slowdown = is_compute ? compute_slowdown : transfer_slowdown;
    slowdown = std::min(slowdown, std::max(1.0, single.priced.slowdown[u]));
    if (!is_compute) first = std::min(first, head[u]);
  }
  for (size_t u = durations.size(); u-- > 0;) {
    for (const uint32_t next : single.graph.after[u]) {
      tail[u] = std::max(tail[u], tail[next] + durations[next]);
    }
    if (single.schedule.units[u].stream == Stream::kCommunication) {
      last = std::min(last, tail[u]);
    }
  }
  if (transfer <= 0 || compute <= 0) return compute + transfer;
  const double hidden = 1 / compute_slowdown + 1 / transfer_slowdown - 1;
  if (hidden <= 0) return compute + transfer;  // Overlap gains nothing.
  const double most =
      std::min(compute * compute_slowdown, transfer * transfer_slowdown);
  return std::max(
      compute + transfer - hidden * most,
      (compute + transfer + hidden * (first + last)) / (1 + hidden));
}

}  // namespace

Result<int64_t> step_lower_bound(PlanPricer& pricer, const PricedPlan& plan) {
  PlanChoice unbucketed = plan.plan;
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
  *bound = std::max(*bound, static_cast<int64_t>(contention_bound(
                                **single, durations.at_floor)));
  const double around =
      std::max(0.0, priced.feed_ns) + std::max(0.0, priced.step_overhead_ns);
  return *bound + static_cast<int64_t>(around);
}

}  // namespace reprise

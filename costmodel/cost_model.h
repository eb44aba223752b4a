// The price of everything in a schedule, fitted from a trace: units by
// structural key, collectives by bytes, and how much compute and communication
// slow each other down when they overlap on a rank.
//
// Times inside cost formulas are doubles in nanoseconds, rounded once by
// replay.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

constexpr double kNanosecondsPerSecond = 1e9;

/// CostModel::meeting_ns where no recording tells. Source: half of the wait
/// typical of a Gloo all-reduce of two emulated hosts on two cores (0.1 ms).
constexpr double kDefaultMeeting_ns = 50'000;

/// Where a price came from, in order of trust.
enum class PriceSource : uint8_t { kMeasured, kCalibrated, kModelled };

/// Time of one unit when no collective runs beside it.
struct UnitPrice {
  double alone_ns = 0;
  /// Half-width: standard error of the samples, or the residual.
  double uncertainty_ns = 0;
  PriceSource source = PriceSource::kModelled;
};

/// Transfer time (last arrival to mean end) of a collective on a sustained
/// link: latency_ns + bytes / bandwidth, times what the trace's own points ask
/// beyond it, piecewise linear in log(bytes)–log(ratio). A link that shapes
/// by tokens (a switch's or tbf's burst) passes up to `burst_bytes` above the
/// sustained rate after it was idle: each byte of credit saves 1 / bandwidth,
/// but no collective is faster than latency_ns + bytes / peak_bandwidth.
struct CollectivePrice {
  double latency_ns = 0;
  double bandwidth_bytes_per_s = 0;
  /// (bytes, ns), ascending bytes.
  std::vector<std::pair<double, double>> points = {};
  double burst_bytes = 0;
  double peak_bandwidth_bytes_per_s = 0;  ///< 0: no faster than bandwidth.
  /// Of latency_ns and of every point: transfers clipped at four times what is
  /// typical of their size, the rest spread over all, as waiting for a core.
  double preempted_ns = 0;
  double residual = 0;  ///< Mean relative error of the fit.
  PriceSource source = PriceSource::kModelled;
  /// On an idle host, without credit. Requires: bytes >= 0.
  double price_ns(double bytes) const;
  /// The least time that credit can bring it down to.
  double floor_ns(double bytes) const;
};

/// Slow-down factors (>= 1) while the other stream of the rank is busy; copies
/// count as kernels.
struct Contention {
  double library = 1, kernel = 1;  ///< Compute units, by kind.
  double collective = 1;           ///< Collectives while compute runs.
  /// By how much longer than the mean rank the one takes, beside transfers,
  /// that they slow most; the others wait for it. Compute units only.
  double slowest = 1;
  /// No run told: default_contention's.
  bool compute_is_assumed = false, collective_is_assumed = false;
};

/// Roofline: overhead_ns + max(flops / flops_per_s, bytes / bytes_per_s).
struct Roofline {
  double flops_per_s = 0, bytes_per_s = 0;
  double overhead_ns = 0;
  double residual = 0;  ///< Mean relative error on the units it was fitted on.
  double price_ns(double flops, double bytes) const;
};

struct CostModel {
  std::map<std::string, UnitPrice> units;  ///< By structural key.
  /// By collective_key, "all-reduce/f32/2".
  std::map<std::string, CollectivePrice> collectives;
  Contention contention;
  /// Roofline for units never measured, and for library units where `library`
  /// was fitted (flops_per_s > 0).
  double flops_per_s = 0, bytes_per_s = 0;
  double unit_overhead_ns = 0;
  double roofline_residual = 0;  ///< Mean relative error of the roofline.
  Roofline library;
  /// [instruction] By how much longer than the roofline an op takes wherever it
  /// is computed, by units that were it alone: calls of a library for each
  /// element, strides that miss the caches. Others are not in it.
  std::map<uint32_t, double> slow_ops_ns;
  double dispatch_ns = 0;  ///< Gap between consecutive compute units.
  double feed_ns = 0;      ///< Filling the batch, once a step.
  /// From the end of a collective to the unit that waited for it.
  double compute_wake_ns = 0;
  /// From the end of a unit to the collective, on an idle stream, that waited,
  /// with what the last of the ranks is late by however short they were apart.
  double communication_wake_ns = 0;
  /// From the end of a collective to the last arrival at the next one when both
  /// are queued: dispatch, and ranks that did not leave together.
  double communication_gap_ns = 0;
  /// Ranks that computed for t since they last waited for each other come apart
  /// by noise: the last is later than their mean by jitter * sqrt(t) (both in
  /// nanoseconds), which everyone pays when they meet again.
  double jitter_sqrt_ns = 0;
  /// What a search adds for every collective of a plan: each makes ranks meet,
  /// and by how much their waits there vary from step to step is what replay,
  /// without noise, cannot show.
  double meeting_ns = kDefaultMeeting_ns;
  bool meeting_is_measured = false;
  /// A step: recorded gaps that nothing above accounts for.
  double unexplained_ns = 0;
  /// A step: from the last unit's end to the step's end.
  double step_overhead_ns = 0;

  /// Prices a compute unit: by key, else by roofline and its slow ops. Cost:
  /// O(log units) an op.
  UnitPrice price(const Unit& unit) const;
  /// The entry for a collective unit: its own key, else, where ranks meet in
  /// it, another of the same kind in which they do, else any such, else null.
  const CollectivePrice* find_collective(const Unit& unit) const;
  /// How far the price of a collective unit is to be trusted: its entry's
  /// source, but kModelled where another key's entry stands in or the size is
  /// not between recorded ones.
  PriceSource collective_source(const Unit& unit) const;
};

/// Why collectives of the schedule are modelled, a sentence for each key, and
/// what is not told of those inside loops and branches.
std::vector<std::string> modelled_collectives(const Schedule& schedule,
                                              const CostModel& costs);

/// What of a schedule's prices no recording told, a sentence each: units that
/// were never measured, and slow-downs.
std::vector<std::string> assumed_prices(const Schedule& schedule,
                                        const CostModel& costs);

/// Key of a collective's price: "all-reduce/f32/2" (kind, type, size of a
/// group).
std::string collective_key(const CollectiveSpec& collective);
/// The contention factor of a unit's kind on the mean rank.
double contention_of(const Contention& contention, const Unit& unit);

}  // namespace reprise

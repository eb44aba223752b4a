// The price of everything in a schedule, fitted from a trace: units by structural
// key, collectives by bytes, and how much compute and communication slow each
// other down when they overlap on a rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

/// Where a price came from, in order of trust.
enum class PriceSource : uint8_t { kMeasured, kCalibrated, kModelled };

/// Time of one unit when no collective runs beside it.
struct UnitPrice {
  double alone_ns = 0;
  double uncertainty_ns = 0;
  PriceSource source = PriceSource::kModelled;
};

/// Transfer time of a collective: piecewise-linear in log(bytes)–log(time) through the trace's
/// own points, extrapolated by latency_ns + bytes / bandwidth.
struct CollectivePrice {
  double latency_ns = 0;
  double bandwidth_bytes_per_s = 0;
  std::vector<std::pair<double, double>> points;   ///< (bytes, ns), ascending bytes.
  double price_ns(double bytes) const;
};

/// Slow-down factors (>= 1) while the other stream of the rank is busy.
struct Contention {
  double library = 1, kernel = 1;   ///< Compute units, by kind.
  double collective = 1;            ///< Collectives while compute runs.
};

struct CostModel {
  std::map<std::string, UnitPrice> units;          ///< By structural key.
  std::map<std::string, CollectivePrice> collectives;  ///< By "all-reduce/f32/2".
  Contention contention;
  double flops_per_s = 0, bytes_per_s = 0;         ///< Roofline for units never measured …
  double unit_overhead_ns = 0;                     ///< … with this much for launching one.
  double dispatch_ns = 0;                          ///< Gap between consecutive compute units.
  double feed_ns = 0;                              ///< Filling the batch, once a step.
  double roofline_residual = 0;                    ///< Mean relative error of the roofline.

  /// Prices a compute unit: by key, else by roofline. Cost: O(log units).
  UnitPrice price(const Unit& unit) const;
  /// Transfer time of a collective unit alone.
  double price_collective(const Unit& unit) const;
};

}  // namespace reprise

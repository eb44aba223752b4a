// Probing buckets take shares of the bytes that double from 3 % on, so that
// their sizes spread over the range in which plans choose. A measured size is
// kept as its ratio to the price of the recorded run: that holds when the
// machine's pace has changed since.
#include "costmodel/large_transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "costmodel/fit_collectives.h"
#include "costmodel/recorded_steps.h"
#include "data/median.h"

namespace reprise {
namespace {

std::string prefix_of(const std::string& key) { return "size/" + key + "/"; }

// Bytes of a measurement of `prefix`, nothing for any other.
std::optional<double> bytes_of(const Measurement& measurement,
                               std::string_view prefix) {
  const std::string_view key = measurement.key;
  if (measurement.context != kSizeContext || !key.starts_with(prefix)) {
    return std::nullopt;
  }
  int64_t bytes = 0;
  const char* end = key.data() + key.size();
  const auto read = std::from_chars(key.data() + prefix.size(), end, bytes);
  if (read.ec != std::errc() || read.ptr != end || bytes <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(bytes);
}

}  // namespace

std::vector<Bucket> probing_buckets(const Schedule& schedule) {
  constexpr double kShares[] = {0.03, 0.07, 0.15,
                                1};  // The last: what is left.
  const std::vector<bool> waits = waits_for_collective(schedule);
  std::vector<const Unit*> found;
  int64_t bytes = 0;
  std::string key;
  for (size_t index = 0; index < schedule.units.size(); ++index) {
    const Unit& unit = schedule.units[index];
    if (unit.kind != UnitKind::kCollective || waits[index]) continue;
    if (unit.collective.bucket >= 0) return {};
    if (key.empty()) key = collective_key(unit.collective);
    if (collective_key(unit.collective) != key) continue;
    found.push_back(&unit);
    bytes += unit.collective.bytes;
  }
  std::vector<Bucket> buckets;
  size_t next = 0;
  for (const double share : kShares) {
    Bucket bucket;
    bucket.unit = fmt::format("b{}", buckets.size());
    int64_t filled = 0;
    while (next < found.size() &&
           static_cast<double>(filled) < share * static_cast<double>(bytes)) {
      filled += found[next]->collective.bytes;
      bucket.collectives.push_back(found[next++]->name);
    }
    if (bucket.collectives.size() > 1) buckets.push_back(std::move(bucket));
  }
  return buckets;
}

std::vector<std::string> apart_order(const Schedule& schedule) {
  const std::vector<bool> waits = waits_for_collective(schedule);
  std::vector<std::string> parts[3];
  for (size_t index = 0; index < schedule.units.size(); ++index) {
    const Unit& unit = schedule.units[index];
    if (unit.kind == UnitKind::kCopy) continue;  // Placed by lowering.
    const size_t early = unit.kind == UnitKind::kCollective ? 1 : 0;
    parts[waits[index] ? 2 : early].push_back(unit.name);
  }
  std::vector<std::string> order;
  for (std::vector<std::string>& part : parts) {
    order.insert(order.end(), part.begin(), part.end());
  }
  return order;
}

Result<bool> has_burst_credit(const RecordedRun& recorded) {
  Result<std::vector<RecordedStep>> steps =
      recorded_steps(recorded.trace, recorded.schedule);
  if (!steps) return pass(steps.error());
  const TransfersByKey transfers =
      collect_transfers(middle_steps(*std::move(steps)), recorded.schedule);
  return std::any_of(transfers.begin(), transfers.end(), [](const auto& entry) {
    return fit_collective(entry.second).price.burst_bytes > 0;
  });
}

Result<std::vector<Measurement>> size_measurements(const RecordedRun& recorded,
                                                   const RecordedRun& probed) {
  Result<std::vector<RecordedStep>> base =
      recorded_steps(recorded.trace, recorded.schedule);
  if (!base) return pass(base.error());
  const Result<std::vector<RecordedStep>> sizes =
      recorded_steps(probed.trace, probed.schedule);
  if (!sizes) return pass(sizes.error());
  const TransfersByKey known =
      collect_transfers(middle_steps(*std::move(base)), recorded.schedule);
  std::vector<Measurement> result;
  for (const auto& [key, samples] :
       collect_transfers(*sizes, probed.schedule)) {
    const auto found = known.find(key);
    if (found == known.end()) continue;
    const CollectivePrice price = fit_collective(found->second).price;
    std::map<int64_t, std::vector<double>> by_bytes;
    for (const TransferSample& sample : samples) {
      by_bytes[std::llround(sample.bytes)].push_back(sample.duration_ns);
    }
    for (const auto& [bytes, durations] : by_bytes) {
      const double expected_ns = price.price_ns(static_cast<double>(bytes));
      const double ratio = median(durations) / expected_ns;
      result.push_back({.key = fmt::format("{}{}", prefix_of(key), bytes),
                        .unit = fmt::format("{} of {} bytes", key, bytes),
                        .context = kSizeContext,
                        .median_ns = std::llround(ratio * kMillion),
                        .samples = static_cast<int64_t>(durations.size())});
    }
  }
  return result;
}

void add_measured_sizes(std::span<const Measurement> measurements,
                        const std::string& key, CollectivePrice& price) {
  constexpr double kBeyond = 1.1, kFar = 16;
  if (price.burst_bytes > 0) return;
  const double from = price.points.empty() ? 0 : price.points.back().first;
  const std::string prefix = prefix_of(key);
  std::map<double, double> points;  // Later measurements replace earlier ones.
  for (const Measurement& each : measurements) {
    const std::optional<double> bytes = bytes_of(each, prefix);
    if (!bytes || *bytes < kBeyond * from) continue;
    const double ratio = static_cast<double>(each.median_ns) / kMillion;
    points[*bytes] = price.price_ns(*bytes) * ratio;
  }
  if (!points.empty()) {
    const auto [bytes, time_ns] = *points.rbegin();
    points[kFar * bytes] =
        price.price_ns(kFar * bytes) * time_ns / price.price_ns(bytes);
  }
  for (const auto& [bytes, time_ns] : points) {
    if (!price.points.empty() && time_ns <= price.points.back().second)
      continue;
    price.points.emplace_back(bytes, time_ns);
  }
}

}  // namespace reprise

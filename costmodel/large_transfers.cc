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
#include <tuple>
#include <utility>

#include "costmodel/fit_collectives.h"
#include "costmodel/recorded_steps.h"
#include "data/median.h"
#include "data/schedule/dependencies.h"

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

/// What may share a bucket.
using Joined =
    std::tuple<std::string, Reduction, std::vector<std::vector<int64_t>>>;

/// Collectives that wait for equally many others, so for none of each other.
struct Peers {
  std::vector<const Unit*> units;
  int64_t bytes = 0;
};

/// Adds buckets of growing sizes over them.
void add_buckets(const Peers& peers, std::vector<Bucket>& buckets) {
  constexpr double kShares[] = {0.03, 0.07, 0.15,
                                1};  // The last: what is left.
  size_t next = 0;
  for (const double share : kShares) {
    Bucket bucket;
    bucket.unit = fmt::format("b{}", buckets.size());
    int64_t filled = 0;
    while (next < peers.units.size() &&
           static_cast<double>(filled) <
               share * static_cast<double>(peers.bytes)) {
      filled += peers.units[next]->collective.bytes;
      bucket.collectives.push_back(peers.units[next++]->name);
    }
    if (bucket.collectives.size() > 1) buckets.push_back(std::move(bucket));
  }
}

}  // namespace

std::vector<Bucket> probing_buckets(const Schedule& schedule) {
  const std::vector<uint32_t> before = collectives_before(schedule);
  // By what may be joined, then by how many others they wait for.
  std::map<Joined, std::map<uint32_t, Peers>> found;
  for (size_t index = 0; index < schedule.units.size(); ++index) {
    const Unit& unit = schedule.units[index];
    if (unit.kind != UnitKind::kCollective ||
        !facts_of(unit.collective.kind).shares_buckets)
      continue;
    if (unit.collective.bucket >= 0) return {};
    Peers& peers =
        found[{collective_key(unit.collective), unit.collective.reduction,
               unit.collective.groups}][before[index]];
    peers.units.push_back(&unit);
    peers.bytes += unit.collective.bytes;
  }
  std::vector<Bucket> buckets;
  for (const auto& [_, by_depth] : found) {
    const auto most = std::ranges::max_element(
        by_depth, {}, [](const auto& entry) { return entry.second.bytes; });
    add_buckets(most->second, buckets);
  }
  return buckets;
}

std::vector<std::string> apart_order(const Schedule& schedule) {
  const std::vector<uint32_t> before = collectives_before(schedule);
  std::map<std::pair<uint32_t, bool>, std::vector<std::string>> parts;
  for (size_t index = 0; index < schedule.units.size(); ++index) {
    const Unit& unit = schedule.units[index];
    if (unit.kind == UnitKind::kCopy) continue;  // Placed by lowering.
    parts[{before[index], unit.kind == UnitKind::kCollective}].push_back(
        unit.name);
  }
  std::vector<std::string> order;
  for (const auto& [_, part] : parts)
    order.insert(order.end(), part.begin(), part.end());
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
                                                   const RecordedRun& probed,
                                                   double slowdown) {
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
      const double alone = 1 - sample.beside * (1 - 1 / slowdown);
      by_bytes[std::llround(sample.bytes)].push_back(sample.duration_ns *
                                                     alone);
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

// Fits the timeline's model from a recording: what compute would take alone,
// what a transfer costs, and how much they slow each other down.
#include <algorithm>
#include <cmath>
#include <limits>

#include "data/median.h"
#include "data/trace/intervals.h"
#include "optimizer/ddp/ddp_recording.h"

namespace reprise {
namespace {

// Slow-downs beside each other where a trace hardly tells: sockets need the
// host's cores, a network card and a device's copy engines much less.
constexpr double kHostSlowdown = 1.1, kDeviceSlowdown = 1.03;

/// Whether runs are of one size, which repeats to 5 %, by mean deviation.
bool alike(const std::vector<double>& runs) {
  constexpr double kAlike = 0.1;
  const double middle = median(runs);
  double apart = 0;
  for (const double each : runs) apart += std::abs(each - middle);
  return apart <= kAlike * middle * static_cast<double>(runs.size());
}

/// The runs of compute that tell how much transfers slow it. Kernels are known
/// by their names alone, and one name runs on many sizes: those whose runs
/// beside no transfer differ among themselves, or those beside one all along,
/// tell nothing.
std::map<std::string, ContentionKey> telling(const DdpRecording& recording) {
  if (recording.host_only) return recording.compute;
  std::map<std::string, ContentionKey> told;
  for (const auto& [name, key] : recording.compute) {
    std::vector<double> alone, beside;
    for (const ContentionSample& each : key.samples) {
      if (each.beside_ns <= 0) alone.push_back(each.duration_ns);
      if (each.beside_ns >= each.duration_ns)
        beside.push_back(each.duration_ns);
    }
    if (alone.size() < 2 || !alike(alone)) continue;
    if (beside.empty() || alike(beside)) told.emplace(name, key);
  }
  return told;
}

/// When backward was done on all ranks, from which on the step only waits.
int64_t backward_end_ns(const DdpStep& step) {
  int64_t end_ns = step.start_ns;
  for (const auto& ready : step.ready_ns)
    end_ns = std::max(end_ns, ready.back());
  return end_ns;
}

/// Transfers in flight together share the wire: they count as one of their
/// bytes together.
std::vector<DdpTransfer> joined(const std::vector<DdpTransfer>& transfers) {
  std::vector<DdpTransfer> all;
  for (const DdpTransfer& each : transfers) {
    if (all.empty() || each.arrival_ns >= all.back().end_ns) {
      all.push_back(each);
      continue;
    }
    all.back().bytes += each.bytes;
    all.back().end_ns = std::max(all.back().end_ns, each.end_ns);
  }
  return all;
}

std::vector<TransferSample> samples_of(const DdpRecording& recording) {
  std::vector<TransferSample> samples;
  for (const DdpStep& step : recording.steps) {
    const int64_t computed_ns = backward_end_ns(step);
    int64_t last_end_ns = step.start_ns;
    for (const DdpTransfer& each : joined(step.transfers)) {
      const int64_t duration_ns = each.end_ns - each.arrival_ns;
      if (duration_ns <= 0) continue;
      const int64_t beside_ns =
          std::clamp<int64_t>(computed_ns - each.arrival_ns, 0, duration_ns);
      TransferSample sample;
      sample.step = step.step;
      sample.bytes = static_cast<double>(each.bytes);
      sample.duration_ns = static_cast<double>(duration_ns);
      sample.beside =
          static_cast<double>(beside_ns) / static_cast<double>(duration_ns);
      sample.idle_ns = static_cast<double>(
          std::max<int64_t>(0, each.arrival_ns - last_end_ns));
      samples.push_back(sample);
      last_end_ns = each.end_ns;
    }
  }
  return samples;
}

/// The median time of a collective without payload, 0 if none was recorded.
double barrier_ns(const DdpRecording& recording) {
  std::vector<int64_t> all;
  for (const DdpStep& step : recording.steps) {
    all.insert(all.end(), step.barrier_ns.begin(), step.barrier_ns.end());
  }
  return static_cast<double>(median(std::move(all)));
}

/// Few sizes hardly tell latency from bandwidth; collectives without payload
/// do. Each transfer gets one beside it, as that is what weighs.
void add_empty_transfers(double latency_ns,
                         std::vector<TransferSample>& samples) {
  if (latency_ns <= 0) return;
  std::vector<TransferSample> all;
  double total_ns = 0;
  for (const TransferSample& each : samples) total_ns += each.duration_ns;
  constexpr double kShare = 0.1;  // Of the weight, which is time.
  constexpr double kMost = 1000;
  const auto count = static_cast<size_t>(
      std::clamp(kShare * total_ns / latency_ns, 1.0, kMost));
  for (size_t i = 0; i < count; ++i) {
    TransferSample empty;
    empty.step = std::numeric_limits<int32_t>::max();
    empty.duration_ns = latency_ns;
    empty.idle_ns = 0;
    samples.push_back(empty);
  }
}

void fit_price(const DdpRecording& recording, DdpModel& model) {
  std::vector<TransferSample> samples = samples_of(recording);
  if (samples.empty()) return;
  add_empty_transfers(barrier_ns(recording), samples);
  const CollectiveFit fit = fit_collective(std::move(samples));
  model.price = fit.price;
  model.collective_slowdown = fit.slowdown;
}

/// The user's points: latency from the smallest, the rate from the largest two.
CollectivePrice price_of(const std::vector<std::pair<double, double>>& points) {
  CollectivePrice price;
  price.points = points;
  std::sort(price.points.begin(), price.points.end());
  price.source = PriceSource::kMeasured;
  price.latency_ns = price.points.front().second;
  const auto& last = price.points.back();
  const auto& before =
      price.points[price.points.size() > 1 ? price.points.size() - 2 : 0];
  const double bytes = last.first - before.first;
  const double time_ns = last.second - before.second;
  price.bandwidth_bytes_per_s = bytes > 0 && time_ns > 0
                                    ? 1e9 * bytes / time_ns
                                    : 1e9 * last.first / last.second;
  return price;
}

/// When each gradient would be ready on the last rank, from the step's start,
/// if nothing were in flight beside compute.
std::vector<double> ready_alone(const DdpStep& step, double slowdown) {
  std::vector<Interval> flights;
  for (const DdpTransfer& each : step.transfers) {
    flights.push_back({each.arrival_ns, each.end_ns});
  }
  const IntervalSet in_flight(std::move(flights));
  std::vector<double> latest(step.ready_ns.front().size(), 0);
  for (const std::vector<int64_t>& ready : step.ready_ns) {
    for (size_t i = 0; i < ready.size(); ++i) {
      const auto time_ns = static_cast<double>(ready[i] - step.start_ns);
      const auto beside_ns = static_cast<double>(
          in_flight.length_within_ns(step.start_ns, ready[i]));
      latest[i] = std::max(latest[i], alone_ns(time_ns, beside_ns, slowdown));
    }
  }
  return latest;
}

void fit_compute(const DdpRecording& recording, DdpModel& model) {
  model.ready_ns.assign(model.gradients.size(), 0);
  const auto steps = static_cast<double>(recording.steps.size());
  for (const DdpStep& step : recording.steps) {
    const std::vector<double> ready = ready_alone(step, model.compute_slowdown);
    for (size_t i = 0; i < ready.size(); ++i) {
      model.ready_ns[i] += ready[i] / steps;
    }
    int64_t done_ns = backward_end_ns(step);
    for (const DdpTransfer& each : step.transfers) {
      done_ns = std::max(done_ns, each.end_ns);
    }
    model.tail_ns +=
        static_cast<double>(step.start_ns + step.time_ns - done_ns) / steps;
  }
  for (size_t i = 1; i < model.ready_ns.size(); ++i) {
    model.ready_ns[i] = std::max(model.ready_ns[i], model.ready_ns[i - 1]);
  }
}

}  // namespace

DdpModel ddp_model(const DdpRecording& recording,
                   const std::vector<std::pair<double, double>>& known) {
  DdpModel model;
  model.gradients = recording.gradients;
  model.workers = recording.workers;
  const double expected = recording.host_only ? kHostSlowdown : kDeviceSlowdown;
  model.compute_slowdown =
      fit_slowdown(telling(recording), expected).value_or(expected);
  fit_price(recording, model);
  if (!known.empty()) model.price = price_of(known);
  fit_compute(recording, model);
  return model;
}

DdpModel with_least_price(const DdpRecording& recording, DdpModel model) {
  double bytes_per_ns = model.price.bandwidth_bytes_per_s / 1e9;
  for (const TransferSample& sample : samples_of(recording))
    bytes_per_ns = std::max(bytes_per_ns, sample.bytes / sample.duration_ns);
  model.price = {};
  model.price.bandwidth_bytes_per_s = 1e9 * bytes_per_ns;
  model.collective_slowdown = 1;
  return model;
}

double only_size(const DdpRecording& recording) {
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
  double bytes = 0, count = 0;
  for (const DdpStep& step : recording.steps) {
    if (!step.barrier_ns.empty()) return 0;
    for (const DdpTransfer& each : step.transfers) {
      least = std::min(least, each.bytes);
      most = std::max(most, each.bytes);
      bytes += static_cast<double>(each.bytes);
      count += 1;
    }
  }
  const bool is_one = count > 0 && static_cast<double>(most) <
                                       kSameSize * static_cast<double>(least);
  return is_one ? bytes / count : 0;
}

std::pair<DdpModel, DdpModel> price_ends(const DdpRecording& recording,
                                         const DdpModel& model) {
  constexpr double kAtOnce = 1e18;  // Bytes per second.
  const double bytes = only_size(recording);
  const double time_ns = model.price.price_ns(bytes);
  DdpModel by_bytes = model, by_count = model;
  by_bytes.price = by_count.price = {};
  by_bytes.price.bandwidth_bytes_per_s = 1e9 * bytes / time_ns;
  by_count.price.latency_ns = time_ns;
  by_count.price.bandwidth_bytes_per_s = kAtOnce;
  by_bytes.price.residual = by_count.price.residual = model.price.residual;
  const double by_bytes_ns =
      simulate_buckets(by_bytes, recording.buckets).step_ns;
  const double by_count_ns =
      simulate_buckets(by_count, recording.buckets).step_ns;
  return by_bytes_ns > by_count_ns ? std::pair(by_bytes, by_count)
                                   : std::pair(by_count, by_bytes);
}

}  // namespace reprise

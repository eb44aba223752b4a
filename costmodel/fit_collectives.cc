// Fits a link to recorded transfers. The model is a line, latency + bytes /
// rate, times a slow-down for the share that had compute beside it; where that
// leaves much unexplained, also credit as of a token bucket (Linux tbf,
// switches): idle time fills it, and bytes within it pass at a higher rate. Two
// to five parameters are searched without derivatives (PatternSearch) by Huber
// loss on the logarithm of the time, because durations spread by factors and a
// thread that lost its core must not count a hundredfold. More parameters must
// earn their place. At last each recorded size gets a point, drawn from the
// line towards its own mean by how many samples stand behind it. Cost:
// O(samples) an evaluation, some thousand evaluations.
#include "costmodel/fit_collectives.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "costmodel/pattern_search.h"
#include "data/median.h"

namespace reprise {
namespace {

constexpr double kOutlier = 0.5;  // Log ratio from which the loss is linear.
// A model with more parameters must lower the loss by this factor. Burst credit
// can imitate noise (by 5 % on synthetic traces at 8 %) and then mislead for
// large buckets.
constexpr double kSlowdownWorthIt = 0.97, kBurstWorthIt = 0.85;
constexpr double kGoodEnough = 1e-5;  // Loss: 0.3 % of error needs no more.
constexpr double kSteepestSlowdown = 10;

// In nanoseconds and nanoseconds per byte, all > 0.
struct LinkModel {
  double latency_ns = 0;
  double wire_ns_per_byte = 0;
  double slowdown = 1;
  double burst_ns = 0;          // 0: no credit.
  double peak_ns_per_byte = 0;  // At most wire_ns_per_byte.
};

// Walks the samples in order; calls `visit(sample, predicted_ns)`.
template <typename Visit>
void predict_all(const LinkModel& link,
                 const std::vector<TransferSample>& samples, Visit visit) {
  double credit_ns = link.burst_ns;
  int32_t step = samples.front().step - 1;
  for (const TransferSample& sample : samples) {
    credit_ns = sample.step == step
                    ? std::min(link.burst_ns, credit_ns + sample.idle_ns)
                    : link.burst_ns;
    step = sample.step;
    const double wire_ns = sample.bytes * link.wire_ns_per_byte;
    const double floor_ns =
        link.latency_ns + sample.bytes * link.peak_ns_per_byte;
    double alone_ns = link.latency_ns + wire_ns - std::min(credit_ns, wire_ns);
    if (link.burst_ns > 0) alone_ns = std::max(alone_ns, floor_ns);
    const double contended = 1 - sample.beside * (1 - 1 / link.slowdown);
    visit(sample, alone_ns / contended);
    credit_ns = std::clamp(credit_ns + sample.duration_ns - wire_ns, 0.0,
                           link.burst_ns);
  }
}

double huber(double error) {
  const double size = std::abs(error);
  return size <= kOutlier ? size * size : kOutlier * (2 * size - kOutlier);
}

double loss_of(const LinkModel& link,
               const std::vector<TransferSample>& samples) {
  double loss = 0, weight = 0;
  predict_all(
      link, samples, [&](const TransferSample& sample, double predicted_ns) {
        const double error = std::log(sample.duration_ns / predicted_ns);
        loss += sample.typical_ns * huber(error);
        weight += sample.typical_ns;
      });
  return loss / weight;
}

// What the samples say before any fit.
struct Setting {
  double mean_beside = 0;  // Weighted by time, as is the spread.
  double spread_beside = 0;
  double known_slowdown = 1;
};

Setting setting_of(const std::vector<TransferSample>& samples,
                   double known_slowdown) {
  double time_ns = 0, sum = 0, square = 0;
  for (const TransferSample& sample : samples) {
    time_ns += sample.duration_ns;
    sum += sample.duration_ns * sample.beside;
    square += sample.duration_ns * sample.beside * sample.beside;
  }
  Setting setting{.mean_beside = sum / time_ns,
                  .known_slowdown = known_slowdown};
  const double variance =
      square / time_ns - setting.mean_beside * setting.mean_beside;
  setting.spread_beside = std::sqrt(std::max(0.0, variance));
  return setting;
}

// The search's coordinates: latency and wire time as they appear on average, so
// that a change of slow-down alone keeps the mean prediction.
LinkModel link_of(const std::vector<double>& parameters, const Setting& setting,
                  bool slowed, bool credited) {
  LinkModel link{.slowdown = setting.known_slowdown};
  size_t next = 2;
  if (slowed) {
    link.slowdown = std::min(kSteepestSlowdown, 1 + parameters[next++]);
  }
  const double contended = 1 - setting.mean_beside * (1 - 1 / link.slowdown);
  link.latency_ns = parameters[0] * contended;
  link.wire_ns_per_byte = parameters[1] * contended;
  link.peak_ns_per_byte = link.wire_ns_per_byte;
  if (credited) {
    link.burst_ns = parameters[next++];
    link.peak_ns_per_byte *= std::min(1.0, parameters[next]);
  }
  return link;
}

// Starting points: the fastest small transfer as latency, the rate over all
// bytes as bandwidth.
std::vector<double> first_guess(const std::vector<TransferSample>& samples) {
  double latency_ns = samples.front().duration_ns, bytes = 0, time_ns = 0;
  for (const TransferSample& sample : samples) {
    latency_ns = std::min(latency_ns, sample.duration_ns);
    bytes += sample.bytes;
    time_ns += sample.duration_ns;
  }
  return {std::max(1.0, latency_ns / 2),
          std::max(1e-6, time_ns / std::max(1.0, bytes))};
}

struct Fitted {
  LinkModel link;
  double loss = INFINITY;
};

Fitted fit_variant(const std::vector<TransferSample>& samples,
                   const Setting& setting, bool slowed, bool credited) {
  using Starts = std::vector<std::pair<double, double>>;
  const Starts bursts = {{256e3, 0.05}, {32e3, 0.2}, {2e6, 0.2}};
  const Starts slowdowns = {{0, 0.05}, {0, 0.4}};
  Fitted best;
  for (const auto& [burst_bytes, slow_down] : credited ? bursts : slowdowns) {
    std::vector<double> start = first_guess(samples);
    if (slowed) start.push_back(slow_down);
    if (credited) {
      start.push_back(burst_bytes * start[1]);
      start.push_back(0.2);
    }
    PatternSearch search([&](const std::vector<double>& parameters) {
      return loss_of(link_of(parameters, setting, slowed, credited), samples);
    });
    Fitted found;
    found.link = link_of(search.minimize(start), setting, slowed, credited);
    found.loss = loss_of(found.link, samples);
    if (found.loss < best.loss) best = found;
    if (!credited && !slowed) break;
  }
  return best;
}

/// Of transfers of one size nothing tells credit from what a transfer costs.
bool are_of_one_size(const std::vector<TransferSample>& samples) {
  const auto [least, most] =
      std::ranges::minmax(samples, {}, &TransferSample::bytes);
  return most.bytes <= kSameSize * least.bytes;
}

LinkModel best_link(const std::vector<TransferSample>& samples,
                    const Setting& setting, bool may_slow) {
  Fitted best = fit_variant(samples, setting, false, false);
  if (best.loss < kGoodEnough) return best.link;
  if (may_slow) {
    const Fitted slowed = fit_variant(samples, setting, true, false);
    if (slowed.loss < kSlowdownWorthIt * best.loss) best = slowed;
  }
  if (best.loss < kGoodEnough || are_of_one_size(samples)) return best.link;
  const Fitted credited = fit_variant(samples, setting, false, true);
  if (credited.loss < kBurstWorthIt * best.loss) best = credited;
  if (may_slow) {
    const Fitted both = fit_variant(samples, setting, true, true);
    const double asked =
        best.link.burst_ns > 0 ? kSlowdownWorthIt : kBurstWorthIt;
    if (both.loss < asked * best.loss) best = both;
  }
  return best.link;
}

// One point for each group of sizes that count as one.
void add_points(const LinkModel& link,
                const std::vector<TransferSample>& samples,
                CollectivePrice& price) {
  struct Cluster {
    double bytes = 0, measured_ns = 0, predicted_ns = 0, count = 0;
  };
  // kTrust: samples at which a point lies half way between the formula and its
  // own mean. kPreempted: what exceeds this many typical times is taken for a
  // wait for a core. With wake-ups as means, on one host with as many ranks as
  // cores, that took the unexplained share of a GPT step from 12.6 % to 0.
  constexpr double kTrust = 8, kPreempted = 4;
  std::map<double, Cluster> by_size;
  double error = 0, weight = 0, preempted_ns = 0;
  predict_all(link, samples,
              [&](const TransferSample& sample, double predicted_ns) {
                Cluster& cluster = by_size[sample.bytes];
                cluster.bytes += sample.bytes;
                // A thread that waits for its core is no property of the link,
                // nor of the bytes: it comes with every transfer alike.
                const double most_ns = kPreempted * sample.typical_ns;
                cluster.measured_ns += std::min(sample.duration_ns, most_ns);
                preempted_ns += std::max(0.0, sample.duration_ns - most_ns);
                cluster.predicted_ns += predicted_ns;
                cluster.count += 1;
                error += std::abs(sample.duration_ns - predicted_ns);
                weight += sample.duration_ns;
              });
  price.residual = error / weight;
  preempted_ns /= static_cast<double>(samples.size());
  std::vector<Cluster> merged;
  for (const auto& [bytes, cluster] : by_size) {
    if (bytes <= 0) continue;
    if (!merged.empty() &&
        bytes < kSameSize * merged.back().bytes / merged.back().count) {
      merged.back().bytes += cluster.bytes;
      merged.back().measured_ns += cluster.measured_ns;
      merged.back().predicted_ns += cluster.predicted_ns;
      merged.back().count += cluster.count;
    } else {
      merged.push_back(cluster);
    }
  }
  for (const Cluster& cluster : merged) {
    const double bytes = cluster.bytes / cluster.count;
    const double trust = cluster.count / (cluster.count + kTrust);
    const double ratio =
        std::pow(cluster.measured_ns / cluster.predicted_ns, trust);
    price.points.emplace_back(
        bytes, preempted_ns +
                   (link.latency_ns + bytes * link.wire_ns_per_byte) * ratio);
  }
  price.latency_ns += preempted_ns;
  price.preempted_ns = preempted_ns;
}

// The median of each size.
void find_typical(std::vector<TransferSample>& samples) {
  std::map<double, std::vector<double>> by_size;
  for (const TransferSample& sample : samples) {
    by_size[sample.bytes].push_back(sample.duration_ns);
  }
  std::map<double, double> typical_ns;
  for (auto& [bytes, durations] : by_size) {
    typical_ns[bytes] = median(std::move(durations));
  }
  for (TransferSample& sample : samples) {
    sample.typical_ns = typical_ns[sample.bytes];
  }
}

// `copies`: those of one rank alone among several, else all others.
TransfersByKey collect(const std::vector<RecordedStep>& steps,
                       const Schedule& recorded, bool copies) {
  TransfersByKey by_key;
  for (const RecordedStep& step : steps) {
    std::vector<int64_t> last_end_ns(step.ranks.size(),  // [rank]
                                     step.ranks.front().start_ns);
    for (const RecordedTransfer& transfer : step.transfers) {
      const int64_t duration_ns = transfer.end_ns - transfer.start_ns;
      int64_t before_ns = INT64_MIN;
      for (const uint32_t member : transfer.members) {
        before_ns = std::max(before_ns, last_end_ns[member]);
        last_end_ns[member] = transfer.end_ns;
      }
      const int64_t idle_ns = transfer.start_ns - before_ns;
      const bool is_copy =
          transfer.members.size() == 1 && step.ranks.size() > 1;
      if (duration_ns <= 0 || is_copy != copies) continue;
      const Unit& unit = recorded.units[transfer.unit];
      const double duration = static_cast<double>(duration_ns);
      by_key[collective_key(unit.collective)].push_back(
          {.step = step.step,
           .bytes = transfer.bytes,
           .duration_ns = duration,
           .beside = static_cast<double>(transfer.beside_ns) / duration,
           .idle_ns = static_cast<double>(std::max<int64_t>(0, idle_ns))});
    }
  }
  return by_key;
}

}  // namespace

TransfersByKey collect_transfers(const std::vector<RecordedStep>& steps,
                                 const Schedule& recorded) {
  return collect(steps, recorded, false);
}

TransfersByKey collect_copies(const std::vector<RecordedStep>& steps,
                              const Schedule& recorded) {
  return collect(steps, recorded, true);
}

double mean_bandwidth(const std::vector<TransferSample>& samples) {
  return kNanosecondsPerSecond / first_guess(samples)[1];
}

CollectiveFit fit_collective(std::vector<TransferSample> samples,
                             double known_slowdown, bool is_measured) {
  find_typical(samples);
  constexpr double kLeastSpread = 0.03;
  const Setting setting = setting_of(samples, known_slowdown);
  CollectiveFit fit;
  fit.slowdown_fitted = !is_measured && setting.spread_beside > kLeastSpread;
  const LinkModel link = best_link(samples, setting, fit.slowdown_fitted);
  fit.slowdown = link.slowdown;
  fit.price.latency_ns = link.latency_ns;
  fit.price.bandwidth_bytes_per_s =
      kNanosecondsPerSecond / link.wire_ns_per_byte;
  fit.price.source = PriceSource::kMeasured;
  if (link.burst_ns > 0) {
    fit.price.burst_bytes = link.burst_ns / link.wire_ns_per_byte;
    fit.price.peak_bandwidth_bytes_per_s =
        kNanosecondsPerSecond / link.peak_ns_per_byte;
  }
  add_points(link, samples, fit.price);
  return fit;
}

}  // namespace reprise

#include "tests/replay/simulate/synthetic_run.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "replay/simulate/replay.h"

namespace reprise {
namespace {

constexpr int64_t kGradientBytes[] = {1 << 10, 1 << 18, 1 << 10,  1 << 20,
                                      3 << 10, 1 << 19, 12 << 10, 1 << 16};

struct Maker {
  const StepShape& shape;
  Schedule schedule;
  std::vector<uint32_t> open;  // Gradient units of the bucket being filled.
  int64_t open_bytes = 0;
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> buckets;

  uint32_t add(std::string name, UnitKind kind, std::string key) {
    Unit unit;
    unit.name = std::move(name);
    unit.kind = kind;
    unit.key = std::move(key);
    if (kind == UnitKind::kCollective) unit.stream = Stream::kCommunication;
    schedule.units.push_back(unit);
    return static_cast<uint32_t>(schedule.units.size() - 1);
  }

  void close_bucket() {
    if (open.empty()) return;
    const uint32_t unit = add(fmt::format("b{}", buckets.size()),
                              UnitKind::kCollective, "collective");
    CollectiveSpec& spec = schedule.units[unit].collective;
    spec.bytes = open_bytes;
    spec.groups = {{}};
    for (int64_t rank = 0; rank < shape.ranks; ++rank) {
      spec.groups[0].push_back(rank);
    }
    for (const uint32_t gradient : open) {
      schedule.dependencies.push_back({UnitId{gradient}, UnitId{unit}, 0});
    }
    buckets.emplace_back(unit, open);
    open.clear();
    open_bytes = 0;
    if (shape.serial) add_updates(buckets.size() - 1);
  }

  void add_updates(size_t bucket) {
    const auto& [unit, gradients] = buckets[bucket];
    for (const uint32_t gradient : gradients) {
      const uint32_t update =
          add("update." + schedule.units[gradient].name, UnitKind::kKernel,
              "update" + schedule.units[gradient].key);
      schedule.dependencies.push_back({UnitId{unit}, UnitId{update}, 0});
    }
  }

  void add_gradient(int layer, size_t which) {
    const int64_t bytes = kGradientBytes[which];
    const bool library = bytes > 100000;
    const uint32_t unit =
        add(fmt::format("gradient.{}.{}", layer, which),
            library ? UnitKind::kLibrary : UnitKind::kKernel,
            // The first half shares its keys with the forward pass.
            fmt::format("{}{}", library ? "dot" : "kernel", which));
    schedule.units[unit].bytes = static_cast<double>(bytes);
    open.push_back(unit);
    open_bytes += bytes;
    if (open_bytes >= shape.bucket_bytes) close_bucket();
  }
};

int64_t noisy(std::mt19937& random, double noise, double value) {
  std::normal_distribution<double> normal(0, noise);
  return std::llround(value * std::exp(normal(random)));
}

}  // namespace

Schedule training_schedule(const StepShape& shape) {
  Maker maker{.shape = shape, .schedule = {}, .open = {}, .buckets = {}};
  maker.schedule.ranks = shape.ranks;
  const size_t kinds = std::size(kGradientBytes);
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (size_t which = 0; which < kinds; ++which) {
      const bool library = kGradientBytes[which] > 100000;
      maker.add(fmt::format("forward.{}.{}", layer, which),
                library ? UnitKind::kLibrary : UnitKind::kKernel,
                fmt::format("{}{}", library ? "dot" : "kernel", which));
    }
  }
  for (int layer = shape.layers; layer-- > 0;) {
    for (size_t which = 0; which < kinds; ++which) {
      maker.add(fmt::format("backward.{}.{}", layer, which), UnitKind::kLibrary,
                fmt::format("backward{}", which));
      maker.add_gradient(layer, which);
    }
  }
  maker.close_bucket();
  for (size_t bucket = 0; !shape.serial && bucket < maker.buckets.size();
       ++bucket) {
    maker.add_updates(bucket);
  }
  return maker.schedule;
}

CostModel true_costs(const Schedule& schedule, double burst_bytes) {
  CostModel costs;
  for (const Unit& unit : schedule.units) {
    if (unit.stream == Stream::kCommunication) {
      costs.collectives[collective_key(unit.collective)] = {
          .latency_ns = 80e3,
          .bandwidth_bytes_per_s = 0.12e9,
          .burst_bytes = burst_bytes,
          .peak_bandwidth_bytes_per_s = 1.5e9};
      continue;
    }
    const double size =
        static_cast<double>(std::hash<std::string>{}(unit.key) % 100);
    costs.units[unit.key] = {.alone_ns = unit.kind == UnitKind::kLibrary
                                             ? 4e5 + 8e3 * size
                                             : 3e4 + 2e3 * size,
                             .source = PriceSource::kMeasured};
  }
  costs.contention = {.library = 1.2, .kernel = 1.35, .collective = 1.1};
  costs.dispatch_ns = 150;
  costs.feed_ns = 20e3;
  costs.compute_wake_ns = 12e3;
  costs.communication_wake_ns = 9e3;
  costs.step_overhead_ns = 5e3;
  return costs;
}

Trace run_trace(const Schedule& schedule, const CostModel& costs,
                const RunOptions& options) {
  Trace trace;
  trace.strings = {""};
  std::mt19937 random(options.seed);
  const uint32_t ranks = static_cast<uint32_t>(schedule.ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    trace.ranks.push_back({.rank = rank, .host = {}, .device = "cpu"});
    trace.streams.push_back({rank, "compute"});
    trace.streams.push_back({rank, "communication"});
  }
  int64_t now_ns = 1'000'000'000;
  const auto stamp = [&](uint32_t rank, int64_t time_ns) {
    double shift = 0;
    if (!options.clock_offset_ns.empty()) {
      shift += static_cast<double>(options.clock_offset_ns[rank]);
    }
    if (!options.clock_drift_ppm.empty()) {
      shift += options.clock_drift_ppm[rank] * 1e-6 *
               static_cast<double>(time_ns - 1'000'000'000);
    }
    return time_ns - std::llround(shift);
  };
  for (int step = 0; step < options.steps; ++step) {
    PricedSchedule priced = price_schedule(schedule, costs);
    for (size_t unit = 0; unit < schedule.units.size(); ++unit) {
      const bool collective =
          schedule.units[unit].stream == Stream::kCommunication;
      double& duration = priced.duration_ns[unit];
      duration = static_cast<double>(noisy(random, options.noise, duration));
      if (collective && options.solo) {
        duration = priced.floor_ns[unit] = priced.wire_ns[unit] = 0;
      }
    }
    const Replay replay = replay_step(priced);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      trace.steps.push_back(
          {.rank = rank,
           .step = step,
           .start_ns = stamp(rank, now_ns),
           .end_ns = stamp(rank, now_ns + replay.step_time_ns),
           .warmup = step == 0});
      const int64_t fed_ns = now_ns + std::llround(costs.feed_ns);
      trace.events.push_back({.rank = rank,
                              .stream = 2 * rank,
                              .kind = EventKind::kFeed,
                              .step = step,
                              .enqueue_ns = stamp(rank, now_ns),
                              .start_ns = stamp(rank, now_ns),
                              .end_ns = stamp(rank, fed_ns)});
      for (size_t unit = 0; unit < schedule.units.size(); ++unit) {
        const bool collective =
            schedule.units[unit].stream == Stream::kCommunication;
        const UnitTime& time = replay.times[rank][unit];
        trace.events.push_back(
            {.rank = rank,
             .stream = 2 * rank + (collective ? 1 : 0),
             .kind = collective ? EventKind::kCollective : EventKind::kCompute,
             .step = step,
             .unit = static_cast<int32_t>(unit),
             .enqueue_ns = stamp(rank, now_ns + time.start_ns),
             .start_ns = stamp(rank, now_ns + time.start_ns),
             .end_ns = stamp(rank, now_ns + time.end_ns),
             .bytes = schedule.units[unit].collective.bytes});
      }
    }
    now_ns += replay.step_time_ns + 1000;
  }
  return trace;
}

}  // namespace reprise

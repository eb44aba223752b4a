// A fluid simulation from event to event: between two, compute advances at one
// rate and each transfer at its share of the wire. An event is a gradient, the
// end of a latency or of a transfer.
#include "optimizer/ddp/ddp_timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "data/result.h"
#include "optimizer/buckets/pytorch_buckets.h"

namespace reprise {
namespace {

struct Flight {
  size_t bucket = 0;
  double latency_ns = 0, wire_ns = 0;  // Left.
};

/// Advances compute and transfers from event to event.
class StepSimulation {
 public:
  StepSimulation(const DdpModel& model, const std::vector<DdpBucket>& buckets)
      : model_(model), buckets_(buckets) {
    timeline_.ready_ns.resize(model.gradients.size());
    timeline_.sent_ns.resize(buckets.size());
    timeline_.arrived_ns.resize(buckets.size());
  }

  DdpTimeline run() {
    send_ready();
    while (computing() || !flights_.empty()) {
      advance(next_event_ns());
      send_ready();
    }
    timeline_.step_ns = now_ns_ + model_.tail_ns;
    return std::move(timeline_);
  }

 private:
  bool computing() const { return done_ < model_.ready_ns.size(); }
  double compute_rate() const {
    return flights_.empty() ? 1 : 1 / model_.compute_slowdown;
  }
  double transfer_rate() const {
    return computing() ? 1 / model_.collective_slowdown : 1;
  }
  double wire_rate() const {
    double sending = 0;
    for (const Flight& flight : flights_) sending += flight.latency_ns <= 0;
    return sending > 0 ? transfer_rate() / sending : 0;
  }

  double next_event_ns() const {
    double soonest = HUGE_VAL;
    if (computing()) {
      soonest = (model_.ready_ns[done_] - computed_ns_) / compute_rate();
    }
    for (const Flight& flight : flights_) {
      soonest = std::min(soonest, flight.latency_ns > 0
                                      ? flight.latency_ns / transfer_rate()
                                      : flight.wire_ns / wire_rate());
    }
    return std::max(0.0, soonest);
  }

  void advance(double elapsed_ns) {
    const double wire = wire_rate(), transfer = transfer_rate();
    now_ns_ += elapsed_ns;
    // Beneath any clock, above what doubles lose.
    const double done_ns = 1e-3 + 1e-12 * now_ns_;
    if (computing()) computed_ns_ += elapsed_ns * compute_rate();
    for (Flight& flight : flights_) {
      if (flight.latency_ns > 0) {
        flight.latency_ns -= elapsed_ns * transfer;
        if (flight.latency_ns < done_ns) flight.latency_ns = 0;
      } else {
        flight.wire_ns -= elapsed_ns * wire;
      }
    }
    std::erase_if(flights_, [this, done_ns](const Flight& flight) {
      const bool arrived = flight.latency_ns <= 0 && flight.wire_ns < done_ns;
      if (arrived) timeline_.arrived_ns[flight.bucket] = now_ns_;
      return arrived;
    });
    while (computing() && model_.ready_ns[done_] - computed_ns_ < done_ns) {
      timeline_.ready_ns[done_++] = now_ns_;
    }
    if (!computing()) {
      timeline_.backward_end_ns =
          timeline_.ready_ns.empty() ? 0 : timeline_.ready_ns.back();
    }
  }

  void send_ready() {
    while (next_ < buckets_.size() &&
           flights_.size() < static_cast<size_t>(model_.workers) &&
           buckets_[next_].gradients.back() < done_) {
      double bytes = 0;
      for (const uint32_t gradient : buckets_[next_].gradients) {
        bytes += static_cast<double>(model_.gradients[gradient].bytes);
      }
      const double whole_ns = model_.price.price_ns(bytes);
      const double latency_ns = std::min(model_.price.latency_ns, whole_ns);
      flights_.push_back({.bucket = next_,
                          .latency_ns = latency_ns,
                          .wire_ns = whole_ns - latency_ns});
      timeline_.sent_ns[next_++] = now_ns_;
    }
  }

  const DdpModel& model_;
  const std::vector<DdpBucket>& buckets_;
  DdpTimeline timeline_;
  std::vector<Flight> flights_;
  size_t done_ = 0, next_ = 0;  // Gradients ready, buckets sent.
  double now_ns_ = 0, computed_ns_ = 0;
};

}  // namespace

DdpTimeline simulate_buckets(const DdpModel& model,
                             const std::vector<DdpBucket>& buckets) {
  REPRISE_CHECK(model.workers > 0 &&
                model.ready_ns.size() == model.gradients.size());
  return StepSimulation(model, buckets).run();
}

std::vector<DdpBucket> ddp_buckets(const std::vector<DdpGradient>& gradients,
                                   const std::vector<int64_t>& caps_bytes) {
  std::map<std::string_view, uint32_t> keys;
  std::vector<SizedGradient> sizes;
  for (const DdpGradient& each : gradients) {
    const auto key = static_cast<uint32_t>(keys.size());
    sizes.push_back(
        {each.bytes, keys.try_emplace(each.type, key).first->second});
  }
  std::vector<DdpBucket> buckets;
  for (GradientGroup& group : pytorch_buckets(sizes, caps_bytes)) {
    buckets.push_back({std::move(group)});
  }
  return buckets;
}

std::vector<int64_t> caps_of(const std::vector<DdpGradient>& gradients,
                             const std::vector<DdpBucket>& buckets) {
  std::vector<int64_t> caps;
  for (const DdpBucket& bucket : buckets) {
    int64_t bytes = 0;
    for (const uint32_t gradient : bucket.gradients) {
      bytes += gradients[gradient].bytes;
    }
    caps.push_back(bytes);
  }
  return caps;
}

}  // namespace reprise

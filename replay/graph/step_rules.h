// The arithmetic of StepRules, which `decide` and `evaluate` share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "replay/graph/timed_graph.h"

namespace reprise {

/// Nanoseconds as ticks; garbage in (negative, NaN) counts as zero, and 73
/// minutes are the most, so that every product of a simulation is in range.
inline int64_t ticks_of(double duration_ns, int tick_bits) {
  constexpr double kLongest_ns = 4.4e12;
  if (!(duration_ns > 0)) return 0;
  return std::llround(std::min(duration_ns, kLongest_ns) *
                      static_cast<double>(1 << tick_bits));
}

/// Of prices.
constexpr int kTickBits = 10;

/// A factor as TimedGraph::slowdown; none below 1, at most 1024.
inline uint32_t slowdown_of(double factor) {
  constexpr double kSteepest = 1024;
  if (!(factor > 1)) return kAlone;
  return static_cast<uint32_t>(
      std::llround(std::min(factor, kSteepest) * static_cast<double>(kAlone)));
}

/// Handing over takes so long from now on.
inline void set_dispatch(StepRules& rules, double dispatch_ns) {
  rules.dispatch_ns = dispatch_ns;
  const double gap_ns = dispatch_ns + rules.unexplained_ns;
  rules.gap = ticks_of(gap_ns, kTickBits);
  rules.wake = ticks_of(gap_ns + rules.compute_wake_ns, kTickBits) - rules.gap;
}

/// A link regains, while it rests, the credit that bursts have used.
class LinkCredit {
 public:
  LinkCredit() = default;
  explicit LinkCredit(const StepRules& rules) : credit_ns_(rules.burst_ns) {}

  /// What the transfer takes, alone, that begins now.
  double spend(const StepRules& rules, const StepRules::Transfer& transfer,
               int64_t now_ns) {
    credit_ns_ = std::min(rules.burst_ns, credit_ns_ + (now_ns - since_ns_));
    since_ns_ = now_ns;
    const double saved =
        std::min(static_cast<double>(credit_ns_), transfer.wire_ns);
    return std::max(std::min(transfer.floor_ns, transfer.duration_ns),
                    transfer.duration_ns - saved);
  }
  /// The transfer that began last ends now.
  void settle(const StepRules& rules, const StepRules::Transfer& transfer,
              int64_t now_ns) {
    const int64_t gained = now_ns - since_ns_ - std::llround(transfer.wire_ns);
    credit_ns_ = std::clamp<int64_t>(credit_ns_ + gained, 0, rules.burst_ns);
    since_ns_ = now_ns;
  }

 private:
  int64_t credit_ns_ = 0, since_ns_ = 0;
};

/// How much later than their mean the last rank is expected that computed for
/// so long since it last waited for others.
inline double lateness_ns(const StepRules& rules, int64_t apart_ns) {
  if (rules.jitter_sqrt_ns <= 0 || apart_ns <= 0) return 0;
  return rules.jitter_sqrt_ns * std::sqrt(static_cast<double>(apart_ns));
}

/// Of one rank, while a step is replayed.
struct RankState {
  int64_t apart_ns = 0;  ///< Computed, gaps apart, since it last waited.
  int64_t compute_end_ns = 0;
};

/// The end of a step of which the last node ends at `last_ns`. Each of `ranks`
/// has what a RankState has.
template <typename Ranks>
int64_t step_end_ns(const StepRules& rules, int64_t last_ns,
                    const Ranks& ranks) {
  double time_ns = std::max(0.0, rules.overhead_ns);
  // If it ends in compute, all wait for the last rank.
  for (const auto& rank : ranks) {
    if (rank.compute_end_ns != last_ns) continue;
    time_ns += lateness_ns(rules, rank.apart_ns);
    break;
  }
  return last_ns + std::llround(time_ns);
}

}  // namespace reprise

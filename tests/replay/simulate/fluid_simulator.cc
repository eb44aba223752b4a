#include "tests/replay/simulate/fluid_simulator.h"

#include <algorithm>
#include <limits>
#include <set>

namespace reprise {
namespace {

enum class Phase { kPending, kRunning, kDone };

struct Fluid {
  const PricedSchedule& priced;
  const std::vector<Unit>& units = priced.schedule->units;
  size_t ranks = priced.rank_factor.size();
  double now = 0, credit = priced.burst_ns, credit_since = 0;
  std::vector<std::vector<Phase>> phase{ranks,
                                        std::vector<Phase>(units.size())};
  std::vector<std::vector<double>> left{ranks,
                                        std::vector<double>(units.size(), 0)};
  std::vector<std::vector<double>> ended{ranks,
                                         std::vector<double>(units.size(), 0)};

  bool on_compute(size_t unit) const {
    return units[unit].stream == Stream::kCompute;
  }

  std::vector<size_t> members(size_t unit, size_t rank) const {
    std::vector<size_t> all;
    for (size_t r = 0; r < ranks; ++r) all.push_back(r);
    for (const auto& group : units[unit].collective.groups) {
      std::vector<size_t> found(group.begin(), group.end());
      if (std::count(found.begin(), found.end(), rank) > 0) return found;
    }
    return all;
  }

  // Everything that must have ended before `unit` on `rank` has.
  bool is_ready(size_t unit, size_t rank) const {
    for (size_t other = 0; other < unit; ++other) {
      if (on_compute(other) == on_compute(unit) &&
          phase[rank][other] != Phase::kDone) {
        return false;
      }
    }
    for (const Dependency& dependency : priced.schedule->dependencies) {
      if (index_of(dependency.after) == unit && dependency.steps == 0 &&
          phase[rank][index_of(dependency.before)] != Phase::kDone) {
        return false;
      }
    }
    return true;
  }

  // The latest end among what a ready unit waited for, and whether the other
  // stream set it.
  bool was_woken(size_t unit, size_t rank) const {
    double same = -1, other = -1;
    for (size_t before = 0; before < unit; ++before) {
      if (on_compute(before) == on_compute(unit))
        same = std::max(same, ended[rank][before]);
    }
    for (const Dependency& dependency : priced.schedule->dependencies) {
      const size_t before = index_of(dependency.before);
      if (index_of(dependency.after) == unit &&
          on_compute(before) != on_compute(unit)) {
        other = std::max(other, ended[rank][before]);
      }
    }
    return other > same;
  }

  void start_ready() {
    for (size_t unit = 0; unit < units.size(); ++unit) {
      for (size_t rank = 0; rank < ranks; ++rank) {
        if (phase[rank][unit] != Phase::kPending || !is_ready(unit, rank))
          continue;
        if (on_compute(unit)) {
          phase[rank][unit] = Phase::kRunning;
          left[rank][unit] =
              priced.duration_ns[unit] * priced.rank_factor[rank] +
              priced.dispatch_ns +
              (was_woken(unit, rank) ? priced.compute_wake_ns : 0);
        } else {
          start_transfer(unit, members(unit, rank));
        }
      }
    }
  }

  void start_transfer(size_t unit, const std::vector<size_t>& group) {
    for (const size_t member : group) {
      if (!is_ready(unit, member)) return;
    }
    credit = std::min(priced.burst_ns, credit + now - credit_since);
    credit_since = now;
    double work = priced.duration_ns[unit];
    if (priced.burst_ns > 0) {
      work = std::max(priced.floor_ns[unit],
                      work - std::min(credit, priced.wire_ns[unit]));
    }
    for (const size_t member : group) {
      phase[member][unit] = Phase::kRunning;
      left[member][unit] = work;
    }
  }

  double rate(size_t unit, size_t rank) const {
    if (on_compute(unit)) {
      for (size_t other = 0; other < units.size(); ++other) {
        if (!on_compute(other) && phase[rank][other] == Phase::kRunning) {
          return 1 / priced.slowdown[unit];
        }
      }
      return 1;
    }
    for (const size_t member : members(unit, rank)) {
      for (size_t other = 0; other < units.size(); ++other) {
        if (on_compute(other) && phase[member][other] == Phase::kRunning) {
          return 1 / priced.slowdown[unit];
        }
      }
    }
    return 1;
  }

  bool advance() {
    double step = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> rates(
        ranks, std::vector<double>(units.size(), 0));
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t unit = 0; unit < units.size(); ++unit) {
        if (phase[rank][unit] != Phase::kRunning) continue;
        rates[rank][unit] = rate(unit, rank);
        step = std::min(step, left[rank][unit] / rates[rank][unit]);
      }
    }
    if (step == std::numeric_limits<double>::infinity()) return false;
    now += step;
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t unit = 0; unit < units.size(); ++unit) {
        if (phase[rank][unit] != Phase::kRunning) continue;
        left[rank][unit] -= step * rates[rank][unit];
        if (left[rank][unit] > 1e-7) continue;
        if (!on_compute(unit) && rank == members(unit, rank).front()) {
          credit =
              std::clamp(credit + now - credit_since - priced.wire_ns[unit],
                         0.0, priced.burst_ns);
          credit_since = now;
        }
        phase[rank][unit] = Phase::kDone;
        ended[rank][unit] = now;
      }
    }
    return true;
  }
};

}  // namespace

double fluid_step_time(const PricedSchedule& priced) {
  Fluid fluid{priced};
  fluid.now = fluid.credit_since = priced.feed_ns;
  do {
    fluid.start_ready();
  } while (fluid.advance());
  return fluid.now + priced.step_overhead_ns;
}

}  // namespace reprise

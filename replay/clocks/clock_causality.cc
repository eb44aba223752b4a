#include "replay/clocks/clock_causality.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "replay/clocks/clock_bounds.h"
#include "replay/clocks/clock_projection.h"

namespace reprise {
namespace {

// Nanoseconds that a bound is kept clear of, for rounding of both its times.
constexpr double kClear = 2;

class CausalClocks {
 public:
  CausalClocks(const ClockMeetings& meetings,
               const std::vector<size_t>& clock_of,
               const std::vector<bool>& movable,
               const std::vector<RankInfo>& ranks)
      : meetings_(meetings),
        clock_of_(clock_of),
        before_(ranks),
        clocks_(movable.size()),
        projection_(variables_of(movable)) {
    for (size_t clock = 0; clock < movable.size(); ++clock) {
      clocks_[clock].movable = movable[clock];
    }
    for (size_t place = 0; place < ranks.size(); ++place) find_span(place);
  }

  void run(std::vector<RankInfo>& ranks, double least_share) {
    constexpr int kMostRounds = 64;
    constexpr size_t kAtOnce = 512;
    for (int round = 0; round < kMostRounds; ++round) {
      bool moved = false;
      for (const auto& breach :
           meetings_.breaches(ranks, kAtOnce, least_share)) {
        moved |= meet(bound_of(breach));
      }
      if (!moved) return;
      limit_drifts();
      write(ranks);
    }
  }

  std::vector<bool> moved() const {
    std::vector<bool> all;
    for (size_t clock = 0; clock < clocks_.size(); ++clock) {
      const auto [offset, drift] = moved_by(clock);
      all.push_back(offset != 0 || drift != 0);
    }
    return all;
  }

 private:
  // Variables of a clock: by how much it moves at the middle of its record, and
  // by how much more at the end. Nanoseconds.
  struct Clock {
    bool movable = false, seen = false;
    int64_t first_ns = 0, last_ns = 0;
    double before_drift = 0;
    size_t variable = 0;

    int64_t middle_ns() const { return std::midpoint(first_ns, last_ns); }
    double half_ns() const {
      constexpr double kShortest = 1e6;  // Turning shorter ones says nothing.
      return std::max(difference(last_ns, first_ns) / 2, kShortest);
    }
    double lever(int64_t time_ns) const {
      return difference(time_ns, middle_ns()) / half_ns();
    }
  };

  size_t variables_of(const std::vector<bool>& movable) {
    size_t variables = 0;
    for (size_t clock = 0; clock < movable.size(); ++clock) {
      clocks_[clock].variable = variables;
      if (movable[clock]) variables += 2;
    }
    return variables;
  }

  void find_span(size_t place) {
    Clock& clock = clocks_[clock_of_[place]];
    const auto [first_ns, last_ns] = meetings_.met_between(place);
    clock.first_ns = clock.seen ? std::min(clock.first_ns, first_ns) : first_ns;
    clock.last_ns = clock.seen ? std::max(clock.last_ns, last_ns) : last_ns;
    clock.before_drift = before_[place].clock_drift_ppm * 1e-6;
    clock.seen = true;
  }

  void add(LinearBound& bound, size_t place, int64_t time_ns,
           double sign) const {
    const Clock& clock = clocks_[clock_of_[place]];
    if (!clock.movable) return;
    bound.add(clock.variable, sign);
    bound.add(clock.variable + 1, sign * clock.lever(time_ns));
  }

  LinearBound bound_of(const ClockMeetings::Breach& breach) const {
    const int64_t left_ns = to_rank0_ns(before_[breach.leaves], breach.left_ns);
    const int64_t came_ns = to_rank0_ns(before_[breach.comes], breach.came_ns);
    LinearBound bound{.terms = {},
                      .least = kClear + difference(came_ns, left_ns)};
    add(bound, breach.leaves, breach.left_ns, 1);
    add(bound, breach.comes, breach.came_ns, -1);
    return bound;
  }

  // Whether the point moved.
  bool meet(const LinearBound& bound) {
    return projection_.slack(bound) < 0 && projection_.meet(bound);
  }

  void limit_drifts() {
    for (const Clock& clock : clocks_) {
      if (!clock.movable) continue;
      for (const double sign : {1.0, -1.0}) {
        const double most = kMostDrift + sign * clock.before_drift;
        LinearBound bound{.terms = {},
                          .least = -std::max(most, 0.0) * clock.half_ns()};
        bound.add(clock.variable + 1, sign);
        meet(bound);
      }
    }
  }

  std::pair<double, double> moved_by(size_t clock) const {
    if (!clocks_[clock].movable) return {0, 0};
    const size_t variable = clocks_[clock].variable;
    return {projection_.point()[variable],
            projection_.point()[variable + 1] / clocks_[clock].half_ns()};
  }

  void write(std::vector<RankInfo>& ranks) const {
    for (size_t place = 0; place < ranks.size(); ++place) {
      const auto [offset, drift] = moved_by(clock_of_[place]);
      if (offset == 0 && drift == 0) continue;
      const Clock& clock = clocks_[clock_of_[place]];
      const RankInfo& before = before_[place];
      const double at_reference =
          offset +
          drift * difference(before.clock_reference_ns, clock.middle_ns());
      constexpr __int128 kMost = std::numeric_limits<int64_t>::max();
      ranks[place].clock_offset_ns = static_cast<int64_t>(
          std::clamp(static_cast<__int128>(before.clock_offset_ns) +
                         std::llround(std::clamp(at_reference, -4e18, 4e18)),
                     -kMost, kMost));
      ranks[place].clock_drift_ppm = before.clock_drift_ppm + drift * 1e6;
    }
  }

  const ClockMeetings& meetings_;
  const std::vector<size_t>& clock_of_;
  const std::vector<RankInfo> before_;
  std::vector<Clock> clocks_;
  Projection projection_;
};

}  // namespace

std::vector<bool> make_causal(const ClockMeetings& meetings,
                              const std::vector<size_t>& clock_of,
                              const std::vector<bool>& movable,
                              std::vector<RankInfo>& ranks,
                              double least_share) {
  CausalClocks clocks(meetings, clock_of, movable, ranks);
  clocks.run(ranks, least_share);
  return clocks.moved();
}

}  // namespace reprise

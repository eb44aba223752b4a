// Lines between bounds: what collectives tell of one clock against others.
//
// Model. The correction of a clock is a line x(t) = offset + drift t, in
// nanoseconds since the rank's reference. Each bound holds at one time: x(at)
// is not below a low point and not above a high one. Only the convex hulls of
// the points matter, so every question costs the hull, not the record.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace reprise {

/// No oscillator is further off than 1000 ppm (quartz: 100 ppm).
constexpr double kMostDrift = 1e-3;

/// a - b - c, exact until it is rounded once.
inline double difference(int64_t a, int64_t b, int64_t c = 0) {
  return static_cast<double>(static_cast<__int128>(a) - b - c);
}

/// base + rest, rounded, as far as it fits.
int64_t sum(int64_t base, double rest);

struct ClockPoint {
  double at = 0, value = 0;
};

struct ClockLine {
  double offset = 0, drift = 0;
  double value(double at) const { return offset + drift * at; }
};

class ClockRegion {
 public:
  /// The line may not pass below any of `low` or above any of `high`.
  ClockRegion(std::vector<ClockPoint> low, std::vector<ClockPoint> high);

  /// Offsets that meet all bounds under a drift; low > high: none does.
  struct Range {
    double low, high;
    double room() const { return high - low; }
  };
  Range offsets_under(double drift) const;
  bool contains(const ClockLine& line) const;
  /// By how much the line breaks the worst bound; 0 when it meets all.
  double violation(const ClockLine& line) const;

  /// Bounded from both sides, and some line meets all bounds.
  bool is_bounded() const { return !low_.empty() && !high_.empty(); }
  bool is_feasible() const { return !is_bounded() || widest_room_ >= 0; }

  /// In the middle of the most room that a drift leaves (or of the least
  /// conflict). Among drifts that leave nearly as much, the one nearest to
  /// `usual_drift`. Requires: bounded.
  ClockLine widest(double usual_drift) const;
  /// The line nearest to `wanted`: its drift, then its offset, as far as the
  /// bounds allow. Requires: feasible.
  ClockLine nearest(const ClockLine& wanted) const;
  /// How far a line within the bounds can be below and above `line` at time
  /// `at`; infinity where nothing bounds it. Requires: feasible.
  double below(const ClockLine& line, double at) const;
  double above(const ClockLine& line, double at) const;
  /// The region with all bounds moved out by so much.
  ClockRegion relaxed(double by) const;

 private:
  double room(double drift) const { return offsets_under(drift).room(); }

  std::vector<ClockPoint> low_, high_;  // Hulls, by time.
  double widest_drift_ = 0, widest_room_ = 0;
  double least_drift_ = -kMostDrift, most_drift_ = kMostDrift;  // Feasible.
};

/// The line with the least sum of absolute distances to the points, its drift
/// weighed against `usual_drift` by how sure the scatter leaves it. Requires:
/// not empty. Cost: O(points) times about 100.
ClockLine middle_line(const std::vector<ClockPoint>& points,
                      double usual_drift);

}  // namespace reprise

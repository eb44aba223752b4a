#include "replay/clocks/clock_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/median.h"

namespace reprise {
namespace {

constexpr int kRounds = 60;  // Drifts to 1e-3 (2/3)^60: far below 1e-12.

// Maximizes a concave function.
template <typename Value>
double argmax(Value value, double low, double high) {
  for (int round = 0; round < kRounds; ++round) {
    const double left = low + (high - low) / 3, right = high - (high - low) / 3;
    if (value(left) < value(right)) {
      low = left;
    } else {
      high = right;
    }
  }
  return (low + high) / 2;
}

// The last of a run of drifts from `good` on towards `bad` that still passes.
template <typename Passes>
double last_passing(Passes passes, double good, double bad) {
  if (passes(bad)) return bad;
  for (int round = 0; round < kRounds; ++round) {
    const double middle = (good + bad) / 2;
    (passes(middle) ? good : bad) = middle;
  }
  return good;
}

// The part of the points' convex hull that a line above them all can touch.
std::vector<ClockPoint> upper_hull(std::vector<ClockPoint> points) {
  std::sort(points.begin(), points.end(),
            [](const ClockPoint& a, const ClockPoint& b) {
              return a.at != b.at ? a.at < b.at : a.value > b.value;
            });
  std::vector<ClockPoint> hull;
  for (const ClockPoint& point : points) {
    if (!hull.empty() && hull.back().at == point.at) continue;
    while (hull.size() > 1) {
      const ClockPoint &a = hull[hull.size() - 2], &b = hull.back();
      const double turn = (b.at - a.at) * (point.value - a.value) -
                          (b.value - a.value) * (point.at - a.at);
      if (turn < 0) break;
      hull.pop_back();
    }
    hull.push_back(point);
  }
  return hull;
}

void mirror(std::vector<ClockPoint>& points) {
  for (ClockPoint& point : points) point.value = -point.value;
}

}  // namespace

int64_t sum(int64_t base, double rest) {
  constexpr __int128 kMost = std::numeric_limits<int64_t>::max();
  const double bounded = std::clamp(rest, -9e18, 9e18);
  return static_cast<int64_t>(std::clamp(
      static_cast<__int128>(base) + std::llround(bounded), -kMost, kMost));
}

ClockRegion::ClockRegion(std::vector<ClockPoint> low,
                         std::vector<ClockPoint> high)
    : low_(upper_hull(std::move(low))) {
  mirror(high);
  high_ = upper_hull(std::move(high));
  mirror(high_);
  if (!is_bounded()) return;
  const auto value = [this](double drift) { return room(drift); };
  widest_drift_ = argmax(value, -kMostDrift, kMostDrift);
  widest_room_ = room(widest_drift_);
  if (widest_room_ < 0) return;
  const auto passes = [this](double drift) { return room(drift) >= 0; };
  least_drift_ = last_passing(passes, widest_drift_, -kMostDrift);
  most_drift_ = last_passing(passes, widest_drift_, kMostDrift);
}

ClockRegion::Range ClockRegion::offsets_under(double drift) const {
  Range range{-std::numeric_limits<double>::infinity(),
              std::numeric_limits<double>::infinity()};
  for (const ClockPoint& point : low_) {
    range.low = std::max(range.low, point.value - drift * point.at);
  }
  for (const ClockPoint& point : high_) {
    range.high = std::min(range.high, point.value - drift * point.at);
  }
  return range;
}

bool ClockRegion::contains(const ClockLine& line) const {
  return violation(line) <= 0;
}

double ClockRegion::violation(const ClockLine& line) const {
  const Range range = offsets_under(line.drift);
  return std::max({0.0, range.low - line.offset, line.offset - range.high});
}

ClockLine ClockRegion::widest(double usual_drift) const {
  constexpr double kNearly = 0.9;
  double drift = widest_drift_;
  if (widest_room_ > 0) {
    const auto passes = [&](double d) {
      return room(d) >= kNearly * widest_room_;
    };
    drift = last_passing(passes, drift,
                         std::clamp(usual_drift, -kMostDrift, kMostDrift));
  }
  const Range range = offsets_under(drift);
  return {(range.low + range.high) / 2, drift};
}

ClockLine ClockRegion::nearest(const ClockLine& wanted) const {
  const double drift = std::clamp(wanted.drift, least_drift_, most_drift_);
  const Range range = offsets_under(drift);
  // At the very edge rounding may leave no room: its middle then.
  if (range.room() < 0) return {(range.low + range.high) / 2, drift};
  return {std::clamp(wanted.offset, range.low, range.high), drift};
}

ClockRegion ClockRegion::relaxed(double by) const {
  std::vector<ClockPoint> low = low_, high = high_;
  for (ClockPoint& point : low) point.value -= by;
  for (ClockPoint& point : high) point.value += by;
  return {std::move(low), std::move(high)};
}

double ClockRegion::above(const ClockLine& line, double at) const {
  if (high_.empty()) return std::numeric_limits<double>::infinity();
  const auto highest = [&](double drift) {
    return offsets_under(drift).high + drift * at;
  };
  return highest(argmax(highest, least_drift_, most_drift_)) - line.value(at);
}

double ClockRegion::below(const ClockLine& line, double at) const {
  if (low_.empty()) return std::numeric_limits<double>::infinity();
  const auto lowest = [&](double drift) {
    return -offsets_under(drift).low - drift * at;
  };
  return line.value(at) + lowest(argmax(lowest, least_drift_, most_drift_));
}

ClockLine middle_line(const std::vector<ClockPoint>& points,
                      double usual_drift) {
  std::vector<double> distances(points.size());
  const auto offset_under = [&](double drift) {
    for (size_t i = 0; i < points.size(); ++i) {
      distances[i] = points[i].value - drift * points[i].at;
    }
    return median(distances);
  };
  const auto scatter = [&](double drift) {
    const double offset = offset_under(drift);
    double sum = 0;
    for (const double distance : distances) sum += std::abs(distance - offset);
    return sum / static_cast<double>(points.size());
  };
  const double drift =
      argmax([&](double d) { return -scatter(d); }, -kMostDrift, kMostDrift);
  const auto [first, last] = std::minmax_element(
      points.begin(), points.end(),
      [](const ClockPoint& a, const ClockPoint& b) { return a.at < b.at; });
  const double span = last->at - first->at;
  if (span <= 0) return {offset_under(usual_drift), usual_drift};
  // Standard errors: of a slope through n points with this scatter (1.25 turns
  // mean distance into deviation), and of what clocks differ by: quartz is
  // within 50 ppm.
  constexpr double kUsualError = 5e-5;
  const double error = 1.25 * std::sqrt(12.0) * scatter(drift) /
                       (span * std::sqrt(static_cast<double>(points.size())));
  const double trust =
      kUsualError * kUsualError / (kUsualError * kUsualError + error * error);
  const double chosen = usual_drift + trust * (drift - usual_drift);
  return {offset_under(chosen), chosen};
}

}  // namespace reprise

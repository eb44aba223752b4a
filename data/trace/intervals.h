// Sets of instants as sorted, disjoint intervals: exact unions, intersections
// and lengths in integer nanoseconds. A set is prepared once, O(n log n); the
// length of any window of it then costs O(log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise {

/// Half open: [start_ns, end_ns).
struct Interval {
  int64_t start_ns = 0, end_ns = 0;
  bool operator==(const Interval&) const = default;
};

/// Times outside of +- 146 years are moved to that border, so that differences
/// and lengths never overflow, whatever a file says.
constexpr int64_t kLatestTime = (int64_t{1} << 62) - 1;
constexpr int64_t clamped_time(int64_t time_ns) {
  return time_ns < -kLatestTime  ? -kLatestTime
         : time_ns > kLatestTime ? kLatestTime
                                 : time_ns;
}

class IntervalSet {
 public:
  IntervalSet() = default;
  /// The union of `intervals`, in any order; empty ones are left out.
  /// Cost: O(n) when they come by start, else O(n log n).
  explicit IntervalSet(std::vector<Interval> intervals);

  const std::vector<Interval>& intervals() const { return intervals_; }
  bool empty() const { return intervals_.empty(); }
  int64_t length_ns() const { return total_ns_; }
  /// Length of the part within [start_ns, end_ns). Cost: O(log n).
  int64_t length_within_ns(int64_t start_ns, int64_t end_ns) const;

 private:
  /// How many intervals start before it; at least `least` do. Cost: O(log of
  /// those behind `least`).
  size_t count_before(int64_t time_ns, size_t least) const;
  /// Before `time_ns`, which `count` intervals start before.
  int64_t length_before_ns(int64_t time_ns, size_t count) const;

  std::vector<Interval> intervals_;
  std::vector<int64_t> before_ns_;  ///< [interval], length of those before it.
  int64_t total_ns_ = 0;
};

IntervalSet united(const IntervalSet& a, const IntervalSet& b);
IntervalSet intersected(const IntervalSet& a, const IntervalSet& b);
/// Of a what is not of b.
IntervalSet subtracted(const IntervalSet& a, const IntervalSet& b);

}  // namespace reprise

// Sorted, disjoint intervals, each with the total length before it: how much of
// any stretch is covered are two searches and a subtraction. Most stretches are
// short, so that their end is looked for from their start on.
#include "data/trace/intervals.h"

#include <algorithm>
#include <iterator>

namespace reprise {
namespace {

bool starts_before(const Interval& a, const Interval& b) {
  return a.start_ns < b.start_ns;
}

}  // namespace

IntervalSet::IntervalSet(std::vector<Interval> intervals)
    : intervals_(std::move(intervals)) {
  for (Interval& interval : intervals_) {
    interval = {clamped_time(interval.start_ns), clamped_time(interval.end_ns)};
  }
  std::erase_if(intervals_,
                [](const Interval& i) { return i.end_ns <= i.start_ns; });
  if (!std::is_sorted(intervals_.begin(), intervals_.end(), starts_before)) {
    std::sort(intervals_.begin(), intervals_.end(), starts_before);
  }
  size_t kept = 0;
  for (const Interval& interval : intervals_) {
    if (kept > 0 && interval.start_ns <= intervals_[kept - 1].end_ns) {
      intervals_[kept - 1].end_ns =
          std::max(intervals_[kept - 1].end_ns, interval.end_ns);
    } else {
      intervals_[kept++] = interval;
    }
  }
  intervals_.resize(kept);
  before_ns_.reserve(kept);
  for (const Interval& interval : intervals_) {
    before_ns_.push_back(total_ns_);
    total_ns_ += interval.end_ns - interval.start_ns;
  }
}

size_t IntervalSet::count_before(int64_t time_ns, size_t least) const {
  const auto is_before = [&](const Interval& interval) {
    return interval.start_ns < time_ns;
  };
  size_t behind = 1;
  while (least + behind <= intervals_.size() &&
         is_before(intervals_[least + behind - 1])) {
    least += behind;
    behind *= 2;
  }
  const auto first = intervals_.begin() + static_cast<std::ptrdiff_t>(least);
  const size_t left = std::min(behind - 1, intervals_.size() - least);
  const auto after = std::partition_point(
      first, first + static_cast<std::ptrdiff_t>(left), is_before);
  return static_cast<size_t>(after - intervals_.begin());
}

int64_t IntervalSet::length_before_ns(int64_t time_ns, size_t count) const {
  if (count == 0) return 0;
  const size_t last = count - 1;
  const Interval& interval = intervals_[last];
  // In this order no sum is beyond twice the latest time.
  return before_ns_[last] +
         (std::min(time_ns, interval.end_ns) - interval.start_ns);
}

int64_t IntervalSet::length_within_ns(int64_t start_ns, int64_t end_ns) const {
  const int64_t start = clamped_time(start_ns), end = clamped_time(end_ns);
  if (start >= end) return 0;
  const auto after = std::partition_point(
      intervals_.begin(), intervals_.end(),
      [&](const Interval& interval) { return interval.start_ns < start; });
  const auto count = static_cast<size_t>(after - intervals_.begin());
  return length_before_ns(end, count_before(end, count)) -
         length_before_ns(start, count);
}

IntervalSet united(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> all;
  all.reserve(a.intervals().size() + b.intervals().size());
  std::merge(a.intervals().begin(), a.intervals().end(), b.intervals().begin(),
             b.intervals().end(), std::back_inserter(all), starts_before);
  return IntervalSet(std::move(all));
}

IntervalSet intersected(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> common;
  auto left = a.intervals().begin();
  auto right = b.intervals().begin();
  while (left != a.intervals().end() && right != b.intervals().end()) {
    const int64_t start = std::max(left->start_ns, right->start_ns);
    const int64_t end = std::min(left->end_ns, right->end_ns);
    if (start < end) common.push_back({start, end});
    if (left->end_ns < right->end_ns) {
      ++left;
    } else {
      ++right;
    }
  }
  return IntervalSet(std::move(common));
}

IntervalSet subtracted(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> others;
  others.reserve(b.intervals().size() + 1);
  int64_t end_ns = -kLatestTime;
  for (const Interval& interval : b.intervals()) {
    others.push_back({end_ns, interval.start_ns});
    end_ns = interval.end_ns;
  }
  others.push_back({end_ns, kLatestTime});
  return intersected(a, IntervalSet(std::move(others)));
}

}  // namespace reprise

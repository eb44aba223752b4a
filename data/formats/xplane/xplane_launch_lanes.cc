#include "data/formats/xplane/xplane_launch_lanes.h"

#include <algorithm>
#include <optional>

#include "data/integers.h"

namespace reprise {
namespace {

using Span = XplaneLaunchLanes::Span;

/// Outer ones first.
bool starts_before(const Span& left, const Span& right) {
  if (left.start_ns != right.start_ns) return left.start_ns < right.start_ns;
  return left.end_ns > right.end_ns;
}

/// The time of the innermost ranges around the calls, both in order; empty if a
/// call is in none, or crosses one's border.
std::optional<int64_t> time_around(const std::vector<Span>& calls,
                                   const std::vector<Span>& ranges) {
  std::vector<Span> open;
  int64_t around_ns = 0;
  size_t next = 0;
  for (const Span& call : calls) {
    for (; next < ranges.size() && ranges[next].start_ns <= call.start_ns;
         ++next) {
      while (!open.empty() && open.back().end_ns <= ranges[next].start_ns) {
        open.pop_back();
      }
      open.push_back(ranges[next]);
    }
    while (!open.empty() && open.back().end_ns <= call.start_ns) {
      open.pop_back();
    }
    if (open.empty() || open.back().end_ns < call.end_ns) return std::nullopt;
    if (next < ranges.size() && ranges[next].start_ns < call.end_ns &&
        ranges[next].end_ns > call.end_ns) {
      return std::nullopt;
    }
    around_ns =
        saturating_add(around_ns, open.back().end_ns - open.back().start_ns);
  }
  return around_ns;
}

}  // namespace

void XplaneLaunchLanes::add_thread(int64_t line, std::vector<Span> ranges) {
  std::sort(ranges.begin(), ranges.end(), starts_before);
  threads_.emplace_back(line, std::move(ranges));
}

void XplaneLaunchLanes::add_lane(int64_t line, std::vector<Span> calls) {
  std::sort(calls.begin(), calls.end(), starts_before);
  lanes_.emplace_back(line, std::move(calls));
}

std::map<int64_t, int64_t> XplaneLaunchLanes::joined() {
  std::map<int64_t, int64_t> joined;
  for (const auto& [lane, calls] : lanes_) {
    std::optional<int64_t> least_ns;
    std::pair<int64_t, std::vector<Span>>* found = nullptr;
    for (auto& thread : threads_) {
      const std::optional<int64_t> around_ns =
          time_around(calls, thread.second);
      if (!around_ns || (least_ns && *around_ns > *least_ns)) continue;
      found = least_ns == around_ns ? nullptr : &thread;
      least_ns = around_ns;
    }
    if (found == nullptr || calls.empty()) continue;
    joined.emplace(lane, found->first);
    const auto middle = static_cast<int64_t>(found->second.size());
    found->second.insert(found->second.end(), calls.begin(), calls.end());
    std::inplace_merge(found->second.begin(), found->second.begin() + middle,
                       found->second.end(), starts_before);
  }
  return joined;
}

}  // namespace reprise

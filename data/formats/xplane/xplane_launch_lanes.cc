#include "data/formats/xplane/xplane_launch_lanes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "data/formats/xplane/xplane_names.h"
#include "data/formats/xplane/xplane_row.h"
#include "data/integers.h"

namespace reprise {
namespace {

/// Where what traces the calls names its threads itself.
constexpr std::string_view kLaunchLane = "Host Threads/";
/// Each looks through all ranges.
constexpr int64_t kMostLaunchLanes = 64;

struct LaneSpan {
  int64_t start_ns = 0, end_ns = 0;
};
using LaneSpans = std::vector<LaneSpan>;

/// Outer ones first.
bool starts_before(const LaneSpan& left, const LaneSpan& right) {
  if (left.start_ns != right.start_ns) return left.start_ns < right.start_ns;
  return left.end_ns > right.end_ns;
}

/// The time of the innermost ranges around the calls, both in order; empty if a
/// call is in none, or crosses one's border.
std::optional<int64_t> time_around(const LaneSpans& calls,
                                   const LaneSpans& ranges) {
  LaneSpans open;
  int64_t around_ns = 0;
  size_t next = 0;
  for (const LaneSpan& call : calls) {
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

/// Lines by place, with what is on them.
using Threads = std::vector<std::pair<size_t, LaneSpans>>;
/// The thread that made the calls, or nullptr.
std::pair<size_t, LaneSpans>* thread_around(const LaneSpans& calls,
                                            Threads& threads) {
  std::optional<int64_t> least_ns;
  std::pair<size_t, LaneSpans>* found = nullptr;
  for (auto& thread : threads) {
    const std::optional<int64_t> around_ns = time_around(calls, thread.second);
    if (!around_ns || (least_ns && *around_ns > *least_ns)) continue;
    found = least_ns == around_ns ? nullptr : &thread;
    least_ns = around_ns;
  }
  return found;
}

struct LineSpans {
  LaneSpans ranges, calls;  ///< In order.
};
LineSpans spans_of(const Xplane& plane, const XplaneLine& line) {
  LineSpans spans;
  XplaneRow row;
  FileReport uncounted;
  XplaneEvents events(line);
  for (std::string_view bytes; events.next(bytes);) {
    if (!read_xplane_row(plane, line, bytes, row, uncounted)) continue;
    const LaneSpan span = {row.event.start_ns, row.event.end_ns};
    // Steps are around all threads.
    const bool range = !is_python_call(row.name) &&
                       span.end_ns > span.start_ns &&
                       !row.stats.has(XplaneStat::kStepNumber);
    if (row.event.correlation >= 0) {
      spans.calls.push_back(span);
    } else if (range) {
      spans.ranges.push_back(span);
    }
  }
  std::sort(spans.ranges.begin(), spans.ranges.end(), starts_before);
  std::sort(spans.calls.begin(), spans.calls.end(), starts_before);
  return spans;
}

}  // namespace

void join_launch_lanes(const Xplane& plane, std::vector<XplaneLine>& lines) {
  const auto is_lane = [](const XplaneLine& line) {
    return line.name.starts_with(kLaunchLane) && line.events > 0;
  };
  const int64_t count = std::count_if(lines.begin(), lines.end(), is_lane);
  if (count == 0 || count > kMostLaunchLanes) return;
  Threads threads, lanes;
  for (size_t place = 0; place < lines.size(); ++place) {
    LineSpans spans = spans_of(plane, lines[place]);
    if (!spans.ranges.empty()) {
      threads.emplace_back(place, std::move(spans.ranges));
    } else if (is_lane(lines[place]) && !spans.calls.empty()) {
      lanes.emplace_back(place, std::move(spans.calls));
    }
  }
  for (const auto& [lane, calls] : lanes) {
    auto* const thread = thread_around(calls, threads);
    if (thread == nullptr) continue;
    lines[lane].id = lines[thread->first].id;
    lines[lane].name = lines[thread->first].name;
    LaneSpans& ranges = thread->second;
    const auto middle = static_cast<std::ptrdiff_t>(ranges.size());
    ranges.insert(ranges.end(), calls.begin(), calls.end());
    std::inplace_merge(ranges.begin(), ranges.begin() + middle, ranges.end(),
                       starts_before);
  }
}

}  // namespace reprise

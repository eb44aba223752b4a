// ROCm's calls stand on lines of their own ("Host Threads/1083"), whose numbers
// are none of the threads' that the ranges stand on. A call is made by the
// thread that is inside the range that says so: which one it is, the times
// tell.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace reprise {

/// The lines of one host. What has not both ranges and calls joins nothing.
class XplaneLaunchLanes {
 public:
  struct Span {
    int64_t start_ns = 0, end_ns = 0;
  };

  void add_thread(int64_t line, std::vector<Span> ranges);
  /// **Requires** nothing but calls on it.
  void add_lane(int64_t line, std::vector<Span> calls);

  /// Lane -> the thread whose ranges contain all its calls, crossed by none of
  /// them or of a lane that joined it; of several the one whose innermost
  /// ranges are the shortest. Lanes that no thread contains, or two as closely,
  /// are left out. **Cost** linear in all spans, for each lane.
  std::map<int64_t, int64_t> joined();

 private:
  std::vector<std::pair<int64_t, std::vector<Span>>> threads_, lanes_;
};

}  // namespace reprise

// A limit on waits that this process cannot look into, such as MPI's own for
// all ranks at the start and at the end.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace reprise {

/// Calls `expired`, on a thread of its own, unless it ends within the time.
class WaitLimit {
 public:
  WaitLimit(double seconds, std::function<void()> expired);
  ~WaitLimit();
  WaitLimit(const WaitLimit&) = delete;
  WaitLimit& operator=(const WaitLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

/// Ranks that the same launcher started on this host and that somebody has
/// stopped (SIGSTOP, a debugger), ascending. Source: proc(5).
std::vector<int> stopped_ranks_here();

}  // namespace reprise

// Tasks of a host's thread pool: tsl's ThreadpoolListener marks where each is
// handed over and where a thread begins and ends it, both with the task's id.
// Source: xla/tsl/profiler/backends/cpu/threadpool_listener.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "data/formats/xplane/xplane_cpu_devices.h"
#include "data/formats/xplane/xplane_proto.h"
#include "data/formats/xplane/xplane_row.h"
#include "data/trace/intervals.h"

namespace reprise {

/// Which tasks were both handed over and begun, and of which rank each is: that
/// of the operation that hands it over, else of the first operation in it (one
/// that waits may take over another device's).
class PoolTasks {
 public:
  PoolTasks() = default;
  /// **Cost** n log n in the planes' events.
  PoolTasks(const std::vector<std::string_view>& hosts,
            const CpuDevices& devices);

  /// What both ends of a task are known by in a trace: an external id for
  /// where it is handed over, the next one for where it runs.
  struct Task {
    int64_t external_id = -1;
    uint32_t rank = 0;
  };
  /// The task with an id, or nullptr.
  const Task* find(int64_t id) const;

 private:
  std::map<int64_t, Task> tasks_;
};

/// An operator on a host's thread that the marks tell of.
struct PoolEvent {
  std::string_view name;
  Interval time;
  uint32_t rank = 0;
  int64_t external_id = -1;
  int64_t after = -1;  ///< The external id of what it depends on, if any.
};

/// Walks one thread's events in their order.
class PoolTaskWalk {
 public:
  explicit PoolTaskWalk(const PoolTasks& tasks) : tasks_(tasks) {}

  /// Appends what the marks up to this event tell: a hand-over without length,
  /// a task's start, which depends on it, and each stretch of the innermost
  /// task that no event within it names (such events may be other ranks').
  /// Whether the event itself is a mark of a task that is known whole.
  bool take(const XplaneRow& row, std::vector<PoolEvent>& found);

 private:
  bool hand_over(const XplaneRow& row, std::vector<PoolEvent>& found) const;
  bool begin(const XplaneRow& row, std::vector<PoolEvent>& found);
  bool end();
  void work_until(int64_t now_ns, std::vector<PoolEvent>& found);

  const PoolTasks& tasks_;
  std::vector<const PoolTasks::Task*> open_;  ///< Innermost last; or null.
  /// Until when what it did is told.
  int64_t told_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace reprise

// The tasks that run at one instant of a simulation, how fast each runs, and
// which of them has its next event first.
//
// Work is counted in ticks and rates in 1/1024, all integers, so that a replay
// is the same on every machine. A task is rebased only when its rate changes,
// and only once an event has been dealt with: what changes twice within an
// instant is not rebased.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "replay/graph/evaluate.h"
#include "replay/graph/timed_graph.h"
#include "replay/simulate/earliest_event.h"

namespace reprise {

/// `remaining` ticks at time `since`, running kAlone/slowdown as fast as alone.
/// Work of a nanosecond alone is 2^shift: kAloneBits more than a tick's bits.
struct RunningTask {
  int64_t remaining = 0, since_ns = 0;
  int64_t slowdown = kAlone;

  /// When it ends at its present rate, rounded up.
  int64_t end_ns(int shift) const {
    const Wide scaled = static_cast<Wide>(remaining) * slowdown;
    const Wide after = (scaled + ((Wide{1} << shift) - 1)) >> shift;
    return since_ns + static_cast<int64_t>(after);
  }
  void rebase(int64_t now_ns, int64_t new_slowdown, int shift) {
    constexpr int64_t kNarrow = int64_t{1} << 42;
    const int64_t elapsed_ns = std::max<int64_t>(0, now_ns - since_ns);
    const int64_t done =
        elapsed_ns < kNarrow
            ? (elapsed_ns << shift) / slowdown
            : static_cast<int64_t>((Wide{elapsed_ns} << shift) / slowdown);
    remaining = std::max<int64_t>(0, remaining - done);
    since_ns = std::max(since_ns, now_ns);
    slowdown = new_slowdown;
  }

 private:
  __extension__ typedef __int128 Wide;
};

enum class TaskPhase : uint8_t {
  kFree,
  kQueue,    ///< Ready at its time, then in want of its resource.
  kStart,    ///< The node's gap passes.
  kGather,   ///< All members are in, but the transfer has not begun.
  kCompute,  ///< A node runs that is no transfer.
  kLatency,  ///< Of a transfer on a link; then kTransfer.
  kTransfer,
};

class RunningTasks {
 public:
  using Task = RunningTask;
  struct Slot {
    Task task;
    uint32_t node = 0, count = 0;  ///< Nodes node .. node + count run as one.
    TaskPhase phase = TaskPhase::kFree;
    bool stale = false;       ///< Its rate must be looked at.
    int64_t shared_work = 0;  ///< kLatency: what follows, in ticks.
  };

  explicit RunningTasks(const TimedGraph& graph);

  /// An event of the node at a time, nothing running.
  void wait(uint32_t node, TaskPhase phase, int64_t time_ns);
  /// Nodes begin to run as one. Returns the task.
  const Task& run(uint32_t node, uint32_t count, TaskPhase phase, int64_t work,
                  int64_t now_ns);
  /// Takes what ended, or what waited, away.
  Slot finish(uint32_t slot);
  /// The latency of a transfer has passed: the rest shares its link.
  void enter_link(uint32_t slot, int64_t now_ns);
  /// Brings all rates in line.
  void refresh(int64_t now_ns);

  /// When a task ends at its present rate.
  int64_t end_of(const Task& task) const {
    return std::min(task.end_ns(shift_), kEndOfTime);
  }
  int64_t next_ns() const { return events_.time_ns(); }
  uint32_t next_slot() const { return static_cast<uint32_t>(events_.slot()); }
  TaskPhase phase(uint32_t slot) const { return slots_[slot].phase; }

 private:
  struct Busy {
    std::vector<uint32_t> compute, transfers;  // Slots.
  };

  bool contends(uint32_t node) const {
    return !graph_.slowdown.empty() && graph_.slowdown[node] > 0;
  }
  uint32_t take_slot(uint32_t node);
  void leave(uint32_t index, uint32_t node);
  void begin_latency(Slot& slot) const;
  std::vector<uint32_t>* link_of(const Slot& slot);
  void mark(const std::vector<uint32_t>& slots);
  int64_t slowdown_of(const Slot& slot);
  bool is_beside_other(const Slot& slot) const;

  const TimedGraph& graph_;
  const int shift_ = graph_.tick_bits + kAloneBits;
  std::vector<Slot> slots_;  // By resource, then as many more as it takes.
  uint32_t resources_ = 0;
  std::vector<uint32_t> free_, stale_;
  std::vector<Busy> ranks_;
  std::vector<std::vector<uint32_t>> links_;  // Slots that share one.
  EarliestEvent events_;
};

}  // namespace reprise

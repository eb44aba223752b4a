// Priority list scheduling: whenever a stream is free, its ready op of highest
// priority starts (non-delay). Priorities are tails unless a search edits them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "optimizer/order/order_graph.h"

namespace reprise {

/// As a cutoff: none. As a makespan: beyond the cutoff.
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Schedules by priorities (higher first, ties by smaller id); reusable, so
/// that a search allocates nothing. Not thread-safe: one a thread.
class ListScheduler {
 public:
  explicit ListScheduler(const OrderGraph& graph);

  /// Makespan under `priority` [op]. Gives up, returning INT64_MAX, once the
  /// makespan is known to exceed `cutoff`. Cost: O((ops + dependencies) log
  /// ops).
  int64_t run(std::span<const int64_t> priority, int64_t cutoff);
  /// The last run's solution, its sequence sorted by (start, stream).
  OrderSolution solution() const;

 private:
  struct Running {
    int64_t end = 0;
    uint32_t op = 0;
    bool busy = false;
  };
  void release(uint32_t op, std::span<const int64_t> priority);
  bool start_ready(int64_t now, int64_t cutoff);
  int64_t next_end() const;

  const OrderGraph* graph_;
  std::vector<uint32_t> waiting_, initial_waiting_, sequence_;
  std::vector<int64_t> start_;
  /// [stream], heaps.
  std::vector<std::vector<std::pair<int64_t, uint32_t>>> ready_;
  std::vector<Running> running_;  ///< [stream]
  int64_t makespan_ = 0;
};

/// Critical-path list scheduling: priority = longest path from an op's start to
/// the end.
OrderSolution schedule_by_critical_path(const OrderGraph& graph);

/// Priorities that make the list scheduler follow a sequence wherever it never
/// delays.
std::vector<int64_t> priorities_of(const std::vector<uint32_t>& sequence);

}  // namespace reprise

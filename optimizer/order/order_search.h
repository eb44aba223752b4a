// Searches for a short order: critical-path list scheduling, local search on
// priorities, then exact windows by GLPK, in parallel chains. Stops at the
// lower bound.
//
// For a fixed number of evaluations the answer is the same for a seed and any
// number of threads: chains are fixed in number, work in rounds of fixed length
// and are reduced in index order. A time limit is looked at between rounds
// only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "optimizer/order/order_graph.h"

namespace reprise {

struct OrderSearchOptions {
  uint64_t evaluations = 200000;  ///< Schedules and MIP nodes, together.
  /// Stops earlier when given.
  std::optional<std::chrono::nanoseconds> time_limit = {};
  std::function<bool()> should_stop = {};  ///< Asked between rounds.
  uint64_t seed = 0;
  int threads = 1;
  bool windows = true;  ///< Exact windows by GLPK; all else stays as it is.
  uint32_t window_ops = 16;
};

struct OrderSearchResult {
  OrderSolution best;
  int64_t lower_bound = 0;
  uint64_t evaluations = 0;
  uint64_t windows_solved = 0, windows_improved = 0;
};

/// `start`, when given, is a valid sequence to begin from beside the list
/// schedules; the answer is never longer than it.
OrderSearchResult search_order(const OrderGraph& graph,
                               const OrderSearchOptions& options,
                               const std::vector<uint32_t>* start = nullptr);

}  // namespace reprise

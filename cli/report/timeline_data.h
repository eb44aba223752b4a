// The timeline of a report: what ran in the analysed window, on rank 0's clock,
// a row a stream (of a host thread, a row a depth).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/trace/trace_by_rank.h"
#include "replay/analysis/analysis.h"

namespace reprise {

struct TimelineRow {
  std::string name;
  std::vector<int64_t> start_ns, duration_ns;  ///< By start; none overlap.
  std::vector<uint32_t> text;                  ///< In TimelineData::names.
  std::vector<uint8_t> kind;  ///< Compute, communication, copy, host.
};

struct TimelineData {
  /// More is not drawn: the shortest events are left out.
  static constexpr size_t kMostEvents = 150'000;

  int64_t start_ns = 0, span_ns = 0;
  std::vector<TimelineRow> rows;
  std::vector<std::string> names;
  size_t left_out = 0;
  nlohmann::ordered_json json(const NodeFacts& facts,
                              const CriticalPath& path) const;
  /// [number of the event] is in this row, of those on the critical path.
  std::vector<std::pair<uint32_t, int32_t>> row_of_event;
};

/// Requires: clocks aligned. Cost: O(events log events) of one rank at a time.
TimelineData timeline_data(const TraceByRank& trace, const Analysis& analysis);

}  // namespace reprise

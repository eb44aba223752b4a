#include "cli/report/timeline_data.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "data/integers.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kDeepest = 3;  ///< Rows of a host thread.
constexpr size_t kLongestName = 120;

/// 0 compute, 1 communication, 2 copy, 3 host; 255: not drawn.
uint8_t kind_of(const Trace& trace, const Event& event) {
  switch (event.kind) {
    case EventKind::kCompute:
      return 0;
    case EventKind::kCollective:
      return 1;
    case EventKind::kCopy:
    case EventKind::kMemset:
      return 2;
    case EventKind::kOverhead:
      return 255;
    default:
      return trace.streams[event.stream].kind == StreamKind::kDeviceStream ? 255
                                                                           : 3;
  }
}

class TimelineBuilder {
 public:
  TimelineBuilder(const TraceByRank& trace, const Analysis& analysis)
      : by_rank_(trace), trace_(trace.frame()) {
    find_window(analysis);
    for (const PathEntry& entry : analysis.critical_path.entries) {
      on_path_.try_emplace(entry.origin, -1);
    }
  }

  TimelineData build() && {
    for (const RankInfo& rank : trace_.ranks) {
      if (is_timed(rank)) add_rank(rank);
    }
    trim();
    for (const auto& [event, row] : on_path_) {
      data_.row_of_event.emplace_back(event, row);
    }
    std::sort(data_.row_of_event.begin(), data_.row_of_event.end());
    return std::move(data_);
  }

 private:
  void find_window(const Analysis& analysis) {
    int64_t first_ns = kLatestTime, last_ns = -kLatestTime;
    const auto add = [&](int64_t start_ns, int64_t end_ns) {
      first_ns = std::min(first_ns, start_ns);
      last_ns = std::max(last_ns, end_ns);
    };
    if (analysis.graph) {
      for (const TimedGraph::Span& rank : analysis.graph->ranks) {
        if (rank.end_ns >= rank.start_ns) add(rank.start_ns, rank.end_ns);
      }
    } else {
      for (const RankAnalysis& rank : analysis.ranks) {
        const RankInfo& info = trace_.ranks[place_of(rank.rank)];
        const Breakdown& window =
            rank.steps.empty() ? rank.window
                               : rank.steps[rank.steps.size() / 2].window;
        const int64_t start_ns = to_rank0_ns(info, window.window_start_ns);
        add(start_ns, saturating_add(start_ns, window.window_ns));
      }
    }
    data_.start_ns = first_ns;
    data_.span_ns =
        std::max<int64_t>(1, saturating_subtract(last_ns, first_ns));
  }

  size_t place_of(uint32_t rank) const {
    for (size_t place = 0; place < trace_.ranks.size(); ++place) {
      if (trace_.ranks[place].rank == rank) return place;
    }
    return 0;
  }

  void add_rank(const RankInfo& rank) {
    const RankEvents events = by_rank_.of_rank(rank.rank);
    rows_of_stream_.clear();
    for (const bool device : {true, false}) {
      for (uint32_t at = events.first; at < events.last; ++at) {
        const Event& event = events.trace.events[at];
        const bool host =
            trace_.streams[event.stream].kind == StreamKind::kHostThread;
        if (host != device) add_event(rank, event, events.number(at));
      }
    }
  }

  int64_t on_timeline(const RankInfo& rank, int64_t time_ns) const {
    return saturating_subtract(to_rank0_ns(rank, time_ns), data_.start_ns);
  }

  void add_event(const RankInfo& rank, const Event& event, uint32_t number) {
    const uint8_t kind = kind_of(trace_, event);
    if (kind == 255) return;
    const int64_t start_ns = on_timeline(rank, event.start_ns);
    const int64_t end_ns = on_timeline(rank, event.end_ns);
    if (end_ns < 0 || start_ns > data_.span_ns || end_ns < start_ns) return;
    const int32_t row = row_for(rank, event, start_ns);
    if (const auto path = on_path_.find(number); path != on_path_.end()) {
      path->second = row >= 0 ? row : last_row_;
    }
    if (row < 0) return;
    last_row_ = row;
    TimelineRow& into = data_.rows[static_cast<size_t>(row)];
    const int64_t from_ns = std::max<int64_t>(0, start_ns);
    into.start_ns.push_back(from_ns);
    into.duration_ns.push_back(std::min(end_ns, data_.span_ns) - from_ns);
    into.kind.push_back(kind);
    into.text.push_back(name_number(event.name));
  }

  /// The first row of the stream that is free again; -1: all are in use.
  int32_t row_for(const RankInfo& rank, const Event& event, int64_t start_ns) {
    std::vector<int32_t>& rows = rows_of_stream_[event.stream];
    for (const int32_t row : rows) {
      const TimelineRow& one = data_.rows[static_cast<size_t>(row)];
      const int64_t free_ns =
          one.start_ns.empty() ? 0
                               : one.start_ns.back() + one.duration_ns.back();
      if (free_ns <= std::max<int64_t>(0, start_ns)) return row;
    }
    if (rows.size() == kDeepest) return -1;
    TimelineRow& row = data_.rows.emplace_back();
    if (rows.empty()) {
      row.name = "rank " + std::to_string(rank.rank) + " " +
                 trace_.streams[event.stream].name.substr(0, kLongestName);
    }
    rows.push_back(static_cast<int32_t>(data_.rows.size() - 1));
    return rows.back();
  }

  uint32_t name_number(StringId name) {
    const auto [known, added] = numbers_.try_emplace(
        index_of(name), static_cast<uint32_t>(data_.names.size()));
    if (added) {
      data_.names.push_back(trace_.text(name).substr(0, kLongestName));
    }
    return known->second;
  }

  void trim() {
    std::vector<int64_t> durations;
    for (const TimelineRow& row : data_.rows) {
      durations.insert(durations.end(), row.duration_ns.begin(),
                       row.duration_ns.end());
    }
    if (durations.size() <= TimelineData::kMostEvents) return;
    const auto place = durations.begin() + static_cast<std::ptrdiff_t>(
                                               TimelineData::kMostEvents - 1);
    std::nth_element(durations.begin(), place, durations.end(),
                     std::greater<>());
    const int64_t least_ns = *place;
    for (TimelineRow& row : data_.rows) {
      TimelineRow kept;
      kept.name = row.name;
      for (size_t at = 0; at < row.start_ns.size(); ++at) {
        if (row.duration_ns[at] <= least_ns) {
          ++data_.left_out;
          continue;
        }
        kept.start_ns.push_back(row.start_ns[at]);
        kept.duration_ns.push_back(row.duration_ns[at]);
        kept.kind.push_back(row.kind[at]);
        kept.text.push_back(row.text[at]);
      }
      row = std::move(kept);
    }
  }

  const TraceByRank& by_rank_;
  const Trace& trace_;
  TimelineData data_;
  std::map<uint32_t, std::vector<int32_t>> rows_of_stream_;
  std::unordered_map<uint32_t, uint32_t> numbers_;
  std::unordered_map<uint32_t, int32_t> on_path_;
  int32_t last_row_ = 0;
};

}  // namespace

TimelineData timeline_data(const TraceByRank& trace, const Analysis& analysis) {
  return TimelineBuilder(trace, analysis).build();
}

Json TimelineData::json(const NodeFacts& facts,
                        const CriticalPath& path) const {
  Json lanes = Json::array();
  for (const TimelineRow& row : rows) {
    lanes.push_back({{"name", row.name},
                     {"s", row.start_ns},
                     {"d", row.duration_ns},
                     {"n", row.text},
                     {"k", row.kind}});
  }
  Json entries = Json::array();
  for (const PathEntry& entry : path.entries) {
    const auto row = std::lower_bound(row_of_event.begin(), row_of_event.end(),
                                      std::pair(entry.origin, int32_t{-1}));
    const bool known = row != row_of_event.end() && row->first == entry.origin;
    entries.push_back({known ? row->second : -1, entry.start_ns - start_ns,
                       entry.duration_ns, name_of(entry.kind),
                       path_name(facts, entry).substr(0, kLongestName)});
  }
  return {{"span", span_ns},
          {"lanes", std::move(lanes)},
          {"names", names},
          {"path", std::move(entries)}};
}

}  // namespace reprise

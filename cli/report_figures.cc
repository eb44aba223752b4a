#include "cli/report_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "data/median.h"

namespace reprise {
namespace {

constexpr size_t kMostBoxes = 6000;
constexpr size_t kMostRanks = 64;

struct Alike {
  CollectiveKind kind = CollectiveKind::kUnknown;
  size_t ranks = 0;
  int64_t bytes = 0;
  std::vector<int64_t> transfer_ns;
  std::vector<double> bandwidth;
  double wait_ns = 0;
  size_t waits = 0;
  int64_t total_ns = 0;

  double mean_wait_ns() const {
    return waits > 0 ? wait_ns / static_cast<double>(waits) : 0;
  }
  std::string name() const {
    return fmt::format(
        "{} {}",
        kind == CollectiveKind::kUnknown ? "collective" : name_of(kind),
        bytes > 0 ? bytes_text(static_cast<double>(bytes)) : "");
  }
};

/// Longest total first.
std::vector<Alike> alike_collectives(const Analysis& analysis) {
  std::map<std::tuple<CollectiveKind, size_t, int64_t>, Alike> groups;
  for (const uint32_t place : analysis.collectives) {
    const MatchedCollective& one = analysis.matching.collectives[place];
    const CollectiveTimes& times = analysis.times[place];
    const size_t ranks = std::max(one.group.size(), one.members.size());
    Alike& group = groups[{one.kind, ranks, one.bytes}];
    group.kind = one.kind;
    group.ranks = ranks;
    group.bytes = one.bytes;
    group.transfer_ns.push_back(times.transfer_ns);
    group.bandwidth.push_back(times.bus_bandwidth_bytes_per_s);
    group.total_ns += times.transfer_ns;
    if (one.members.size() < 2) continue;
    for (const int64_t wait_ns : times.wait_ns) {
      group.wait_ns += static_cast<double>(wait_ns);
      ++group.waits;
    }
  }
  std::vector<Alike> sorted;
  sorted.reserve(groups.size());
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Alike& a, const Alike& b) { return a.total_ns > b.total_ns; });
  return sorted;
}

}  // namespace

BarChart breakdown_chart(const Analysis& analysis) {
  BarChart chart;
  chart.title = "Where a step's time goes, by rank";
  chart.legend = {"compute", "exposed communication", "copies", "idle"};
  for (const RankAnalysis& rank : analysis.ranks) {
    if (chart.rows.size() == kMostRanks) break;
    std::vector<const Breakdown*> windows;
    for (const StepAnalysis& step : rank.steps) windows.push_back(&step.window);
    if (windows.empty()) windows.push_back(&rank.window);
    std::vector<double> parts(4, 0);
    double sum_ns = 0;
    for (const Breakdown* window : windows) {
      const double share = 1 / static_cast<double>(windows.size());
      const Breakdown::Exclusive& own = window->exclusive;
      parts[0] += share * static_cast<double>(own.compute_ns);
      parts[1] += share * static_cast<double>(own.exposed_ns);
      parts[2] += share * static_cast<double>(own.memory_ns);
      parts[3] += share * static_cast<double>(own.idle_ns);
      sum_ns += share * static_cast<double>(window->window_ns);
    }
    // Idle time has the last colour, as where nothing runs.
    parts.insert(parts.begin() + 3, 0);
    chart.rows.push_back({fmt::format("rank {}", rank.rank),
                          duration_text(sum_ns), std::move(parts)});
  }
  chart.legend.insert(chart.legend.begin() + 3, "");
  return chart;
}

BarChart collectives_chart(const Analysis& analysis, size_t top) {
  BarChart chart;
  chart.title = "Collectives: transfer, and wait for the last rank";
  chart.legend = {"median transfer", "mean wait"};
  for (const Alike& group : alike_collectives(analysis)) {
    if (chart.rows.size() == top) break;
    const int64_t transfer_ns = lower_median(group.transfer_ns);
    chart.rows.push_back(
        {group.name(),
         fmt::format("{} x {}", group.transfer_ns.size(),
                     time_text(transfer_ns)),
         {static_cast<double>(transfer_ns), group.mean_wait_ns()}});
  }
  return chart;
}

Table collectives_best_table(const Analysis& analysis, size_t top) {
  Table table;
  table.headings = {"collective", "ranks",         "count",     "mean wait",
                    "transfer",   "bus bandwidth", "best seen", "of it"};
  for (const Alike& group : alike_collectives(analysis)) {
    if (table.rows.size() == top) break;
    const double best =
        *std::max_element(group.bandwidth.begin(), group.bandwidth.end());
    const double typical = lower_median(group.bandwidth);
    const auto speed = [](double value) {
      return value > 0 ? bytes_text(value) + "/s" : std::string("-");
    };
    table.rows.push_back(
        {group.name(), std::to_string(group.ranks),
         std::to_string(group.transfer_ns.size()),
         group.waits > 0 ? duration_text(group.mean_wait_ns()) : "-",
         time_text(lower_median(group.transfer_ns)), speed(typical),
         speed(best), best > 0 ? share_text(typical / best) : "-"});
  }
  return table;
}

std::string still_timeline_svg(const TimelineData& data) {
  std::vector<std::string> rows;
  std::vector<TimelineBox> boxes;
  for (const TimelineRow& row : data.rows) {
    for (size_t at = 0; at < row.start_ns.size(); ++at) {
      boxes.push_back({.row = rows.size(),
                       .color = row.kind[at],
                       .start_ns = row.start_ns[at],
                       .duration_ns = row.duration_ns[at]});
    }
    rows.push_back(row.name);
  }
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const TimelineBox& a, const TimelineBox& b) {
                     return a.duration_ns > b.duration_ns;
                   });
  if (boxes.size() > kMostBoxes) boxes.resize(kMostBoxes);
  return timeline_svg(rows, boxes, data.span_ns);
}

}  // namespace reprise

#include "cli/analysis_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/findings_output.h"
#include "cli/path_output.h"
#include "data/integers.h"
#include "data/median.h"
#include "replay/analysis/kernel_name.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

constexpr size_t kKernelNameWidth = 48;

/// Sums over windows: of a rank's steps, or of ranks.
struct Sum {
  int64_t windows = 0, window_ns = 0, communication_ns = 0, overlapped_ns = 0;
  Breakdown::Exclusive parts;
  IdleCauses idle;

  void add(const Breakdown& window, const IdleCauses& causes) {
    ++windows;
    window_ns = saturating_add(window_ns, window.window_ns);
    communication_ns =
        saturating_add(communication_ns, window.communication_ns);
    overlapped_ns = saturating_add(overlapped_ns, window.overlapped_ns);
    parts.compute_ns =
        saturating_add(parts.compute_ns, window.exclusive.compute_ns);
    parts.exposed_ns =
        saturating_add(parts.exposed_ns, window.exclusive.exposed_ns);
    parts.memory_ns =
        saturating_add(parts.memory_ns, window.exclusive.memory_ns);
    parts.idle_ns = saturating_add(parts.idle_ns, window.exclusive.idle_ns);
    for (size_t i = 0; i < kIdleCauses; ++i) {
      idle.by_cause_ns[i] =
          saturating_add(idle.by_cause_ns[i], causes.by_cause_ns[i]);
    }
  }
  void add(const RankAnalysis& rank) {
    for (const StepAnalysis& step : rank.steps) add(step.window, step.idle);
    if (rank.steps.empty()) add(rank.window, rank.idle);
  }
};

/// What the replay is of, where that is more than the device's time by what
/// nobody would pass over: "13 ms of device work (9.73 s recorded)".
std::string span_of(const Analysis& analysis, int64_t device_ns) {
  const std::string text = "span " + time_text(device_ns);
  if (!analysis.graph) return text;
  const int64_t all_ns = recorded_span_ns(*analysis.graph);
  if (all_ns / 2 < device_ns) return text;
  return fmt::format("{} of device work ({} recorded)", text,
                     time_text(all_ns));
}

/// Where nobody would pass it over.
std::string between_steps(const Analysis& analysis,
                          const TypicalStep& typical) {
  constexpr double kNoticeable = 0.05;
  const int64_t between_ns = analysis.between_steps_ns;
  const bool apart = static_cast<double>(between_ns) >
                     kNoticeable * static_cast<double>(typical.median_ns);
  return apart ? fmt::format("; {} between two", time_text(between_ns)) : "";
}

/// "step 219 ms (median of 6, 210 to 425 ms)", "span 5.98 ms".
std::string time_of(const Analysis& analysis) {
  if (!analysis.step_ns) {
    int64_t longest_ns = 0;
    for (const RankAnalysis& rank : analysis.ranks) {
      longest_ns = std::max(longest_ns, rank.window.window_ns);
    }
    return span_of(analysis, longest_ns);
  }
  const std::string text = "step " + time_text(*analysis.step_ns);
  if (!analysis.typical || analysis.typical->steps < 2) return text;
  return fmt::format("{} (median of {}, {} to {}{})", text,
                     analysis.typical->steps,
                     time_text(analysis.typical->least_ns),
                     time_text(analysis.typical->most_ns),
                     between_steps(analysis, *analysis.typical));
}

/// Columns of which no row says anything, except those that are always there.
void drop_empty_columns(Table& table) {
  static const std::set<std::string> optional = {
      "exposed",   "hidden",   "copies",    "+ sync",
      "+ streams", "+ launch", "+ unknown", ""};
  for (size_t column = table.headings.size(); column-- > 1;) {
    const bool empty =
        std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
          return row[column] == "0 %" || row[column] == "-" ||
                 row[column].empty();
        });
    if (!empty || !optional.contains(table.headings[column])) continue;
    const auto at = static_cast<std::ptrdiff_t>(column);
    table.headings.erase(table.headings.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
}

void add_breakdown_row(const std::string& name, const std::string& steps,
                       const Sum& sum, Table& table) {
  const int64_t whole = sum.window_ns;
  const auto of_window = [&](int64_t part) { return share_text(part, whole); };
  table.rows.push_back(
      {name, steps, time_text(whole / std::max(sum.windows, int64_t{1})),
       of_window(sum.parts.compute_ns), of_window(sum.parts.exposed_ns),
       share_text(sum.overlapped_ns, sum.communication_ns),
       of_window(sum.parts.memory_ns), of_window(sum.parts.idle_ns),
       of_window(sum.idle[IdleCause::kHost]),
       of_window(sum.idle[IdleCause::kSynchronized]),
       of_window(sum.idle[IdleCause::kCollective] +
                 sum.idle[IdleCause::kKernel]),
       of_window(sum.idle[IdleCause::kLaunch]),
       of_window(sum.idle[IdleCause::kUnknown])});
}

/// A row a rank; of a single rank, a row a step.
Table breakdown_table(const Analysis& analysis, size_t top) {
  Table table;
  const bool by_step =
      analysis.ranks.size() == 1 && analysis.ranks[0].steps.size() > 1;
  table.headings = {by_step ? "step" : "rank",
                    by_step ? "" : "steps",
                    "window",
                    "compute",
                    "exposed",
                    "hidden",
                    "copies",
                    "idle",
                    "= host",
                    "+ sync",
                    "+ streams",
                    "+ launch",
                    "+ unknown"};
  if (by_step) {
    for (const StepAnalysis& step : analysis.ranks[0].steps) {
      Sum sum;
      sum.add(step.window, step.idle);
      add_breakdown_row(std::to_string(step.mark.step), "", sum, table);
    }
  } else {
    for (const RankAnalysis& rank : analysis.ranks) {
      Sum sum;
      sum.add(rank);
      add_breakdown_row(
          std::to_string(rank.rank),
          rank.steps.empty() ? "-" : std::to_string(rank.steps.size()), sum,
          table);
    }
  }
  const size_t shown = std::max(top, size_t{8});
  if (table.rows.size() > shown) {
    const size_t left = table.rows.size() - shown;
    table.rows.resize(shown);
    table.rows.push_back(std::vector<std::string>(table.headings.size()));
    table.rows.back()[0] = fmt::format("+ {}", left);
  }
  drop_empty_columns(table);
  return table;
}

/// Collectives of one operation and size.
struct CollectiveGroup {
  const MatchedCollective* one = nullptr;
  std::vector<int64_t> transfer_ns, wait_ns;
  std::vector<double> bandwidth;
  int64_t total_ns = 0;
};

size_t ranks_of(const MatchedCollective& collective) {
  return std::max(
      {collective.group.size(), collective.members.size(),
       static_cast<size_t>(std::max(collective.group_size, int64_t{0}))});
}

std::vector<CollectiveGroup> grouped(const Analysis& analysis) {
  std::map<std::tuple<CollectiveKind, size_t, int64_t>, CollectiveGroup> groups;
  for (const uint32_t place : analysis.collectives) {
    const MatchedCollective& collective = analysis.matching.collectives[place];
    const CollectiveTimes& times = analysis.times[place];
    CollectiveGroup& group =
        groups[{collective.kind, ranks_of(collective), collective.bytes}];
    group.one = &collective;
    group.transfer_ns.push_back(times.transfer_ns);
    group.bandwidth.push_back(times.bus_bandwidth_bytes_per_s);
    group.total_ns = saturating_add(group.total_ns, times.transfer_ns);
    // Of one rank alone, nobody knows for whom it waited.
    if (collective.members.size() < 2) continue;
    group.wait_ns.insert(group.wait_ns.end(), times.wait_ns.begin(),
                         times.wait_ns.end());
  }
  std::vector<CollectiveGroup> result;
  result.reserve(groups.size());
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  std::stable_sort(result.begin(), result.end(),
                   [](const CollectiveGroup& a, const CollectiveGroup& b) {
                     return a.total_ns > b.total_ns;
                   });
  return result;
}

Table collectives_table(const Analysis& analysis, size_t top) {
  Table table;
  table.headings = {"collective", "ranks",     "count",
                    "bytes",      "mean wait", "max wait",
                    "transfer",   "in all",    "bus bandwidth"};
  for (CollectiveGroup& group : grouped(analysis)) {
    if (table.rows.size() == top) break;
    const size_t ranks = ranks_of(*group.one);
    const bool known = ranks > 1 || !group.one->communicator.empty();
    const bool waits = !group.wait_ns.empty();
    const Distribution wait = distribution_of(group.wait_ns);
    const double bandwidth = lower_median(std::move(group.bandwidth));
    table.rows.push_back({group.one->kind == CollectiveKind::kUnknown
                              ? "unknown"
                              : std::string(name_of(group.one->kind)),
                          known ? std::to_string(ranks) : "-",
                          std::to_string(group.transfer_ns.size()),
                          group.one->bytes > 0 ? bytes_text(static_cast<double>(
                                                     group.one->bytes))
                                               : "-",
                          waits ? duration_text(wait.mean) : "-",
                          waits ? time_text(wait.most) : "-",
                          time_text(distribution_of(group.transfer_ns).median),
                          time_text(group.total_ns),
                          bandwidth > 0 ? bytes_text(bandwidth) + "/s" : "-"});
  }
  return table;
}

Table stragglers_table(const Analysis& analysis, size_t top) {
  Table table;
  table.headings = {"late rank", "last in", "late by", "others waited",
                    "waited itself"};
  for (const Straggler& late : analysis.stragglers) {
    if (table.rows.size() == top || late.last == 0) break;
    table.rows.push_back({std::to_string(late.rank),
                          fmt::format("{} of {}", late.last, late.collectives),
                          time_text(late.late_ns), time_text(late.imposed_ns),
                          time_text(late.waited_ns)});
  }
  return table;
}

Table kernels_table(const Trace& trace, const Analysis& analysis, size_t top) {
  Table table;
  const bool host_only =
      std::all_of(analysis.ranks.begin(), analysis.ranks.end(),
                  [](const RankAnalysis& rank) { return rank.host_only; });
  table.headings = {host_only ? "top operators" : "top kernels",
                    "count",
                    "total",
                    "share",
                    "median",
                    "p95"};
  const int64_t all_ns = std::accumulate(
      analysis.kernels.begin(), analysis.kernels.end(), int64_t{0},
      [](int64_t sum, const KernelStatistics& kernel) {
        return saturating_add(sum, kernel.total_ns);
      });
  std::vector<std::string_view> names;
  for (const KernelStatistics& kernel : analysis.kernels) {
    if (names.size() < top) names.push_back(trace.text(kernel.name));
  }
  for (std::string& name : distinct_kernel_names(names, kKernelNameWidth)) {
    const KernelStatistics& kernel = analysis.kernels[table.rows.size()];
    table.rows.push_back(
        {std::move(name), std::to_string(kernel.count),
         time_text(kernel.total_ns), share_text(kernel.total_ns, all_ns),
         time_text(kernel.median_ns), time_text(kernel.p95_ns)});
  }
  return table;
}

std::string launches_text(const Analysis& analysis) {
  LaunchStatistics sum;
  std::vector<int64_t> medians;
  for (const RankAnalysis& rank : analysis.ranks) {
    const LaunchStatistics& one = rank.launches;
    sum.launches += one.launches;
    sum.works += one.works;
    sum.without_launch += one.without_launch;
    sum.most_per_launch = std::max(sum.most_per_launch, one.most_per_launch);
    sum.tiny += one.tiny;
    sum.tiny_ns = saturating_add(sum.tiny_ns, one.tiny_ns);
    sum.total_ns = saturating_add(sum.total_ns, one.total_ns);
    sum.delay_ns.p95 = std::max(sum.delay_ns.p95, one.delay_ns.p95);
    sum.deepest_queue = std::max(sum.deepest_queue, one.deepest_queue);
    if (one.launches > 0) medians.push_back(one.delay_ns.median);
  }
  if (sum.launches == 0) return "";
  std::string text = fmt::format("launches: {} for {} kernels and copies",
                                 sum.launches, sum.works);
  if (sum.most_per_launch > 1) {
    text += fmt::format(", up to {} each", sum.most_per_launch);
  }
  if (sum.without_launch > 0) {
    text += fmt::format(", {} without one", sum.without_launch);
  }
  return text + fmt::format(
                    "; they start {} later (p95 {}), at most {} queued\n"
                    "          {} of them last below {} and take {} of the "
                    "time\n",
                    time_text(distribution_of(medians).median),
                    time_text(sum.delay_ns.p95), sum.deepest_queue,
                    share_text(sum.tiny, sum.works), time_text(kTinyKernelNs),
                    share_text(sum.tiny_ns, sum.total_ns));
}

std::string clocks_text(const Analysis& analysis) {
  if (analysis.clocks.size() < 2) return "";
  const ClockAlignment* farthest = &analysis.clocks[0];
  int64_t residual_ns = 0;
  for (const ClockAlignment& clock : analysis.clocks) {
    if (std::fabs(static_cast<double>(clock.offset_ns)) >
        std::fabs(static_cast<double>(farthest->offset_ns))) {
      farthest = &clock;
    }
    residual_ns = std::max(residual_ns, clock.residual_ns);
  }
  if (residual_ns == 0 && farthest->offset_ns == 0) {
    return "clocks: all ranks share one\n";
  }
  return fmt::format(
      "clocks: aligned to within {}; the farthest is rank {}'s, {} off, drift "
      "{:.1f} ppm\n",
      time_text(residual_ns), farthest->rank, time_text(farthest->offset_ns),
      farthest->drift_ppm);
}

}  // namespace

std::string analysis_headline(const Analysis& analysis) {
  Sum sum;
  bool host_only = true;
  for (const RankAnalysis& rank : analysis.ranks) {
    sum.add(rank);
    host_only = host_only && rank.host_only;
  }
  const auto of_window = [&](int64_t part) {
    return share_text(part, sum.window_ns);
  };
  // What ran beside communication is not known then.
  const bool alone =
      !host_only && sum.communication_ns > 0 && sum.parts.compute_ns == 0;
  std::string text = time_of(analysis) + ": ";
  text += alone ? "no compute recorded"
                : fmt::format("{} {}", of_window(sum.parts.compute_ns),
                              host_only ? "operators" : "compute");
  if (sum.communication_ns > 0) {
    text += fmt::format(", {} {}communication", of_window(sum.parts.exposed_ns),
                        alone ? "" : "exposed ");
  }
  if (sum.parts.memory_ns > sum.window_ns / 100) {
    text += fmt::format(", {} copies", of_window(sum.parts.memory_ns));
  }
  text += fmt::format(", {} {}", of_window(sum.parts.idle_ns),
                      alone ? "neither" : "idle");
  if (!host_only && !alone && sum.parts.idle_ns > sum.window_ns / 100) {
    text +=
        fmt::format(", of it {} host-bound",
                    share_text(sum.idle.host_bound_ns(), sum.parts.idle_ns));
  }
  if (!analysis.stragglers.empty() && analysis.stragglers[0].last > 0) {
    const Straggler& late = analysis.stragglers[0];
    text += fmt::format("; rank {} is late in {} of {} collectives", late.rank,
                        late.last, late.collectives);
  }
  return text;
}

std::vector<Table> analysis_tables(const TraceByRank& by_rank,
                                   const Analysis& analysis, size_t top) {
  return {breakdown_table(analysis, top), collectives_table(analysis, top),
          stragglers_table(analysis, std::min(top, size_t{3})),
          kernels_table(by_rank.frame(), analysis, top)};
}

std::string analysis_text(const TraceByRank& by_rank, const Analysis& analysis,
                          const Findings& findings, const std::string& path,
                          size_t top) {
  std::string text = analysis_headline(analysis) + "\n\n" +
                     findings_text(findings, path, std::min(top, size_t{3}));
  for (const Table& table : analysis_tables(by_rank, analysis, top)) {
    if (!table.rows.empty()) text += "\n" + table_text(table);
  }
  text += "\n" + launches_text(analysis) +
          path_text(NodeFacts(by_rank), analysis.critical_path,
                    std::min(top, size_t{3})) +
          clocks_text(analysis);
  return text;
}

}  // namespace reprise

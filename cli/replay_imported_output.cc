// What `reprise replay` says of an imported trace: a screen for people,
// reprise.replay/1 and rows of CSV for programs; and its Chrome timeline.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "cli/replay_imported.h"
#include "replay/analysis/analysis.h"
#include "replay/analysis/kernel_name.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 10;
constexpr size_t kTopNames = 4;
constexpr size_t kNameWidth = 60;

std::string time_text(int64_t time_ns) {
  return duration_text(static_cast<double>(time_ns));
}

std::string share_text(double share) {
  const double percent = 100 * share;
  return fmt::format("{:.{}f} %", percent,
                     percent > 0 && percent < 9.95 ? 1 : 0);
}

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

Json error_json(int64_t predicted_ns, int64_t measured_ns) {
  if (measured_ns <= 0) return nullptr;
  return ratio(predicted_ns, measured_ns) - 1;
}

std::string error_text(int64_t predicted_ns, int64_t measured_ns) {
  if (measured_ns <= 0) return "-";
  return percent_text(ratio(predicted_ns, measured_ns) - 1);
}

std::string headline(const ImportedReplay& replay) {
  std::string text =
      fmt::format("{} {} predicted", replay.by_steps() ? "step" : "span",
                  time_text(replay.predicted_ns));
  if (!replay.what_ifs.empty()) {
    std::string names;
    for (const std::string& what_if : replay.what_ifs) {
      names += (names.empty() ? "" : ", ") + what_if;
    }
    text += fmt::format(" with {} ({} against {} as recorded)", names,
                        error_text(replay.predicted_ns, replay.recorded_ns),
                        time_text(replay.recorded_ns));
  }
  if (replay.reference_ns) {
    text += fmt::format(", {} measured ({})", time_text(*replay.reference_ns),
                        error_text(replay.predicted_ns, *replay.reference_ns));
  }
  if (!replay.graph.timed) {
    return text + " from durations and dependencies; no times were recorded\n";
  }
  return text + fmt::format("; {} of it unexplained gaps ({} without them)\n",
                            share_text(replay.replay.sources.unexplained),
                            percent_text(ratio(replay.replay.without_gaps_ns,
                                               replay.replay.predicted_ns) -
                                         1));
}

void shorten(Table& table) {
  if (table.rows.size() <= kMostRows) return;
  const size_t left = table.rows.size() - kMostRows + 1;
  table.rows.resize(kMostRows - 1);
  table.rows.push_back(std::vector<std::string>(table.headings.size()));
  table.rows.back()[0] = fmt::format("+ {}", left);
}

Table ranks_table(const Trace& trace, const ImportedReplay& replay) {
  Table table;
  table.headings = {"rank",     "compute", "communication",
                    "exposed",  "idle",    "predicted",
                    "measured", "error",   "unexplained"};
  for (size_t place = 0; place < replay.ranks.size(); ++place) {
    const Breakdown& part = replay.ranks[place];
    const int64_t predicted_ns = replay.replay.rank_predicted_ns[place];
    const int64_t measured_ns =
        replay.graph.timed ? replay.replay.rank_measured_ns[place] : 0;
    if (predicted_ns == 0 && measured_ns == 0) continue;
    table.rows.push_back(
        {std::to_string(trace.ranks[place].rank), time_text(part.compute_ns),
         time_text(part.communication_ns), time_text(part.exposed_ns),
         time_text(part.idle_ns), time_text(predicted_ns),
         measured_ns > 0 ? time_text(measured_ns) : "-",
         error_text(predicted_ns, measured_ns),
         share_text(replay.replay.rank_unexplained_share[place])});
  }
  shorten(table);
  return table;
}

Table steps_table(const ImportedReplay& replay) {
  Table table;
  table.headings = {"step", "predicted", "measured", "error"};
  for (const ReplayedStepTime& step : replay.steps) {
    table.rows.push_back({std::to_string(step.step),
                          time_text(step.predicted_ns),
                          time_text(step.measured_ns),
                          error_text(step.predicted_ns, step.measured_ns)});
  }
  shorten(table);
  return table;
}

/// For people, who have not read what the kinds are called.
std::string_view words_for(PathKind kind) {
  if (kind == PathKind::kHost) return "host ops";
  if (kind == PathKind::kRange) return "host between ops";
  return name_of(kind);
}

using KindTimes = std::array<int64_t, kTracePathKinds>;

KindTimes time_by_kind(const TraceReplay& replay) {
  KindTimes times{};
  for (const PathEntry& entry : replay.critical_path) {
    times[static_cast<size_t>(entry.kind)] += entry.duration_ns;
  }
  return times;
}

/// What the path spends most on, by kind, name and rank.
std::string path_names_text(const Trace& trace, const TraceReplay& replay) {
  using Name = std::tuple<PathKind, std::string, uint32_t>;
  std::map<Name, int64_t> names;
  for (const PathEntry& entry : replay.critical_path) {
    names[{entry.kind, trace.text(trace.events[entry.origin].name),
           entry.rank}] += entry.duration_ns;
  }
  std::vector<std::pair<int64_t, Name>> top;
  for (const auto& [name, time_ns] : names) top.emplace_back(-time_ns, name);
  std::sort(top.begin(), top.end());
  top.resize(std::min(top.size(), kTopNames));
  std::string text;
  for (const auto& [time_ns, named] : top) {
    const auto& [kind, name, rank] = named;
    const bool kernel =
        kind == PathKind::kKernel || kind == PathKind::kCollective;
    text += fmt::format("{:>10}  {} {}{} (rank {})\n", time_text(-time_ns),
                        words_for(kind),
                        kind == PathKind::kUnexplained ? "before " : "",
                        kernel ? short_kernel_name(name, kNameWidth)
                               : name.substr(0, kNameWidth),
                        rank);
  }
  return text;
}

std::string path_text(const Trace& trace, const TraceReplay& replay) {
  const KindTimes times = time_by_kind(replay);
  int64_t whole_ns = 0;
  std::vector<std::pair<int64_t, size_t>> kinds;
  for (size_t kind = 0; kind < kTracePathKinds; ++kind) {
    whole_ns += times[kind];
    if (times[kind] > 0) kinds.emplace_back(-times[kind], kind);
  }
  if (whole_ns <= 0) return "";
  std::sort(kinds.begin(), kinds.end());
  std::string text = fmt::format("critical path {} =", time_text(whole_ns));
  for (const auto& [time_ns, kind] : kinds) {
    text += fmt::format("{} {} {}", kind == kinds[0].second ? "" : " +",
                        share_text(ratio(-time_ns, whole_ns)),
                        words_for(static_cast<PathKind>(kind)));
  }
  return text + "\n" + path_names_text(trace, replay);
}

Json path_json(const Trace& trace, const TraceReplay& replay) {
  Json path = Json::array();
  for (const PathEntry& entry : replay.critical_path) {
    path.push_back({{"unit", trace.text(trace.events[entry.origin].name)},
                    {"kind", name_of(entry.kind)},
                    {"rank", entry.rank},
                    {"start_ns", entry.start_ns},
                    {"duration_ns", entry.duration_ns}});
  }
  return path;
}

Json ranks_json(const Trace& trace, const ImportedReplay& replay) {
  Json ranks = Json::array();
  for (size_t place = 0; place < replay.ranks.size(); ++place) {
    const Breakdown& part = replay.ranks[place];
    const int64_t predicted_ns = replay.replay.rank_predicted_ns[place];
    const int64_t measured_ns = replay.replay.rank_measured_ns[place];
    Json rank = {{"rank", trace.ranks[place].rank},
                 {"compute_ns", part.compute_ns},
                 {"communication_ns", part.communication_ns},
                 {"exposed_ns", part.exposed_ns},
                 {"memory_ns", part.memory_ns},
                 {"idle_ns", part.idle_ns},
                 {"predicted_ns", predicted_ns},
                 {"measured_ns", nullptr}};
    if (replay.graph.timed) rank["measured_ns"] = measured_ns;
    rank["error"] = replay.graph.timed && replay.what_ifs.empty()
                        ? error_json(predicted_ns, measured_ns)
                        : Json(nullptr);
    rank["unexplained"] = replay.replay.rank_unexplained_share[place];
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

Json steps_json(const Trace& trace, const TraceReplay& replay) {
  Json steps = Json::array();
  for (const ReplayedStep& step : replay.steps) {
    steps.push_back({{"rank", trace.ranks[step.rank].rank},
                     {"step", step.step},
                     {"predicted_ns", step.predicted_ns},
                     {"measured_ns", step.measured_ns}});
  }
  return steps;
}

Json graph_json(const TimedGraph& graph,
                const std::vector<std::string>& notes) {
  std::array<int64_t, kEdgeKinds> count{};
  for (const TimedGraph::Edge& edge : graph.edges) {
    ++count[static_cast<size_t>(edge.kind)];
  }
  Json edges = Json::object();
  for (size_t kind = 0; kind < kEdgeKinds; ++kind) {
    edges[std::string(name_of(static_cast<EdgeKind>(kind)))] = count[kind];
  }
  return {{"nodes", graph.size()},
          {"edges", std::move(edges)},
          {"cycles_repaired", graph.cycles_repaired},
          {"timed", graph.timed},
          {"notes", notes}};
}

Json clocks_json(const std::vector<ClockAlignment>& alignments) {
  Json clocks = Json::array();
  for (const ClockAlignment& clock : alignments) {
    clocks.push_back({{"rank", clock.rank},
                      {"offset_ns", clock.offset_ns},
                      {"drift_ppm", clock.drift_ppm},
                      {"residual_ns", clock.residual_ns}});
  }
  return clocks;
}

std::string number(int64_t value) { return std::to_string(value); }

}  // namespace

std::string imported_replay_text(const Trace& trace,
                                 const ImportedReplay& replay) {
  std::string text = headline(replay) + "\n";
  if (replay.steps.size() > 1) text += table_text(steps_table(replay)) + "\n";
  text += table_text(ranks_table(trace, replay)) + "\n";
  return text + path_text(trace, replay.replay);
}

Json imported_replay_json(const Trace& trace, const ImportedReplay& replay,
                          const std::optional<int32_t>& step) {
  const TraceReplay& predicted = replay.replay;
  Json json = {{"schema", "reprise.replay/1"}};
  json["step_time_ns"] = {{"predicted", replay.predicted_ns},
                          {"measured", nullptr}};
  json["error"] = nullptr;
  if (replay.reference_ns) {
    json["step_time_ns"]["measured"] = *replay.reference_ns;
    json["error"] = error_json(replay.predicted_ns, *replay.reference_ns);
  }
  json["recorded"] = {{"predicted_ns", replay.recorded_ns},
                      {"measured_ns", nullptr}};
  if (replay.graph.timed) json["recorded"]["measured_ns"] = replay.measured_ns;
  json["what_ifs"] = replay.what_ifs;
  json["window"] = {{"step", nullptr},
                    {"predicted_ns", predicted.predicted_ns},
                    {"without_gaps_ns", predicted.without_gaps_ns}};
  if (step) json["window"]["step"] = *step;
  json["ranks"] = ranks_json(trace, replay);
  json["steps"] = steps_json(trace, predicted);
  json["sources"] = {{"measured", 1 - predicted.sources.unexplained},
                     {"calibrated", 0.0},
                     {"modelled", 0.0},
                     {"unexplained", predicted.sources.unexplained}};
  json["graph"] = graph_json(replay.graph, replay.notes);
  json["clocks"] = clocks_json(replay.clocks);
  Json by_kind = Json::object();
  const KindTimes times = time_by_kind(predicted);
  for (size_t kind = 0; kind < kTracePathKinds; ++kind) {
    by_kind[std::string(name_of(static_cast<PathKind>(kind))) + "_ns"] =
        times[kind];
  }
  json["critical_path_by_kind"] = std::move(by_kind);
  json["critical_path"] = path_json(trace, predicted);
  return json;
}

Table imported_replay_rows(const Trace& trace, const ImportedReplay& replay) {
  Table table;
  table.headings = {"rank",        "step",       "predicted_ns",
                    "measured_ns", "compute_ns", "communication_ns",
                    "exposed_ns",  "idle_ns",    "unexplained"};
  for (size_t place = 0; place < replay.ranks.size(); ++place) {
    const Breakdown& part = replay.ranks[place];
    table.rows.push_back(
        {std::to_string(trace.ranks[place].rank), "",
         number(replay.replay.rank_predicted_ns[place]),
         replay.graph.timed ? number(replay.replay.rank_measured_ns[place])
                            : "",
         number(part.compute_ns), number(part.communication_ns),
         number(part.exposed_ns), number(part.idle_ns),
         fmt::format("{:.6f}", replay.replay.rank_unexplained_share[place])});
    for (const ReplayedStep& step : replay.replay.steps) {
      if (step.rank != place) continue;
      table.rows.push_back({std::to_string(trace.ranks[place].rank),
                            std::to_string(step.step),
                            number(step.predicted_ns), number(step.measured_ns),
                            "", "", "", "", ""});
    }
  }
  return table;
}

ChromeTimeline imported_replay_timeline(const Trace& trace,
                                        const ImportedReplay& replay) {
  ChromeTimeline timeline;
  const ReplayTimeline both =
      replay_timeline(trace, replay.graph, replay.replay);
  const Trace& predicted = both.predicted;
  std::vector<uint32_t> slices(predicted.events.size(), kNoSlice);
  for (const RankInfo& rank : predicted.ranks) {
    if (replay.graph.timed) {
      add_measured_rank(timeline, both.recorded, rank.rank,
                        {.suffix = " measured"});
    }
    const MeasuredSlices added = add_measured_rank(
        timeline, predicted, rank.rank, {.suffix = " predicted"});
    const auto [first, last] = events_of_rank(predicted, rank.rank);
    for (size_t event = first; event < last; ++event) {
      slices[event] = added.by_event[event];
    }
  }
  uint32_t previous = kNoSlice;
  for (const PathEntry& entry : replay.replay.critical_path) {
    const uint32_t place = both.predicted_place[entry.origin];
    const uint32_t slice =
        place == ReplayTimeline::kNoEvent ? kNoSlice : slices[place];
    if (slice == kNoSlice || slice == previous) continue;
    if (previous != kNoSlice) timeline.add_flow(previous, slice);
    previous = slice;
  }
  for (const std::string& warning : trace.warnings) {
    timeline.add_note("warning", warning);
  }
  return timeline;
}

}  // namespace reprise

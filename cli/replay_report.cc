// One screen for people, reprise.replay/1 and rows of CSV for programs. A
// program's answer has its costs, an imported trace's its graph, window and
// steps; all else is the same.
#include "cli/replay_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/object_text.h"
#include "cli/path_output.h"
#include "data/io/printable_text.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 10;
constexpr size_t kTopNames = 4;

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// None of nothing.
std::optional<double> error_of(int64_t predicted_ns,
                               const std::optional<int64_t>& measured_ns) {
  if (!measured_ns || *measured_ns <= 0) return std::nullopt;
  return ratio(predicted_ns, *measured_ns) - 1;
}

Json json_or_null(const auto& value) { return value ? Json(*value) : Json(); }

std::string error_text(int64_t predicted_ns,
                       const std::optional<int64_t>& measured_ns) {
  const std::optional<double> error = error_of(predicted_ns, measured_ns);
  return error ? percent_text(*error) : "-";
}

/// "; 12 % of it calibrated; 3.0 % of it modelled; 2.1 % of it gaps as fitted".
std::string prices_text(const PathSources& sources) {
  std::string text;
  if (sources.calibrated > 0) {
    text +=
        fmt::format("; {} of it calibrated", share_text(sources.calibrated));
  }
  if (sources.modelled > 0) {
    text += fmt::format("; {} of it modelled", share_text(sources.modelled));
  }
  if (sources.fitted_gaps() > sources.dispatch) {  // A program's.
    text += fmt::format("; {} of it gaps as fitted",
                        share_text(sources.fitted_gaps()));
  }
  return text;
}

std::string headline(const ReplayReport& report) {
  std::string text = fmt::format(
      "{}{} {} predicted", report.by_mean ? "mean " : "",
      report.by_steps ? "step" : "span", time_text(report.predicted_ns));
  if (!report.what_ifs.empty()) {
    text += fmt::format(" with {} ({} against {} as recorded)",
                        fmt::join(report.what_ifs, ", "),
                        error_text(report.predicted_ns, report.recorded_ns),
                        time_text(report.recorded_ns));
  }
  if (report.reference_ns) {
    text += fmt::format(", {} measured ({})", time_text(*report.reference_ns),
                        error_text(report.predicted_ns, report.reference_ns));
  }
  if (report.graph && !report.graph->timed) {
    return text + " from durations and dependencies; no times were recorded\n";
  }
  return text + fmt::format("; {} of it unexplained gaps ({} without them){}\n",
                            share_text(report.sources.unexplained),
                            percent_text(report.without_gaps_share - 1),
                            prices_text(report.sources));
}

void shorten(Table& table) {
  if (table.rows.size() <= kMostRows) return;
  const size_t left = table.rows.size() - kMostRows + 1;
  table.rows.resize(kMostRows - 1);
  table.rows.push_back(std::vector<std::string>(table.headings.size()));
  table.rows.back()[0] = fmt::format("+ {}", left);
}

Table ranks_table(const ReplayReport& report) {
  Table table;
  table.headings = {"rank",     "compute", "communication",
                    "exposed",  "idle",    "predicted",
                    "measured", "error",   "unexplained"};
  for (const ReplayReport::Rank& rank : report.ranks) {
    if (rank.predicted_ns == 0 && rank.measured_ns.value_or(0) == 0) continue;
    table.rows.push_back(
        {std::to_string(rank.rank), time_text(rank.parts.compute_ns),
         time_text(rank.parts.communication_ns),
         time_text(rank.parts.exposed_ns), time_text(rank.parts.idle_ns),
         time_text(rank.predicted_ns),
         rank.measured_ns.value_or(0) > 0 ? time_text(*rank.measured_ns) : "-",
         error_text(rank.predicted_ns, rank.measured_ns),
         share_text(rank.unexplained)});
  }
  shorten(table);
  return table;
}

Table steps_table(const ReplayReport& report) {
  Table table;
  table.headings = {"step", "predicted", "measured", "error"};
  for (const JobStep& step : report.steps) {
    table.rows.push_back({std::to_string(step.step),
                          time_text(step.predicted_ns),
                          time_text(step.measured_ns),
                          error_text(step.predicted_ns, step.measured_ns)});
  }
  shorten(table);
  return table;
}

std::string report_text(const ReplayReport& report, const NodeFacts& facts) {
  std::string text = headline(report) + "\n";
  if (report.steps.size() > 1) text += table_text(steps_table(report)) + "\n";
  text += table_text(ranks_table(report)) + "\n";
  return text + path_text(facts, report.path, kTopNames);
}

Json ranks_json(const ReplayReport& report) {
  Json ranks = Json::array();
  for (const ReplayReport::Rank& rank : report.ranks) {
    const std::optional<double> error =
        report.what_ifs.empty() ? error_of(rank.predicted_ns, rank.measured_ns)
                                : std::nullopt;
    ranks.push_back({{"rank", rank.rank},
                     {"compute_ns", rank.parts.compute_ns},
                     {"communication_ns", rank.parts.communication_ns},
                     {"exposed_ns", rank.parts.exposed_ns},
                     {"memory_ns", rank.parts.memory_ns},
                     {"idle_ns", rank.parts.idle_ns},
                     {"predicted_ns", rank.predicted_ns},
                     {"measured_ns", json_or_null(rank.measured_ns)},
                     {"error", json_or_null(error)},
                     {"unexplained", rank.unexplained}});
  }
  return ranks;
}

Json steps_json(const ReplayReport& report) {
  Json steps = Json::array();
  for (const ReplayedStep& step : report.graph->steps) {
    steps.push_back({{"rank", report.ranks[step.rank].rank},
                     {"step", step.step},
                     {"predicted_ns", step.predicted_ns},
                     {"measured_ns", step.measured_ns}});
  }
  return steps;
}

Json graph_json(const ReplayReport::Graph& graph,
                const std::vector<std::string>& notes) {
  Json edges = Json::object();
  for (size_t kind = 0; kind < kEdgeKinds; ++kind) {
    edges[std::string(name_of(static_cast<EdgeKind>(kind)))] =
        graph.edges[kind];
  }
  return {{"nodes", graph.nodes},
          {"edges", std::move(edges)},
          {"cycles_repaired", graph.cycles_repaired},
          {"timed", graph.timed},
          {"notes", notes}};
}

Json costs_json(const CostModel& costs) {
  Json links = Json::object();
  for (const auto& [key, price] : costs.collectives) {
    links[key] = {{"latency_ns", price.latency_ns},
                  {"bandwidth_bytes_per_s", price.bandwidth_bytes_per_s},
                  {"burst_bytes", price.burst_bytes},
                  {"preempted_ns", price.preempted_ns},
                  {"residual", price.residual}};
  }
  return {
      {"collectives", links},
      {"slowdown",
       {{"library", costs.contention.library},
        {"kernel", costs.contention.kernel},
        {"collective", costs.contention.collective},
        {"slowest", costs.contention.slowest},
        {"compute_is_measured", !costs.contention.compute_is_assumed},
        {"collective_is_measured", !costs.contention.collective_is_assumed}}},
      {"dispatch_ns", costs.dispatch_ns},
      {"feed_ns", costs.feed_ns},
      {"compute_wake_ns", costs.compute_wake_ns},
      {"communication_wake_ns", costs.communication_wake_ns},
      {"jitter_sqrt_ns", costs.jitter_sqrt_ns},
      {"meeting_ns", costs.meeting_ns},
      {"meeting_is_measured", costs.meeting_is_measured},
      {"unexplained_ns", costs.unexplained_ns},
      {"roofline_residual", costs.roofline_residual}};
}

/// Without the path.
Json report_json(const ReplayReport& report,
                 const std::optional<int32_t>& step) {
  const PathSources& sources = report.sources;
  Json json = {{"schema", "reprise.replay/1"}};
  json["step_time_ns"] = {{"predicted", report.predicted_ns},
                          {"measured", json_or_null(report.reference_ns)}};
  json["error"] =
      json_or_null(error_of(report.predicted_ns, report.reference_ns));
  json["recorded"] = {{"predicted_ns", report.recorded_ns},
                      {"measured_ns", json_or_null(report.measured_ns)},
                      {"tracing_ns", report.tracing_ns}};
  json["what_ifs"] = report.what_ifs;
  if (report.graph) {
    json["window"] = {{"step", json_or_null(step)},
                      {"predicted_ns", report.graph->window_ns},
                      {"without_gaps_ns", report.without_gaps_ns}};
  }
  json["ranks"] = ranks_json(report);
  if (report.graph) json["steps"] = steps_json(report);
  json["sources"] = {
      {"measured", sources.measured},      {"calibrated", sources.calibrated},
      {"modelled", sources.modelled},      {"dispatch", sources.dispatch},
      {"wake_ups", sources.wake_ups},      {"jitter", sources.jitter},
      {"step_gaps", sources.step_gaps},    {"preempted", sources.preempted},
      {"unexplained", sources.unexplained}};
  if (report.graph) {
    json["graph"] = graph_json(*report.graph, report.notes);
  }
  if (report.costs) {
    json["costs"] = costs_json(*report.costs);
    json["costs"]["modelled_because"] = report.notes;
  }
  json["clocks"] = Json::array();
  for (const ClockAlignment& clock : report.clocks) {
    json["clocks"].push_back(clock_json(clock));
  }
  json["critical_path_by_kind"] = path_kinds_json(report.path, "_ns");
  return json;
}

std::string report_json_text(const ReplayReport& report, const NodeFacts& facts,
                             const std::optional<int32_t>& step) {
  ObjectText text;
  const Json all_but_path = report_json(report, step);
  for (const auto& [key, value] : all_but_path.items()) text.add(key, value);
  text.add_rows("critical_path", report.path.entries,
                [&](const PathEntry& entry) {
                  return path_entry_json(facts, entry, "unit");
                });
  return std::move(text).finish();
}

/// A row for each rank, and one for each of its steps.
Table report_rows(const ReplayReport& report) {
  Table table;
  table.headings = {"rank",        "step",       "predicted_ns",
                    "measured_ns", "compute_ns", "communication_ns",
                    "exposed_ns",  "idle_ns",    "unexplained"};
  for (size_t place = 0; place < report.ranks.size(); ++place) {
    const ReplayReport::Rank& rank = report.ranks[place];
    const std::string number = std::to_string(rank.rank);
    table.rows.push_back(
        {number, "", std::to_string(rank.predicted_ns),
         rank.measured_ns ? std::to_string(*rank.measured_ns) : "",
         std::to_string(rank.parts.compute_ns),
         std::to_string(rank.parts.communication_ns),
         std::to_string(rank.parts.exposed_ns),
         std::to_string(rank.parts.idle_ns),
         fmt::format("{:.6f}", rank.unexplained)});
    if (!report.graph) continue;
    for (const ReplayedStep& step : report.graph->steps) {
      if (step.rank != place) continue;
      table.rows.push_back(
          {number, std::to_string(step.step), std::to_string(step.predicted_ns),
           std::to_string(step.measured_ns), "", "", "", "", ""});
    }
  }
  return table;
}

}  // namespace

void print_report(const ReplayOptions& options, const ReplayReport& report,
                  const NodeFacts& facts) {
  switch (options.format) {
    case Format::kTable:
      write_lines(stdout, report_text(report, facts));
      break;
    case Format::kJson:
      write_out(printable_json(report_json_text(report, facts, options.step)));
      break;
    case Format::kCsv:
      write_out(table_csv(report_rows(report)));
      break;
  }
  for (const std::string& warning : report.warnings) {
    tell("reprise replay: warning: {}\n", warning);
  }
  const int64_t change_ns = std::abs(report.predicted_ns - report.recorded_ns);
  if (change_ns > 0 && change_ns < report.spread_ns) {
    tell(
        "reprise replay: the recorded steps themselves spread by {} (middle "
        "half), more than the {} that this changes\n",
        time_text(report.spread_ns), time_text(change_ns));
  }
  if (report.tracing_ns > 0 && 100 * report.tracing_ns >= report.measured_ns) {
    tell(
        "reprise replay: recording slowed steps by {}; predicted and measured "
        "are without it\n",
        time_text(report.tracing_ns));
  }
  for (const std::string& note : report.notes) {
    tell("reprise replay: {}\n", note);
  }
}

}  // namespace reprise

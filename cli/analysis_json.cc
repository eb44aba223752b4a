// The parts of an analysis that programs read: JSON and CSV.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/analysis_output.h"
#include "cli/findings_output.h"
#include "cli/object_text.h"
#include "cli/path_output.h"
#include "data/io/json_text.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

Json idle_json(const IdleCauses& idle) {
  Json json = {
      {"host_bound_ns", idle.host_bound_ns()},
      {"host_bound_after_synchronization_ns", idle[IdleCause::kSynchronized]},
      {"waiting_on_collective_ns", idle[IdleCause::kCollective]},
      {"waiting_on_kernel_ns", idle[IdleCause::kKernel]},
      {"launch_latency_ns", idle[IdleCause::kLaunch]},
      {"unknown_ns", idle[IdleCause::kUnknown]}};
  return json;
}

struct Part {
  const char* name;
  int64_t Breakdown::*time;
};
constexpr Part kParts[] = {{"window_start_ns", &Breakdown::window_start_ns},
                           {"window_ns", &Breakdown::window_ns},
                           {"compute_ns", &Breakdown::compute_ns},
                           {"communication_ns", &Breakdown::communication_ns},
                           {"memory_ns", &Breakdown::memory_ns},
                           {"overlapped_ns", &Breakdown::overlapped_ns},
                           {"exposed_ns", &Breakdown::exposed_ns},
                           {"idle_ns", &Breakdown::idle_ns}};
using Exclusive = Breakdown::Exclusive;
struct ExclusivePart {
  const char* name;
  int64_t Exclusive::*time;
};
constexpr ExclusivePart kExclusiveParts[] = {
    {"compute_ns", &Exclusive::compute_ns},
    {"exposed_ns", &Exclusive::exposed_ns},
    {"memory_ns", &Exclusive::memory_ns},
    {"idle_ns", &Exclusive::idle_ns}};

void add_window(const Breakdown& window, Json& json) {
  for (const auto& [name, time] : kParts) json[name] = window.*time;
  for (const auto& [name, time] : kExclusiveParts) {
    json["exclusive"][name] = window.exclusive.*time;
  }
}

Json step_json(const StepAnalysis& step) {
  Json json = {{"name", step.name},
               {"step", step.mark.step},
               {"duration_ns", step.mark.time_ns()},
               {"iteration_ns", nullptr}};
  if (step.iteration_ns >= 0) json["iteration_ns"] = step.iteration_ns;
  add_window(step.host, json);
  json["idle"] = idle_json(step.host_idle);
  Json device = Json::object();
  add_window(step.window, device);
  device["idle"] = idle_json(step.idle);
  json["device"] = std::move(device);
  Json launched = Json::object();
  add_window(step.launched, launched);
  json["launched"] = std::move(launched);
  return json;
}

Json launches_json(const LaunchStatistics& launches) {
  const Distribution& delay = launches.delay_ns;
  return {
      {"launches", launches.launches},
      {"device_work", launches.works},
      {"without_launch", launches.without_launch},
      {"most_per_launch", launches.most_per_launch},
      {"delay_ns",
       {{"min", delay.least},
        {"median", delay.median},
        {"mean", delay.mean},
        {"p95", delay.p95},
        {"max", delay.most}}},
      {"started_before_launch", launches.started_early},
      {"tiny",
       {{"below_ns", kTinyKernelNs},
        {"count", launches.tiny},
        {"time_ns", launches.tiny_ns},
        {"of_time_ns", launches.total_ns}}},
      {"queue_depth",
       {{"mean", launches.mean_queue_depth}, {"max", launches.deepest_queue}}}};
}

Json rank_json(const Trace& trace, const RankAnalysis& rank) {
  Json json = {{"rank", rank.rank}, {"host_only", rank.host_only}};
  add_window(rank.window, json);
  json["idle"] = idle_json(rank.idle);
  json["steps"] = Json::array();
  for (const StepAnalysis& step : rank.steps) {
    json["steps"].push_back(step_json(step));
  }
  json["streams"] = Json::array();
  for (const StreamIdle& stream : rank.streams) {
    json["streams"].push_back({{"stream", trace.streams[stream.stream].name},
                               {"device_work", stream.events},
                               {"busy_ns", stream.busy_ns},
                               {"idle_ns", stream.idle.total_ns()},
                               {"idle", idle_json(stream.idle)}});
  }
  json["launches"] = launches_json(rank.launches);
  return json;
}

/// A collective as text: there are many, and nlohmann-json would take longer
/// for them than the analysis.
std::string collective_text(const Analysis& analysis, uint32_t place) {
  const MatchedCollective& collective = analysis.matching.collectives[place];
  const CollectiveTimes& times = analysis.times[place];
  std::vector<uint32_t> ranks;
  for (const CollectiveMember& member : collective.members) {
    ranks.push_back(member.rank);
  }
  return fmt::format(
      R"({{"id": "{}", "op": {}, "communicator": {}, "sequence": {}, )"
      R"("group": [{}], "missing": [{}], "bytes": {}, "ranks": [{}], )"
      R"("arrival_ns": {}, "wait_ns": [{}], "transfer_ns": {}, )"
      R"("bus_bandwidth_bytes_per_s": {}}})",
      collective_id(place), json_quoted(name_of(collective.kind)),
      json_quoted(collective.communicator), collective.sequence,
      fmt::join(collective.group, ", "), fmt::join(collective.missing, ", "),
      collective.bytes, fmt::join(ranks, ", "), times.arrival_ns,
      fmt::join(times.wait_ns, ", "), times.transfer_ns,
      json_number(times.bus_bandwidth_bytes_per_s));
}

Json kernel_json(const Trace& trace, const KernelStatistics& kernel) {
  constexpr std::array<const char*, 3> kWork = {"compute", "communication",
                                                "memory"};
  return {{"name", trace.text(kernel.name)},
          {"kind", kWork[static_cast<size_t>(kernel.work)]},
          {"count", kernel.count},
          {"total_ns", kernel.total_ns},
          {"median_ns", kernel.median_ns},
          {"p95_ns", kernel.p95_ns},
          {"max_ns", kernel.longest_ns}};
}

Json path_summary(const CriticalPath& path) {
  Json summary = {{"step", nullptr}, {"length_ns", path.length_ns}};
  if (path.step) summary["step"] = *path.step;
  summary["by_kind_ns"] = path_kinds_json(path);
  return summary;
}

Json straggler_json(const Straggler& late) {
  return {{"rank", late.rank},
          {"late_ns", late.late_ns},
          {"collectives", late.collectives},
          {"last", late.last},
          {"imposed_ns", late.imposed_ns},
          {"waited_ns", late.waited_ns}};
}

void add_row(const RankAnalysis& rank, const std::string& step,
             const char* window_name, const Breakdown& window,
             const IdleCauses* idle, Table& table) {
  std::vector<std::string> row = {std::to_string(rank.rank), step, window_name};
  for (const auto& [name, time] : kParts) {
    row.push_back(std::to_string(window.*time));
  }
  for (const auto& [name, time] : kExclusiveParts) {
    row.push_back(std::to_string(window.exclusive.*time));
  }
  for (size_t cause = 0; cause < kIdleCauses; ++cause) {
    row.push_back(idle == nullptr ? ""
                                  : std::to_string(idle->by_cause_ns[cause]));
  }
  table.rows.push_back(std::move(row));
}

}  // namespace

std::string collective_id(size_t place_in_matching) {
  return "c" + std::to_string(place_in_matching);
}

std::string analysis_json(const TraceByRank& by_rank, const Analysis& analysis,
                          const Findings& findings, const std::string& path) {
  const Trace& trace = by_rank.frame();
  const NodeFacts facts(by_rank);
  ObjectText text;
  text.add("schema", "reprise.analyze/1");
  text.add("step_time_ns",
           analysis.step_ns ? Json(*analysis.step_ns) : Json(nullptr));
  text.add_rows("findings", findings.list, [&](const Finding& finding) {
    return json_text(finding_json(finding, path));
  });
  text.add("findings_summary", findings_summary_json(findings));
  text.add_rows("ranks", analysis.ranks, [&](const RankAnalysis& rank) {
    return json_text(rank_json(trace, rank));
  });
  text.add_rows("collectives", analysis.collectives, [&](uint32_t place) {
    return collective_text(analysis, place);
  });
  text.add_rows("stragglers", analysis.stragglers, [](const Straggler& late) {
    return json_text(straggler_json(late));
  });
  text.add_rows("kernels", analysis.kernels,
                [&](const KernelStatistics& kernel) {
                  return json_text(kernel_json(trace, kernel));
                });
  text.add_rows("critical_path", analysis.critical_path.entries,
                [&](const PathEntry& entry) {
                  return path_entry_json(facts, entry, "name");
                });
  text.add("critical_path_summary", path_summary(analysis.critical_path));
  text.add_rows("clocks", analysis.clocks, [](const ClockAlignment& clock) {
    return json_text(clock_json(clock));
  });
  text.add("remarks", analysis.remarks);
  return std::move(text).finish();
}

Table analysis_rows(const Analysis& analysis) {
  Table table;
  table.headings = {"rank", "step", "window"};
  for (const auto& [name, time] : kParts) table.headings.emplace_back(name);
  for (const auto& [name, time] : kExclusiveParts) {
    table.headings.push_back(fmt::format("exclusive_{}", name));
  }
  for (size_t cause = 0; cause < kIdleCauses; ++cause) {
    table.headings.push_back(
        fmt::format("idle_{}_ns", name_of(static_cast<IdleCause>(cause))));
  }
  for (const RankAnalysis& rank : analysis.ranks) {
    add_row(rank, "", "whole", rank.window, &rank.idle, table);
    for (const StepAnalysis& step : rank.steps) {
      const std::string number = std::to_string(step.mark.step);
      add_row(rank, number, "step_cpu", step.host, &step.host_idle, table);
      add_row(rank, number, "step_device", step.window, &step.idle, table);
      add_row(rank, number, "step_launched", step.launched, nullptr, table);
    }
  }
  return table;
}

}  // namespace reprise

// reprise info: what a trace holds, without replaying it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/open_trace.h"
#include "cli/output.h"
#include "data/median.h"
#include "data/trace/trace.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// One row of the table, and one entry of the JSON.
struct RankSummary {
  RankInfo info;
  /// By EventKind.
  std::array<int64_t, static_cast<size_t>(kLastEventKind) + 1> events{};
  int64_t steps = 0, warmup_steps = 0;
  std::vector<int64_t> step_ns;  ///< Timed steps.
};

std::vector<RankSummary> summarize(const Trace& trace) {
  std::vector<RankSummary> ranks;
  std::map<uint32_t, size_t> place;
  for (const RankInfo& info : trace.ranks) {
    place[info.rank] = ranks.size();
    ranks.emplace_back().info = info;
  }
  for (const Event& event : trace.events) {
    const auto found = place.find(event.rank);
    if (found == place.end()) continue;
    ++ranks[found->second].events[static_cast<size_t>(event.kind)];
  }
  for (const StepMark& step : trace.steps) {
    const auto found = place.find(step.rank);
    if (found == place.end()) continue;
    RankSummary& rank = ranks[found->second];
    ++(step.warmup ? rank.warmup_steps : rank.steps);
    if (!step.warmup) rank.step_ns.push_back(step.time_ns());
  }
  return ranks;
}

/// Name of the HLO module: the second word of its first line.
std::string program_name(const Trace& trace) {
  const std::string_view text = trace.program_text;
  constexpr std::string_view kStart = "HloModule ";
  if (!text.starts_with(kStart)) return text.empty() ? "none" : "unnamed";
  return std::string(
      text.substr(kStart.size(),
                  text.find_first_of(", \n", kStart.size()) - kStart.size()));
}

Json rank_json(const RankSummary& rank) {
  Json events = Json::object();
  for (size_t kind = 0; kind < rank.events.size(); ++kind) {
    events[std::string(name_of(static_cast<EventKind>(kind)))] =
        rank.events[kind];
  }
  return {{"rank", rank.info.rank},
          {"host", rank.info.host},
          {"process", rank.info.process},
          {"device", rank.info.device},
          {"events", events},
          {"steps", rank.steps},
          {"warmup_steps", rank.warmup_steps},
          {"step_time_ns", {{"median", median(rank.step_ns)}}},
          {"clock",
           {{"offset_ns", rank.info.clock_offset_ns},
            {"drift_ppm", rank.info.clock_drift_ppm},
            {"residual_ns", rank.info.clock_residual_ns}}}};
}

Json json_of(const Trace& trace, const std::string& path,
             const std::vector<RankSummary>& ranks) {
  Json json = {{"schema", "reprise.info/1"},
               {"trace", path},
               {"program", program_name(trace)},
               {"planned", !trace.plan_text.empty()},
               {"environment", trace.environment},
               {"events", trace.events.size()},
               {"measurements", trace.measurements.size()},
               {"modules", Json::array()}};
  for (const auto& [name, text] : trace.modules) {
    json["modules"].push_back(name);
  }
  json["ranks"] = Json::array();
  for (const RankSummary& rank : ranks)
    json["ranks"].push_back(rank_json(rank));
  json["warnings"] = trace.warnings;
  return json;
}

/// "2 HLO modules: jit_a, jit_b"; of many the first ones.
std::string modules_text(const Trace& trace) {
  constexpr size_t kShown = 4;
  std::vector<std::string> names;
  for (const auto& [name, text] : trace.modules) {
    if (names.size() == kShown) {
      names.emplace_back("…");
      break;
    }
    names.push_back(name);
  }
  const size_t count = trace.modules.size();
  return fmt::format("{} HLO module{}: {}", count, count == 1 ? "" : "s",
                     fmt::join(names, ", "));
}

Table table_of(const std::vector<RankSummary>& ranks) {
  Table table;
  table.headings = {"rank",       "host",  "process",     "device", "compute",
                    "collective", "steps", "median step", "clock"};
  table.left = {0, 1, 3};
  const auto count = [](const RankSummary& rank, EventKind kind) {
    return std::to_string(rank.events[static_cast<size_t>(kind)]);
  };
  for (const RankSummary& rank : ranks) {
    table.rows.push_back({std::to_string(rank.info.rank), rank.info.host,
                          std::to_string(rank.info.process), rank.info.device,
                          count(rank, EventKind::kCompute),
                          count(rank, EventKind::kCollective),
                          fmt::format("{}+{}", rank.warmup_steps, rank.steps),
                          time_text(median(rank.step_ns)),
                          time_text(rank.info.clock_offset_ns)});
  }
  return table;
}

class InfoCommand : public Command {
 public:
  std::string name() const override { return "info"; }
  std::string summary() const override { return "Show what a trace holds"; }

  void add_flags(Flags& flags) override {
    flags.add_option("trace", path_, "a trace, or what `import` takes")
        .required();
    flags.add_format(format_);
  }

  Result<int> run() override {
    const Result<Trace> trace = read_trace_shown(path_);
    if (!trace) return pass(trace.error());
    const std::vector<RankSummary> ranks = summarize(*trace);
    if (format_ == Format::kTable) {
      show("program {}, {} events, {}\n", program_name(*trace),
           trace->events.size(),
           trace->plan_text.empty() ? "no plan" : "with its plan");
      if (!trace->modules.empty()) show("{}\n", modules_text(*trace));
    }
    print_output(format_, table_of(ranks), json_of(*trace, path_, ranks));
    for (const std::string& warning : trace->warnings) {
      tell("reprise info: warning: {}\n", warning);
    }
    return kExitOk;
  }

 private:
  std::string path_;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_info_command() {
  return std::make_unique<InfoCommand>();
}

}  // namespace reprise

// reprise diff: what changed between two recorded runs, largest change first.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/open_trace.h"
#include "cli/output.h"
#include "replay/analysis/trace_diff.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// "2%" and "0.02" are the same. Errors: kInvalid.
Result<double> parse_ratio(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == '%') {
    value /= 100;
    ++end;
  }
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value < 0) {
    return fail(ErrorKind::kInvalid,
                "--fail-above {}: expected a share such as 2% or 0.02", text);
  }
  return value;
}

Json ratio_json(double ratio) {
  return std::isfinite(ratio) ? Json(ratio) : Json(nullptr);
}

const char* status_of(const DiffEntry& entry) {
  if (entry.before.is_occasional() || entry.after.is_occasional())
    return "in some steps";
  if (entry.before.count <= 0 && entry.after.count > 0) return "appeared";
  if (entry.before.count > 0 && entry.after.count <= 0) return "disappeared";
  return "common";
}

Json run_json(const std::string& path, const RunSteps& run) {
  return {{"trace", path},
          {"step_time_ns", run.step_ns},
          {"steps", run.steps},
          {"ranks", run.ranks}};
}

Json entry_json(const DiffEntry& entry) {
  return {{"key", entry.key},
          {"before_ns", entry.before.time_ns},
          {"after_ns", entry.after.time_ns},
          {"change_ns", entry.change_ns()},
          {"change", ratio_json(entry.change())},
          {"before_count", entry.before.count},
          {"after_count", entry.after.count},
          {"status", status_of(entry)}};
}

std::string change_text(double ratio) {
  return std::isfinite(ratio) ? percent_text(ratio) : "new";
}

std::vector<std::string> row_of(const DiffEntry& entry) {
  return {
      entry.key.size() > 60 ? entry.key.substr(0, 59) + "~" : entry.key,
      time_text(entry.before.time_ns),
      time_text(entry.after.time_ns),
      (entry.change_ns() > 0 ? "+" : "") + time_text(entry.change_ns()),
      change_text(entry.change()),
      entry.before.count == entry.after.count
          ? fmt::format("{:g}", entry.after.count)
          : fmt::format("{:g} > {:g}", entry.before.count, entry.after.count)};
}

Table table_of(const TraceDiff& diff, const std::string& by, size_t top) {
  Table table;
  table.headings = {by, "before", "after", "change", "", "count", ""};
  for (const DiffEntry& entry : diff.entries) {
    if (table.rows.size() == top) break;
    if (entry.before.time_ns == 0 && entry.after.time_ns == 0) continue;
    const std::string status = status_of(entry);
    std::vector<std::string> row = row_of(entry);
    row.push_back(status != "common"      ? status
                  : entry.is_of_waiting() ? "waiting"
                                          : "");
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table host_table_of(const TraceDiff& diff, size_t top) {
  Table table;
  table.headings = {"host operator, its own time",
                    "before",
                    "after",
                    "change",
                    "",
                    "count",
                    ""};
  for (const auto& [rank, entry] : diff.host) {
    if (table.rows.size() == top) break;
    table.rows.push_back(row_of(entry));
    table.rows.back().push_back(fmt::format("rank {}", rank));
  }
  return table;
}

Table rows_of(const TraceDiff& diff, const std::string& by) {
  Table table;
  table.headings = {by,          "before_ns",    "after_ns",
                    "change_ns", "before_count", "after_count",
                    "status"};
  for (const DiffEntry& entry : diff.entries) {
    table.rows.push_back(
        {entry.key, std::to_string(entry.before.time_ns),
         std::to_string(entry.after.time_ns), std::to_string(entry.change_ns()),
         fmt::format("{:g}", entry.before.count),
         fmt::format("{:g}", entry.after.count), status_of(entry)});
  }
  return table;
}

class DiffCommand : public Command {
 public:
  std::string name() const override { return "diff"; }
  std::string summary() const override {
    return "Compare two traces, largest change first";
  }

  void add_flags(Flags& flags) override {
    flags.add_option("before", before_path_, "a trace, or what `import` takes")
        .required();
    flags.add_option("after", after_path_, "trace to compare with it")
        .required();
    flags.add_option("--by", by_, "op, kind, collective or phase (default op)")
        .one_of({"op", "kind", "collective", "phase"});
    flags.add_option("--fail-above", fail_above_,
                     "exit 1 when the step, or 1 % of it, slowed by more: 2%");
    flags.add_option("--top", top_, "rows of the table (default 15)")
        .range(1, 1000000);
    flags.add_format(format_);
  }

  Result<int> run() override {
    std::optional<double> limit;
    if (!fail_above_.empty()) {
      const Result<double> parsed = parse_ratio(fail_above_);
      if (!parsed) {
        tell("reprise diff: {}\n", parsed.error().message);
        return kExitUsage;
      }
      limit = *parsed;
    }
    Result<Trace> before = read_trace_shown(before_path_);
    if (!before) return pass(before.error());
    Result<Trace> after = read_trace_shown(after_path_);
    if (!after) return pass(after.error());
    const Result<TraceDiff> diff =
        diff_traces(*std::move(before), *std::move(after), key());
    if (!diff) return pass(diff.error());
    const bool judges = limit && diff->comparable();
    const std::vector<std::string> slower =
        judges ? slower_than(*diff, *limit) : std::vector<std::string>{};
    print(*diff, limit, slower);
    if (limit && !judges)
      tell("reprise diff: --fail-above: not comparable, which fails too\n");
    return slower.empty() && (judges || !limit) ? kExitOk : kExitAnswerIsNo;
  }

 private:
  DiffKey key() const {
    static const std::map<std::string, DiffKey> keys = {
        {"op", DiffKey::kOp},
        {"kind", DiffKey::kKind},
        {"collective", DiffKey::kCollective},
        {"phase", DiffKey::kPhase}};
    return keys.at(by_);
  }

  void print(const TraceDiff& diff, const std::optional<double>& limit,
             const std::vector<std::string>& slower) const {
    if (format_ == Format::kTable) {
      show("step {} before, {} after: {}\n\n", time_text(diff.before.step_ns),
           time_text(diff.after.step_ns), change_text(diff.step_change()));
    }
    print_output(format_,
                 format_ == Format::kCsv ? rows_of(diff, by_)
                                         : table_of(diff, by_, top_),
                 json_of(diff, limit, slower));
    if (format_ == Format::kTable && !diff.host.empty())
      show("\n{}", table_text(host_table_of(diff, top_)));
    std::fflush(stdout);
    for (const std::string& remark : diff.remarks()) {
      tell("reprise diff: {}\n", remark);
    }
    for (const std::string& what : slower) {
      tell("reprise diff: slower by more than {}: {}\n", fail_above_, what);
    }
  }

  Json json_of(const TraceDiff& diff, const std::optional<double>& limit,
               const std::vector<std::string>& slower) const {
    Json json = {{"schema", "reprise.diff/1"},
                 {"by", by_},
                 {"before", run_json(before_path_, diff.before)},
                 {"after", run_json(after_path_, diff.after)},
                 {"step_time_ns",
                  {{"before", diff.before.step_ns},
                   {"after", diff.after.step_ns},
                   {"change", ratio_json(diff.step_change())}}},
                 {"comparable", diff.comparable()},
                 {"fail_above", limit ? Json(*limit) : Json(nullptr)},
                 {"slower", slower},
                 {"remarks", diff.remarks()}};
    json["entries"] = Json::array();
    for (const DiffEntry& entry : diff.entries) {
      json["entries"].push_back(entry_json(entry));
      if (by_ != "op") continue;
      json["entries"].back()["before_wait_ns"] = entry.before.wait_ns;
      json["entries"].back()["after_wait_ns"] = entry.after.wait_ns;
    }
    json["host_entries"] = Json::array();
    for (const auto& [rank, entry] : diff.host) {
      json["host_entries"].push_back(entry_json(entry));
      json["host_entries"].back()["rank"] = rank;
    }
    return json;
  }

  std::string before_path_, after_path_, by_ = "op", fail_above_;
  size_t top_ = 15;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_diff_command() {
  return std::make_unique<DiffCommand>();
}

}  // namespace reprise

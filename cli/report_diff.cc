// The report of two traces: what changed, largest change first.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "cli/open_trace.h"
#include "cli/report/charts.h"
#include "cli/report_pages.h"
#include "data/trace/trace.h"
#include "replay/analysis/trace_diff.h"

namespace reprise {
namespace {

constexpr size_t kDiffRows = 25;

std::string percent_of(double ratio) {
  return std::isfinite(ratio) ? percent_text(ratio) : "new";
}

std::vector<std::string> row_of(const DiffEntry& entry,
                                const std::string& note) {
  return {entry.key,
          time_text(entry.before.time_ns),
          time_text(entry.after.time_ns),
          (entry.change_ns() > 0 ? "+" : "") + time_text(entry.change_ns()),
          percent_of(entry.change()),
          note};
}

Table table_of(const TraceDiff& diff, const std::string& by) {
  Table table;
  table.headings = {by, "before", "after", "change", "", ""};
  for (const DiffEntry& entry : diff.entries) {
    if (table.rows.size() == kDiffRows) break;
    table.rows.push_back(row_of(entry, entry.is_of_waiting() ? "waiting" : ""));
  }
  return table;
}

Table host_table_of(const TraceDiff& diff) {
  Table table;
  table.headings = {
      "host operator, its own time", "before", "after", "change", "", ""};
  for (const auto& [rank, entry] : diff.host) {
    if (table.rows.size() == kDiffRows) break;
    table.rows.push_back(row_of(entry, fmt::format("rank {}", rank)));
  }
  return table;
}

BarChart kinds_chart(const TraceDiff& diff) {
  BarChart chart;
  chart.title = "A step before and after";
  const auto part = [&](const char* key, bool after) {
    for (const DiffEntry& entry : diff.entries) {
      if (entry.key != key) continue;
      const StepCost& cost = after ? entry.after : entry.before;
      return static_cast<double>(cost.time_ns);
    }
    return 0.0;
  };
  chart.legend = {"compute", "exposed communication", "copies", "", "idle"};
  for (const bool after : {false, true}) {
    chart.rows.push_back(
        {after ? "after" : "before",
         time_text(after ? diff.after.step_ns : diff.before.step_ns),
         {part("compute", after), part("exposed communication", after),
          part("memory", after), 0, part("idle", after)}});
  }
  return chart;
}

}  // namespace

Result<ReportPage> diff_report(const std::string& before,
                               const std::string& after) {
  const auto compared = [&](DiffKey key) -> Result<TraceDiff> {
    Result<Trace> first = read_trace_shown(before);
    if (!first) return pass(first.error());
    Result<Trace> second = read_trace_shown(after);
    if (!second) return pass(second.error());
    return diff_traces(*std::move(first), *std::move(second), key);
  };
  const Result<TraceDiff> kinds = compared(DiffKey::kKind);
  if (!kinds) return pass(kinds.error());
  const Result<TraceDiff> ops = compared(DiffKey::kOp);
  if (!ops) return pass(ops.error());
  const Result<TraceDiff> collectives = compared(DiffKey::kCollective);
  if (!collectives) return pass(collectives.error());
  ReportPage page;
  page.title = "Reprise: " + before + " and " + after;
  page.verdict = fmt::format(
      "The step takes {} before, {} after: {}. One recording each: whether "
      "that is more than chance, `reprise verify` says of several.",
      time_text(kinds->before.step_ns), time_text(kinds->after.step_ns),
      percent_of(kinds->step_change()));
  if (!kinds->comparable())
    page.verdict += " Not comparable: " + kinds->remarks().front() + ".";
  page.figures.push_back({"change", bar_chart_svg(kinds_chart(*kinds))});
  page.sections.push_back(
      {"Where the step goes", "<figure id=\"change\">" +
                                  page.figures.back().svg + "</figure>" +
                                  table_html(table_of(*kinds, "kind"))});
  page.sections.push_back(
      {"Operators", table_html(table_of(*ops, "operator"))});
  if (!ops->host.empty()) {
    page.sections.push_back({"Hosts", table_html(host_table_of(*ops))});
  }
  if (!collectives->entries.empty()) {
    page.sections.push_back(
        {"Collectives", table_html(table_of(*collectives, "collective"))});
  }
  return page;
}

}  // namespace reprise

// The report of one trace: verdict, findings, breakdown, timeline, collectives,
// what-ifs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/analysis_output.h"
#include "cli/findings_output.h"
#include "cli/open_trace.h"
#include "cli/report/what_if_grid.h"
#include "cli/report_fidelity.h"
#include "cli/report_figures.h"
#include "cli/report_pages.h"
#include "data/program/lowered_program.h"

namespace reprise {
namespace {

constexpr size_t kTraceRows = 20;

std::string figure_html(const ReportFigure& figure, const std::string& text) {
  return "<figure id=\"" + figure.name + "\">" + figure.svg + "<figcaption>" +
         html_text(text) + "</figcaption></figure>\n";
}

std::string details_html(const std::string& title, const std::string& body) {
  if (body.empty()) return "";
  return "<details><summary>" + html_text(title) + "</summary>" + body +
         "</details>\n";
}

std::string finding_html(const Finding& finding, const std::string& trace,
                         int64_t most_ns) {
  const double width = 160 * static_cast<double>(finding.gain_ns) /
                       static_cast<double>(std::max<int64_t>(most_ns, 1));
  std::string html = fmt::format(
      "<li><span class=\"gain\">{}{} ({})</span><span class=\"bar\" "
      "style=\"width:{:.0f}px\"></span>{}",
      finding.at_most ? "up to " : "", html_text(time_text(finding.gain_ns)),
      html_text(share_text(finding.gain_share)), width,
      html_text(finding.what));
  html += "<br><span class=\"dim\">because " +
          html_text(fmt::format("{}", fmt::join(finding.evidence, "; ")));
  if (!finding.where.source.empty()) {
    html += "; at " + html_text(finding.where.source);
  }
  html += "</span><br>" + html_text(finding.action);
  for (const std::string& command :
       {command_of(finding, trace), replay_command_of(finding, trace)}) {
    if (!command.empty()) html += "<br><code>" + html_text(command) + "</code>";
  }
  return html + "</li>\n";
}

std::string findings_html(const Findings& findings, const std::string& trace) {
  if (findings.list.empty()) {
    return "<p>" + html_text(no_finding_text(findings)) + "</p>\n";
  }
  std::string html =
      "<p class=\"note\">Each gain is that of a replay without the finding; "
      "gains do not add up.</p>\n<ol class=\"findings\">\n";
  for (const Finding& finding : findings.list) {
    html += finding_html(finding, trace, findings.list[0].gain_ns);
  }
  return html + "</ol>\n";
}

BarChart findings_chart(const Findings& findings) {
  BarChart chart;
  chart.title = "Findings: replayed gain";
  for (const Finding& finding : findings.list) {
    chart.rows.push_back({std::string(finding.kind),
                          time_text(finding.gain_ns),
                          {static_cast<double>(finding.gain_ns)}});
  }
  return chart;
}

constexpr const char* kTimelineHtml =
    "<p class=\"keys\"><button data-key=\"Home\">all (Home)</button>"
    "<button data-key=\"+\">zoom in (+)</button>"
    "<button data-key=\"-\">zoom out (-)</button>"
    "<button data-key=\"p\">path back (p)</button>"
    "<button data-key=\"n\">path on (n)</button></p>"
    "<canvas id=\"timeline\" tabindex=\"0\" role=\"img\" aria-label=\"Timeline "
    "of all ranks with the critical path; arrow keys pan, plus and minus zoom, "
    "n and p follow the path\"></canvas><p id=\"tip\" aria-live=\"polite\">"
    "The line is the critical path. Drag or arrow keys to pan, ctrl and wheel "
    "or + and - to zoom, n and p "
    "along the critical path.</p>";

void add(ReportPage& page, const std::string& title, std::string body) {
  if (!body.empty()) page.sections.push_back({title, std::move(body)});
}

void add_chart(ReportPage& page, const std::string& name, const BarChart& chart,
               const std::string& caption, std::string& body) {
  if (chart.rows.empty()) return;
  page.figures.push_back({name, bar_chart_svg(chart)});
  body += figure_html(page.figures.back(), caption);
}

std::string verdict_of(const Analysis& analysis, const Findings& findings) {
  std::string text = analysis_headline(analysis);
  if (findings.list.empty()) return text + "; " + no_finding_text(findings);
  const Finding& first = findings.list[0];
  return text + fmt::format(". First: {} (up to {}, {}).", first.what,
                            time_text(first.gain_ns),
                            share_text(first.gain_share));
}

void add_timeline(const AlignedTrace& aligned, const Analysis& analysis,
                  const NodeFacts& facts, ReportPage& page,
                  nlohmann::ordered_json& data) {
  const TimelineData timeline = timeline_data(aligned.by_rank(), analysis);
  data["timeline"] = timeline.json(facts, analysis.critical_path);
  page.figures.push_back({"timeline", still_timeline_svg(timeline)});
  std::string body = kTimelineHtml;
  if (timeline.left_out > 0) {
    body += fmt::format(
        "<p class=\"note\">{} events, the shortest ones, are left out; "
        "<code>reprise analyze --chrome</code> writes all.</p>",
        timeline.left_out);
  }
  add(page,
      analysis.critical_path.step
          ? fmt::format("Timeline and critical path of step {}",
                        *analysis.critical_path.step)
          : std::string("Timeline and critical path"),
      body);
}

void add_fidelity(const Fidelity& fidelity, ReportPage& page) {
  if (fidelity.caption.empty()) return;
  page.figures.push_back({"fidelity", fidelity_plot_svg(fidelity.plot)});
  add(page, "Predicted beside measured",
      figure_html(page.figures.back(), fidelity.caption));
}

/// Everything from an analysis.
ReportPage page_of(const AlignedTrace& aligned, const Analysis& analysis,
                   const LoweredProgram* program, const std::string& path) {
  const NodeFacts facts(aligned.by_rank());
  const Findings findings = find_all_findings(aligned, analysis);
  ReportPage page;
  page.title = "Reprise: " + path;
  page.verdict = verdict_of(analysis, findings);
  nlohmann::ordered_json data;
  add(page, "Findings", findings_html(findings, path));
  if (!findings.list.empty()) {
    page.figures.push_back(
        {"findings", bar_chart_svg(findings_chart(findings))});
  }
  const bool steps = analysis.typical.has_value();
  std::string body;
  add_chart(page, "breakdown", breakdown_chart(analysis),
            steps ? "Mean over the steps of a rank; each instant counts once."
                  : "Of all that was recorded; each instant counts once.",
            body);
  std::string tables;
  for (const Table& table :
       analysis_tables(aligned.by_rank(), analysis, kTraceRows)) {
    tables += table_html(table);
  }
  body += details_html("as tables", tables);
  add(page, steps ? "Where the step goes" : "Where the time goes", body);
  add_timeline(aligned, analysis, facts, page, data);
  body.clear();
  add_chart(page, "collectives", collectives_chart(analysis, kTraceRows),
            "A transfer begins when the last rank has come.", body);
  body += table_html(collectives_best_table(analysis, kTraceRows));
  add(page, "Collectives", body);
  add_fidelity(fidelity_of(aligned, program), page);
  if (analysis.graph) {
    if (auto grid = what_if_grid(facts, *analysis.graph)) {
      data["what_if"] = *std::move(grid);
      add(page, "What if",
          "<p class=\"note\">Every position was replayed when this report was "
          "made.</p><div id=\"what-if\" class=\"sliders\"></div>");
    }
  }
  body.clear();
  for (const std::string& remark : analysis.remarks) {
    body += "<p class=\"note\">" + html_text(remark) + "</p>\n";
  }
  add(page, "Remarks", body);
  page.data = script_json(data);
  return page;
}

}  // namespace

Result<ReportPage> trace_report(const std::string& path) {
  const Result<AlignedTrace> aligned = read_aligned_shown(path);
  if (!aligned) return pass(aligned.error());
  AnalysisOptions options;
  std::optional<LoweredProgram> program;
  if (!aligned->frame().program_text.empty()) {
    Result<LoweredProgram> lowered =
        lowered_program_of(aligned->frame(), path, "");
    if (lowered) program = *std::move(lowered);
  }
  if (program) options.program = &program->schedule;
  const Result<Analysis> analysis = analyze(*aligned, options);
  if (!analysis) return pass(analysis.error(), path);
  return page_of(*aligned, *analysis, program ? &*program : nullptr, path);
}

}  // namespace reprise

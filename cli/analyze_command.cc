// reprise analyze: where the time of a recorded run went, who is late, and
// what the critical path across ranks is.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "cli/analysis_output.h"
#include "cli/analysis_timeline.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/open_trace.h"
#include "cli/output.h"
#include "data/io/printable_text.h"
#include "data/program/lowered_program.h"
#include "replay/analysis/analysis.h"
#include "replay/findings/findings.h"

namespace reprise {
namespace {

constexpr const char* kLegend =
    "Shares of a window count each instant once: compute, else exposed\n"
    "communication, else copies, else idle. `hidden` is the communication "
    "that\n"
    "ran beside compute. A device is idle because of\n"
    "  host     what came next was launched too late\n"
    "  sync     so, after the host itself had waited for the device\n"
    "  streams  what came next waited for another stream\n"
    "  launch   it was launched in time: latency\n"
    "  unknown  its launch was not recorded";

class AnalyzeCommand : public Command {
 public:
  std::string name() const override { return "analyze"; }
  std::string summary() const override {
    return "Say where the time of a recorded run went";
  }

  void add_flags(Flags& flags) override {
    flags.add_option("trace", path_, "a trace, or what `import` takes")
        .required();
    flags.add_option("--step", step_, "only this step");
    flags.add_option("--top", top_, "rows of each table (default 6)")
        .range(1, 1000);
    flags.add_option("--chrome", chrome_path_,
                     "write the aligned timeline here (.json, .json.gz)");
    flags.add_flag("--force", force_, "replace an existing timeline");
    flags.add_format(format_);
    flags.footer(kLegend);
  }

  Result<int> run() override {
    if (!chrome_path_.empty()) {
      const Status writable = check_output(chrome_path_, force_);
      if (!writable) return pass(writable.error());
    }
    // A timeline shows all ranks at once.
    const Result<AlignedTrace> read = read_aligned_shown(
        path_, chrome_path_.empty() ? TraceByRank::kMostEvents : SIZE_MAX);
    if (!read) return pass(read.error());
    const AlignedTrace& aligned = *read;
    const Trace& trace = aligned.frame();
    AnalysisOptions options;
    options.step = step_;
    // Only CSV has no place for it.
    options.critical_path = format_ != Format::kCsv || !chrome_path_.empty();
    std::optional<LoweredProgram> program;
    if (options.critical_path && !trace.program_text.empty()) {
      Result<LoweredProgram> lowered = lowered_program_of(trace, path_, "");
      if (lowered) program = *std::move(lowered);
    }
    if (program) options.program = &program->schedule;
    const Result<Analysis> analysis = analyze(aligned, options);
    if (!analysis) return pass(analysis.error(), path_);
    if (!chrome_path_.empty()) {
      const Status written =
          write_chrome(analysis_timeline(aligned.trace(), *analysis, step_),
                       chrome_path_, existing_with(force_));
      if (!written) return pass(written.error());
      tell("wrote {}; open it in https://ui.perfetto.dev\n", chrome_path_);
    }
    const Findings findings = format_ == Format::kCsv
                                  ? Findings()
                                  : find_all_findings(aligned, *analysis);
    print(aligned.by_rank(), *analysis, findings);
    std::fflush(stdout);
    for (const std::string& warning : trace.warnings) {
      tell("reprise analyze: warning: {}\n", warning);
    }
    for (const std::string& remark : analysis->remarks) {
      tell("reprise analyze: {}\n", remark);
    }
    return kExitOk;
  }

 private:
  void print(const TraceByRank& trace, const Analysis& analysis,
             const Findings& findings) const {
    switch (format_) {
      case Format::kTable:
        return write_lines(
            stdout, analysis_text(trace, analysis, findings, path_, top_));
      case Format::kJson:
        return write_out(
            printable_json(analysis_json(trace, analysis, findings, path_)));
      case Format::kCsv:
        return write_out(table_csv(analysis_rows(analysis)));
    }
  }

  std::string path_, chrome_path_;
  std::optional<int32_t> step_;
  size_t top_ = 6;
  bool force_ = false;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_analyze_command() {
  return std::make_unique<AnalyzeCommand>();
}

}  // namespace reprise

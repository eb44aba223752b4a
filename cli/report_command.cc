// reprise report: a trace, two traces or a plan as one HTML file.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/open_trace.h"
#include "cli/output.h"
#include "cli/report_pages.h"
#include "data/file.h"

namespace reprise {
namespace {

class ReportCommand : public Command {
 public:
  std::string name() const override { return "report"; }
  std::string summary() const override {
    return "Write one HTML file about a trace, two, or a plan";
  }

  void add_flags(Flags& flags) override {
    flags.add_option("inputs", inputs_, "a trace, two to compare, or a plan")
        .required()
        .type_name("TRACE|PLAN");
    flags.add_option("-o,--output", output_, "the report (.html)")
        .required()
        .type_name("FILE");
    flags.add_option("--svg", svg_, "write each figure here as SVG too")
        .type_name("DIR");
    flags.add_flag("--force", force_, "replace existing files");
    flags.footer(
        "The file needs no network and no other file: open it in a browser.");
  }

  Result<int> run() override {
    const Status writable = check_output(output_, force_);
    if (!writable) return pass(writable.error());
    const Result<ReportPage> page = report_page(inputs_);
    if (!page) return pass(page.error());
    const Status written =
        write_file_atomically(output_, page_html(*page), existing_with(force_));
    if (!written) return pass(written.error());
    const Status figures = write_figures(*page);
    if (!figures) return pass(figures.error());
    tell("wrote {}; open it in a browser\n", output_);
    return kExitOk;
  }

 private:
  Status write_figures(const ReportPage& page) const {
    if (svg_.empty()) return {};
    if (::mkdir(svg_.c_str(), 0777) != 0 && errno != EEXIST) {
      return fail(ErrorKind::kIo, "--svg {}: {}", svg_,
                  std::generic_category().message(errno));
    }
    for (const ReportFigure& figure : page.figures) {
      const Status written = write_file_atomically(
          svg_ + "/" + figure.name + ".svg", figure.svg, existing_with(force_));
      if (!written) return pass(written.error());
    }
    return {};
  }

  std::vector<std::string> inputs_;
  std::string output_, svg_;
  bool force_ = false;
};

}  // namespace

Result<ReportPage> report_page(const std::vector<std::string>& inputs) {
  if (inputs.size() > 2) {
    return fail(ErrorKind::kInvalid,
                "{} files: a report is of one trace or plan, or of two "
                "traces, before and after",
                inputs.size());
  }
  const Result<bool> plan = is_plan_file(inputs[0]);
  if (!plan) return pass(plan.error());
  if (inputs.size() == 2) return diff_report(inputs[0], inputs[1]);
  if (!*plan) return trace_report(inputs[0]);
  const Result<Plan> loaded = load_plan(inputs[0]);
  if (!loaded) return pass(loaded.error());
  return plan_report(*loaded, inputs[0]);
}

std::unique_ptr<Command> make_report_command() {
  return std::make_unique<ReportCommand>();
}

}  // namespace reprise

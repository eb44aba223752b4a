// reprise export: a trace in the formats of other tools.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/export_ddp.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "data/draw/chrome_export.h"
#include "data/file.h"
#include "data/trace/csv_export.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

class ExportCommand : public Command {
 public:
  std::string name() const override { return "export"; }
  std::string summary() const override {
    return "Write a trace as a timeline or rows, a plan for DDP";
  }

  void add_flags(Flags& flags) override {
    flags.add_option("trace", path_, "trace file; a plan for ddp").required();
    flags
        .add_option("--as", kind_,
                    "chrome (.json, .json.gz), csv, or ddp (a directory)")
        .required()
        .one_of({"chrome", "csv", "ddp"});
    flags.add_option("-o,--output", output_, "what to write, - for stdout")
        .required();
    flags.add_flag("--force", force_, "replace an existing file");
  }

  Result<int> run() override {
    if (Status writable = check_output(output_, force_); !writable) {
      return pass(writable.error());
    }
    if (kind_ == "ddp") {
      const Status done = export_ddp(path_, output_, force_);
      if (!done) return pass(done.error());
      return kExitOk;
    }
    Result<Trace> trace = read_trace(path_);
    if (!trace) return pass(trace.error());
    const Status written =
        kind_ == "csv" ? write_text(csv_of(*trace)) : write_timeline(*trace);
    if (!written) return pass(written.error());
    if (output_ != "-") {
      tell("wrote {} ({} events{})\n", output_, trace->events.size(),
           kind_ == "chrome" ? "; open it in https://ui.perfetto.dev" : "");
    }
    return kExitOk;
  }

 private:
  Status write_text(const std::string& text) const {
    if (output_ != "-")
      return write_file_atomically(output_, text, existing_with(force_));
    write_out(text);
    return {};
  }

  Status write_timeline(Trace& trace) const {
    // Without communication nothing ties the ranks together.
    const auto solo = trace.environment.find("solo");
    if (solo == trace.environment.end() || solo->second != "1") {
      align_clocks(trace);
    }
    const ChromeTimeline timeline = timeline_of(trace);
    if (output_ == "-") return write_text(timeline.json());
    return write_chrome(timeline, output_, existing_with(force_));
  }

  std::string path_, kind_, output_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_export_command() {
  return std::make_unique<ExportCommand>();
}

}  // namespace reprise

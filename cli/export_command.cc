// reprise export: a trace in the formats of other tools, a plan as what other
// tools are told of it.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "cli/command.h"
#include "cli/export/export_target.h"
#include "cli/flags.h"
#include "cli/open_trace.h"
#include "cli/output.h"
#include "data/draw/chrome_export.h"
#include "data/file.h"
#include "data/io/printable_text.h"
#include "data/trace/csv_export.h"
#include "data/trace/trace_database.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"chrome", "csv"};
  for (const ExportTarget& target : export_targets()) {
    names.emplace_back(target.name);
  }
  return names;
}

/// "TITLE a b c" in lines that fit a help page.
std::string listed(std::string_view title,
                   const std::vector<std::string>& names) {
  constexpr size_t kWidth = 80;
  std::string text(title);
  size_t width = text.size();
  for (const std::string& name : names) {
    if (width + 1 + name.size() > kWidth) {
      text += "\n ";
      width = 1;
    }
    text += ' ' + name;
    width += 1 + name.size();
  }
  return text;
}

std::string targets_footer() {
  std::vector<std::string> of_trace = {"chrome", "csv"}, of_plan;
  for (const ExportTarget& target : export_targets()) {
    if (target.of_trace) of_trace.emplace_back(target.name);
    if (!target.of_trace || target.of_both) of_plan.emplace_back(target.name);
  }
  return listed("Of a trace:", of_trace) + "\n" + listed("Of a plan:", of_plan);
}

/// A name of one file, not of a directory for several.
bool names_file(const std::string& output) {
  const std::filesystem::path path(output);
  return output == "-" || path.extension() == ".json";
}

class ExportCommand : public Command {
 public:
  std::string name() const override { return "export"; }
  std::string summary() const override {
    return "Write a trace or a plan as what another tool reads";
  }

  void add_flags(Flags& flags) override {
    flags.add_option("input", request_.path, "trace or plan file")
        .required()
        .type_name("TRACE|PLAN");
    flags.add_option("--as", kind_, "what to write: see below")
        .required()
        .type_name("TARGET")
        .one_of(target_names());
    flags
        .add_option("-o,--output", output_,
                    "file, or directory where there are several; - for stdout")
        .required()
        .type_name("PATH");
    flags
        .add_option("--points", request_.points,
                    "nccl-tests by ring/ll[/CHANNELS]=TRACE (nccl-tuner)")
        .type_name("WHAT=TRACE");
    flags
        .add_option("--program", request_.program,
                    "HLO text that the plan is of (xla)")
        .type_name("FILE");
    flags
        .add_option("--trace", request_.recording,
                    "recording that the plan is of (chakra)")
        .type_name("TRACE");
    flags
        .add_option("--costs", request_.costs,
                    "database that optimize kept prices in (chakra)")
        .type_name("FILE");
    flags
        .add_option("--step", request_.step,
                    "one step instead of everything (chakra)")
        .type_name("N");
    flags.add_flag("--force", force_, "replace existing files");
    flags.footer(targets_footer());
  }

  Result<int> run() override {
    if (Status used = check_options(); !used) return pass(used.error());
    for (const ExportTarget& target : export_targets()) {
      if (target.name == kind_) return run_target(target);
    }
    if (Status free = check_free(output_); !free) return pass(free.error());
    if (Status fits = check_trace(kind_); !fits) return pass(fits.error());
    Result<Trace> trace = read_trace_shown(request_.path);
    if (!trace) return pass(trace.error());
    const Status written = kind_ == "csv" ? write_text(output_, csv_of(*trace))
                                          : write_timeline(*trace);
    if (!written) return pass(written.error());
    if (output_ != "-") {
      tell("wrote {} ({} events{})\n", output_, trace->events.size(),
           kind_ == "chrome" ? "; open it in https://ui.perfetto.dev" : "");
    }
    return kExitOk;
  }

 private:
  /// That no option is given which the target does not look at.
  Status check_options() const {
    const std::tuple<std::string_view, bool, std::string_view> options[] = {
        {"--points", !request_.points.empty(), "nccl-tuner"},
        {"--program", !request_.program.empty(), "xla"},
        {"--trace", !request_.recording.empty(), "chakra"},
        {"--costs", !request_.costs.empty(), "chakra"},
        {"--step", request_.step.has_value(), "chakra"},
    };
    for (const auto& [option, given, target] : options) {
      if (!given || target == kind_) continue;
      return fail(ErrorKind::kInvalid, "{} is for --as {}, not for {}", option,
                  target, kind_);
    }
    return {};
  }

  /// That it may be written, and is not what it is made of.
  Status check_free(const std::string& path) const {
    std::error_code missing;
    if (path != "-" &&
        std::filesystem::equivalent(path, request_.path, missing)) {
      return fail(ErrorKind::kInvalid, "{}: would replace what it is made of",
                  path);
    }
    return check_output(path, force_);
  }

  Status write_text(const std::string& path, const std::string& text) const {
    if (path != "-")
      return write_file_atomically(path, text, existing_with(force_));
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
    if (output_ == "-") return write_text(output_, timeline.json());
    return write_chrome(timeline, output_, existing_with(force_));
  }

  /// That the file is what a target of traces is made of.
  Status check_trace(std::string_view target) const {
    const Result<bool> plan = is_plan_file(request_.path);
    if (!plan) return pass(plan.error());
    if (!*plan) return {};
    return fail(ErrorKind::kInvalid,
                "{} is a plan, and {} is made of what ran: record the job "
                "under the plan and export that trace",
                request_.path, target);
  }

  Status check_plan(std::string_view target) const {
    std::error_code error;
    const bool folder = std::filesystem::is_directory(request_.path, error);
    if (!folder) {
      const Result<bool> plan = is_plan_file(request_.path);
      if (!plan) return pass(plan.error());
      if (*plan) return {};
      const Result<MappedFile> file = MappedFile::open(request_.path);
      if (!file || !begins_as_trace(file->bytes())) return {};
    }
    return fail(ErrorKind::kInvalid,
                "{} is a {}, and {} is made of a plan: `reprise optimize {} "
                "-o plan.json` makes one",
                request_.path, folder ? "directory" : "trace", target,
                request_.path);
  }

  /// Of a target that takes both: which one this is, with what else it needs.
  Status check_either(std::string_view target, ExportRequest& request) const {
    const Result<bool> plan = is_plan_file(request.path);
    if (!plan) return pass(plan.error());
    request.planned = *plan;
    if (!*plan && request.recording.empty() && request.costs.empty()) return {};
    if (!*plan) {
      return fail(ErrorKind::kInvalid,
                  "{} is a trace: --trace and --costs are for a plan",
                  request.path);
    }
    if (request.recording.empty()) {
      return fail(ErrorKind::kInvalid,
                  "{} is a plan: {} needs the recording that it was made of "
                  "too, --trace TRACE",
                  request.path, target);
    }
    if (!request.step) return {};
    return fail(ErrorKind::kInvalid,
                "{} is a plan of one step: --step is for a trace",
                request.path);
  }

  Result<int> run_target(const ExportTarget& target) const {
    ExportRequest request = request_;
    const Status fits = target.of_both    ? check_either(target.name, request)
                        : target.of_trace ? check_trace(target.name)
                                          : check_plan(target.name);
    if (!fits) return pass(fits.error());
    std::optional<TraceFile> traced;
    if (target.of_trace) {
      Result<TraceFile> opened =
          TraceFile::open(request.planned ? request.recording : request.path);
      if (!opened) return pass(opened.error());
      request.file = traced.emplace(*std::move(opened)).path();
    }
    const Result<Artefact> artefact = target.make(request);
    if (!artefact) return pass(artefact.error());
    const Status written = write_artefact(*artefact);
    if (!written) return pass(written.error());
    if (output_ != "-") tell("wrote {}\n\n{}", output_, artefact->advice);
    return kExitOk;
  }

  /// The first file alone where one is asked for or there is no other, else a
  /// directory of all.
  Status write_artefact(const Artefact& artefact) const {
    const ExportedFile& first = artefact.files.front();
    if (output_ == "-") {
      write_out(first.name.ends_with(".json") ? printable_json(first.text)
                                              : first.text);
      return {};
    }
    if (artefact.files.size() == 1 || names_file(output_)) {
      if (Status free = check_free(output_); !free) return free;
      return write_text(output_, first.text);
    }
    std::error_code error;
    std::filesystem::create_directories(output_, error);
    if (error) return fail(ErrorKind::kIo, "{}: {}", output_, error.message());
    for (const ExportedFile& file : artefact.files) {
      const std::string path = output_ + "/" + file.name;
      if (Status free = check_free(path); !free) return free;
    }
    for (const ExportedFile& file : artefact.files) {
      const Status done = write_text(output_ + "/" + file.name, file.text);
      if (!done) return done;
    }
    return {};
  }

  ExportRequest request_;
  std::string kind_, output_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_export_command() {
  return std::make_unique<ExportCommand>();
}

}  // namespace reprise

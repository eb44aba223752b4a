// reprise profile: runs any command and records all its processes.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/profile_environment.h"
#include "data/formats/ranks.h"
#include "data/import/import_report.h"
#include "profiler/gather/gather_profile.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// As shells, env and timeout have it for a command that cannot be started.
constexpr int kExitNotFound = 127, kExitNotExecutable = 126;

/// Helpers of a process, as Python's, end a moment after it.
constexpr int kMostGlances = 20;
constexpr std::chrono::milliseconds kGlancePeriod{20};

void say(const std::string& message) { tell("reprise profile: {}\n", message); }

/// What would keep a trace from being written, before the command runs for
/// hours. Errors: kInvalid, kIo.
Status check_trace_place(const std::string& output) {
  if (output == "-") {
    return fail(ErrorKind::kInvalid,
                "a trace is a file, not a stream: give -o a file's name");
  }
  std::error_code error;
  if (fs::is_directory(output, error)) {
    return fail(ErrorKind::kInvalid, "{}: is a directory", output);
  }
  const fs::path folder = fs::absolute(output, error).parent_path();
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorKind::kIo, "{}: there is no directory {}", output,
                folder.string());
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return fail(ErrorKind::kIo, "{}: cannot write in {}: {}", output,
                folder.string(), std::strerror(errno));
  }
  return {};
}

/// Of shards; gone at the end unless it is to stay. Errors: kIo; kInvalid for a
/// directory that holds something.
Result<TemporaryDirectory> make_shard_directory(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (::mkdir(absolute.c_str(), 0700) != 0 &&
      (errno != EEXIST || !fs::is_directory(absolute, error))) {
    return fail(ErrorKind::kIo, "{}: cannot make a directory for shards: {}",
                path, std::strerror(errno));
  }
  if (!fs::is_empty(absolute, error)) {
    return fail(ErrorKind::kInvalid,
                "{}: shards need a directory of their own, and this one is "
                "not empty",
                path);
  }
  return TemporaryDirectory(absolute.lexically_normal().string());
}

/// Without room for even a small trace.
bool is_full(const std::string& directory) {
  constexpr uintmax_t kLeastRoomBytes = 64 << 10;
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  return !error && space.available < kLeastRoomBytes;
}

class ProfileCommand : public Command {
 public:
  std::string name() const override { return "profile"; }
  std::string summary() const override {
    return "Run any command and record a trace of its processes";
  }

  void add_flags(Flags& flags) override {
    flags.add_option("-o,--output", output_, "trace to write")
        .required()
        .type_name("FILE");
    flags.add_option("--steps", steps_, "record steps A to B - 1 alone")
        .type_name("A:B");
    flags
        .add_option("--keep-shards", keep_directory_,
                    "leave what each process recorded in a new DIR")
        .type_name("DIR");
    flags.add_flag("--nccl-preload", nccl_preload_,
                   "record NCCL older than 2.27, by interposing its calls");
    flags.add_flag("--force", force_, "replace an existing trace");
    flags.add_option("command", command_, "what to run, with its own flags")
        .required()
        .type_name("CMD");
    flags.footer(
        "The command's exit status is passed through (128+N on a signal, 127 "
        "when\nthere is no such command, 126 when it cannot be run).");
  }
  bool runs_a_command() const override { return true; }

  Result<int> run() override {
    if (!steps_.empty() && !parse_step_window(steps_)) {
      say(fmt::format("--steps {}: expected A:B with A before B, as in 3:7",
                      steps_));
      return kExitUsage;
    }
    Status writable = check_output(output_, force_);
    if (writable) writable = check_trace_place(output_);
    if (!writable) return pass(writable.error());
    if (const int missing = check_command(); missing != 0) return missing;
    Result<TemporaryDirectory> shards = make_shard_directory(
        keep_directory_.empty()
            ? fmt::format("{}.shards.{}", output_, ::getpid())
            : keep_directory_);
    if (!shards) return pass(shards.error());
    if (!keep_directory_.empty()) shards->stay();
    const Result<ProfileEnvironment> environment =
        profile_environment({.directory = shards->path(),
                             .steps = steps_,
                             .nccl_preload = nccl_preload_},
                            command_);
    if (!environment) return pass(environment.error());
    for (const std::string& note : environment->notes) say(note);
    const Result<int> status = run_process(command_, environment->variables);
    if (!status) {
      say(status.error().message);
      return kExitNotExecutable;
    }
    return finish(*status, *shards);
  }

 private:
  /// 0 when the command can be started.
  int check_command() const {
    const std::string& program = command_.front();
    const bool is_path = program.find('/') != std::string::npos;
    const std::string path = is_path ? program : find_program(program);
    std::error_code error;
    if (path.empty() || !fs::exists(path, error)) {
      say(fmt::format("{}: no such command", program));
      return kExitNotFound;
    }
    if (fs::is_directory(path, error) || ::access(path.c_str(), X_OK) != 0) {
      say(fmt::format("{}: cannot be run: {}", program,
                      fs::is_directory(path, error) ? "it is a directory"
                                                    : "permission denied"));
      return kExitNotExecutable;
    }
    return 0;
  }

  /// What stays unrecorded although the command is through.
  void tell_of_losses(const TemporaryDirectory& shards) const {
    std::vector<std::string> running = processes_recording_to(shards.path());
    for (int i = 0; i < kMostGlances && !running.empty(); ++i) {
      std::this_thread::sleep_for(kGlancePeriod);
      running = processes_recording_to(shards.path());
    }
    if (!running.empty()) {
      constexpr size_t kMostNamed = 5;
      const size_t named = std::min(running.size(), kMostNamed);
      say(fmt::format(
          "{}{} still {}: what comes from here on is lost (let the command "
          "wait for its processes)",
          fmt::join(running.begin(),
                    running.begin() + static_cast<ptrdiff_t>(named), ", "),
          running.size() > named ? ", …" : "",
          running.size() == 1 ? "runs" : "run"));
    }
    if (is_full(shards.path())) {
      say(
          fmt::format("the disk of {} is full: what was recorded last may be "
                      "missing",
                      shards.path()));
    }
  }

  /// The command's own failure goes before one of gathering.
  Result<int> finish(int status, TemporaryDirectory& shards) const {
    tell_of_losses(shards);
    const Result<ProfileFiles> files = find_profile_files(shards.path());
    if (files && files->processes.empty() && files->trainers.empty()) {
      say(is_full(shards.path())
              ? "nothing was recorded and nothing written"
              : "nothing was recorded and nothing written: no process of the "
                "command loaded the recorder (statically linked, setuid, or "
                "started with a cleared environment)");
      return status;
    }
    const Result<GatheredProfile> gathered = gather_profile(
        shards.path(), output_,
        {.window = parse_step_window(steps_).value_or(StepWindow()),
         .existing = existing_with(force_),
         .align_clocks = [](Trace& trace) { align_clocks(trace); }});
    if (!gathered) {
      shards.stay();
      say(
          fmt::format("the shards are kept in {} (`reprise import` gathers "
                      "them)",
                      shards.path()));
      if (status == 0) return pass(gathered.error());
      say(gathered.error().message);
      return status;
    }
    report(*gathered);
    if (!keep_directory_.empty()) {
      say(fmt::format("shards kept in {}", shards.path()));
    }
    return status;
  }

  void report(const GatheredProfile& gathered) const {
    constexpr size_t kMostRemarks = 10;
    std::vector<std::string> remarks =
        import_remarks(gathered.files, kMostRemarks);
    remarks.insert(remarks.end(), gathered.warnings.begin(),
                   gathered.warnings.end());
    for (const std::string& remark : remarks) tell("  {}\n", remark);
    const bool has_gpu =
        std::any_of(gathered.files.begin(), gathered.files.end(),
                    [](const FileReport& file) { return file.kernels > 0; });
    say(fmt::format("wrote {} (rank {}, {} events{})", output_,
                    rank_list(gathered.ranks), gathered.events,
                    gathered.of_trainer || has_gpu ? "" : ", none on a GPU"));
  }

  std::string output_, steps_, keep_directory_;
  std::vector<std::string> command_;
  bool nccl_preload_ = false, force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_profile_command() {
  return std::make_unique<ProfileCommand>();
}

}  // namespace reprise

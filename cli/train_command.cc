// reprise train: runs a program on N ranks and records it.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/launcher.h"
#include "cli/output.h"
#include "cli/process.h"
#include "data/io/json_tree.h"
#include "data/program/dump_folder.h"
#include "data/trace/trace_file.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no word for what is not finite: there it is null.
double number_of(const Json& value) {
  return value.is_number() ? value.get<double>()
                           : std::numeric_limits<double>::quiet_NaN();
}

/// The trainer's flags of a GPU, passed on to it.
struct GpuFlags {
  std::string collectives, math;
  bool no_graph = false;

  std::vector<std::string> words() const {
    std::vector<std::string> words;
    if (!collectives.empty())
      words.insert(words.end(), {"--collectives", collectives});
    if (!math.empty()) words.insert(words.end(), {"--math", math});
    if (no_graph) words.push_back("--no-graph");
    return words;
  }
};

void add_gpu_flags(Flags& flags, GpuFlags& gpu) {
  flags
      .add_option("--collectives", gpu.collectives,
                  "between GPUs: auto (default), nccl or gloo")
      .one_of({"auto", "nccl", "gloo"});
  flags
      .add_option("--math", gpu.math,
                  "dots of f32 on a GPU: f32 (default) or tf32")
      .one_of({"f32", "tf32"});
  flags.add_flag("--no-graph", gpu.no_graph,
                 "on a GPU, launch every unit, not one CUDA graph");
}

// Every rank refuses this too; refused here it is said once and without
// mpirun's words. Ranks sent to other hosts may find a driver there.
Status check_driver(const TrainRequest& request) {
  const bool elsewhere = !request.mpi_arguments.empty() ||
                         std::getenv("REPRISE_MPI_ARGS") != nullptr;
  if (request.device != "cuda" || elsewhere) return {};
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    return fail(ErrorKind::kDevice,
                "--device cuda needs the NVIDIA driver (libcuda.so.1 cannot be "
                "opened); use --device cpu, or see `reprise doctor`");
  }
  ::dlclose(driver);
  return {};
}

// Said before hours of training, not after them. Errors: kIo.
Status check_writable_place(const std::string& path) {
  std::error_code ignored;
  const auto target = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(target))
    return fail(ErrorKind::kIo, "{}: cannot write: it is a directory", path);
  if (std::filesystem::is_other(target)) return {};  // Written in place.
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (::access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) == 0)
    return {};
  return fail(ErrorKind::kIo, "{}: cannot write: {}", path,
              std::strerror(errno));
}

// The ranks' own status, but 1 ("the answer is no") comes with a result: alone
// it is mpirun's, which could not start them and has said why.
int status_of_no_result(int status) {
  if (status == kExitOk) return kExitInternal;
  const bool is_mpiruns = status == kExitAnswerIsNo ||
                          (status > kExitInternal && status < 128) ||
                          status > 128 + SIGRTMAX;  // 255: no host, no daemon.
  return is_mpiruns ? kExitEnvironment : status;
}

class TrainCommand : public Command {
 public:
  std::string name() const override { return "train"; }
  std::string summary() const override {
    return "Run a training step on N ranks and record a trace";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("program", request_.program,
                    "PROGRAM.hlo, PROGRAM.json beside it; or a dump folder")
        .required();
    flags.add_option("-n,--ranks", request_.ranks, "ranks to start (default 1)")
        .positive();
    flags.add_option("--plan", request_.plan,
                     "plan to run under (default: identity)");
    flags.add_option("--data", request_.data.folder,
                     "folder of its data (default: the program's)");
    flags.add_flag("--made-up-data", request_.data.made_up,
                   "read no data: for steps that are only timed");
    flags.add_option("--state", request_.data.state,
                     "start from this state and where its data was");
    flags.add_option("--dump-state", request_.dump_state,
                     "write the final state here: .safetensors or .npz");
    flags.add_flag("--allow-nan", request_.allow_nan,
                   "go on where the loss is not finite");
    flags.add_option("--trace", trace_path_, "write a trace of the run here");
    flags.add_option("--steps", request_.steps, "training steps (default 20)")
        .positive();
    flags
        .add_option("--warmup", request_.warmup,
                    "first steps that are not timed (default 2)")
        .not_negative();
    flags.add_option("--device", request_.device, "cpu (default) or cuda")
        .one_of({"cpu", "cuda"});
    flags.add_flag("--verify", request_.verify,
                   "compare the final state with the reference results");
    flags.add_flag("--solo", request_.solo,
                   "skip all communication (calibration)");
    flags.add_flag("--interpret", request_.interpret,
                   "interpret kernels instead of compiling them");
    flags
        .add_option("--timeout", request_.timeout_s,
                    "seconds to wait for a silent rank (default 30)")
        .positive();
    flags
        .add_option("--threads", threads_,
                    "threads of each rank (default: its share of the cores)")
        .positive();
    flags
        .add_option("--mpi-arg", request_.mpi_arguments,
                    "one more argument for mpirun (repeatable)")
        .repeatable();
    flags.add_flag("--force", force_, "replace an existing trace or state");
    flags.add_format(format_);
    add_gpu_flags(flags, gpu_);
    flags.leave_to_footer({"--collectives", "--math", "--no-graph", "--solo",
                           "--interpret", "--timeout", "--threads", "--mpi-arg",
                           "--made-up-data"});
    flags.footer(
        "Rare: --solo --interpret --timeout --threads --mpi-arg "
        "--made-up-data\n"
        "      --collectives --math --no-graph");
  }

  Result<int> run() override {
    if (request_.warmup >= request_.steps) {
      tell("reprise train: --warmup {} leaves no timed step of --steps {}\n",
           request_.warmup, request_.steps);
      return kExitUsage;
    }
    if (request_.verify && !request_.data.state.empty()) {
      tell(
          "reprise train: --verify compares with a run from the start; leave "
          "--state out\n");
      return kExitUsage;
    }
    const Result<ChosenProgram> chosen = choose_program(request_.program);
    if (!chosen) return pass(chosen.error());
    request_.program = chosen->path;
    if (!chosen->reason.empty())
      tell("reprise train: {}: {}\n", chosen->path, chosen->reason);
    const Status driver = check_driver(request_);
    if (!driver) return pass(driver.error());
    if (!trace_path_.empty() && request_.device == "cuda") return profile();
    request_.trainer_arguments = gpu_.words();
    if (threads_ > 0) {
      request_.trainer_arguments.insert(
          request_.trainer_arguments.end(),
          {"--threads", std::to_string(threads_)});
    }
    for (const std::string& path : {trace_path_, request_.dump_state}) {
      if (path.empty()) continue;
      Status writable = check_output(path, force_);
      if (writable) writable = check_writable_place(path);
      if (!writable) return pass(writable.error());
    }
    request_.record = !trace_path_.empty();
    const Result<TrainOutcome> outcome = run_trainer(request_);
    if (!outcome) return pass(outcome.error());
    if (outcome->result_json.empty())
      return status_of_no_result(outcome->exit_status);
    if (request_.record && outcome->exit_status <= 1) {
      const HeldSignals held;
      const Status written =
          write_trace(outcome->trace, trace_path_, existing_with(force_));
      if (!written) return pass(written.error());
      for (const std::string& warning : outcome->trace.warnings)
        tell("reprise train: {}\n", warning);
      tell("wrote {} ({} events, {} ranks)\n", trace_path_,
           outcome->trace.events.size(), outcome->trace.ranks.size());
    }
    print_result(Json::parse(outcome->result_json));
    return outcome->exit_status;
  }

 private:
  // On a GPU the trainer only launches; when units ran, CUPTI knows.
  Result<int> profile() const {
    const std::string self = executable_directory() + "/reprise";
    std::vector<std::string> words = {self, "profile", "-o", trace_path_};
    if (force_) words.push_back("--force");
    words.insert(
        words.end(),
        {"--", self, "train", request_.program, "--ranks",
         std::to_string(request_.ranks), "--steps",
         std::to_string(request_.steps), "--warmup",
         std::to_string(request_.warmup), "--device", request_.device,
         "--timeout", fmt::format("{}", request_.timeout_s), "--format",
         format_ == Format::kTable  ? "table"
         : format_ == Format::kJson ? "json"
                                    : "csv"});
    if (!request_.plan.empty())
      words.insert(words.end(), {"--plan", request_.plan});
    if (!request_.data.folder.empty())
      words.insert(words.end(), {"--data", request_.data.folder});
    if (!request_.data.state.empty())
      words.insert(words.end(), {"--state", request_.data.state});
    if (!request_.dump_state.empty())
      words.insert(words.end(), {"--dump-state", request_.dump_state});
    if (request_.data.made_up) words.push_back("--made-up-data");
    if (request_.allow_nan) words.push_back("--allow-nan");
    if (request_.verify) words.push_back("--verify");
    if (request_.solo) words.push_back("--solo");
    for (const std::string& word : gpu_.words()) words.push_back(word);
    for (const std::string& word : request_.mpi_arguments)
      words.push_back("--mpi-arg=" + word);
    return run_process(words);
  }

  void print_result(const Json& json) const {
    const auto& time = json.at("step_time_ns");
    const auto& loss = json.at("loss");
    Table table;
    table.headings = {"program",       "ranks", "steps",
                      "step (median)", "min",   "p90"};
    table.rows.push_back(
        {std::filesystem::path(request_.program).stem().string(),
         std::to_string(request_.ranks), json_text(json.at("steps")),
         duration_text(time.at("median")), duration_text(time.at("min")),
         duration_text(time.at("p90"))});
    const auto add = [&](const char* heading, std::string value) {
      table.headings.emplace_back(heading);
      table.rows[0].push_back(std::move(value));
    };
    if (!loss.empty()) {
      add("first loss", fmt::format("{:.4f}", number_of(loss.front())));
      add("last loss", fmt::format("{:.4f}", number_of(loss.back())));
    }
    if (json.contains("accuracy")) {
      add("accuracy",
          fmt::format("{:.1f} %", 100 * number_of(json["accuracy"].back())));
    }
    if (json.contains("verification")) {
      const auto& verification = json["verification"];
      add("worst tensor error",
          fmt::format(
              "{:.1e} ({}, limit {:.0e})",
              number_of(verification.value("worst_error", Json())),
              verification.at("passed").get<bool>() ? "passed" : "FAILED",
              verification.at("limit").get<double>()));
    }
    print_output(format_, table, json);
  }

  TrainRequest request_;
  int64_t threads_ = 0;  ///< Of each rank; 0: the trainer's choice.
  GpuFlags gpu_;
  std::string trace_path_;
  bool force_ = false;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_train_command() {
  return std::make_unique<TrainCommand>();
}

}  // namespace reprise

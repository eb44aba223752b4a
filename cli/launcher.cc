// A rank alone as it is; several by mpirun with what a container needs (root,
// oversubscribed cores, a session directory of the user's own), the ranks'
// shards in a private directory, and what they recorded as one trace at the
// end.
#include "cli/launcher.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/command.h"
#include "cli/process.h"
#include "cli/profile_environment.h"
#include "cli/progress_line.h"
#include "cli/supervisor.h"
#include "cli/trainer_progress.h"
#include "data/file.h"
#include "data/program/lowered_program.h"
#include "profiler/gather/gather_shards.h"
#include "profiler/trainer_context.h"

namespace reprise {
namespace {

std::string find_mpirun() {
  const std::string specific = find_program("mpirun.openmpi");
  return specific.empty() ? find_program("mpirun") : specific;
}

std::vector<std::string> words_of_environment(const char* name) {
  const char* text = std::getenv(name);
  std::istringstream stream(text == nullptr ? "" : text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Whether the rank needs no launcher: it is the only one, nobody wants words
/// for mpirun, and no variable of another launcher would make it join others.
bool is_alone(const TrainRequest& request) {
  const auto is_set = [](const char* name) {
    return std::getenv(name) != nullptr;
  };
  return request.ranks == 1 && request.mpi_arguments.empty() &&
         std::ranges::none_of(
             std::array{"REPRISE_MPI_ARGS", "REPRISE_RENDEZVOUS",
                        "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"},
             is_set);
}

// mpirun's words: slots are cores, so oversubscribe; binding is the trainer's
// own business.
std::vector<std::string> mpirun_arguments(const TrainRequest& request,
                                          const std::string& directory) {
  std::vector<std::string> arguments = {
      find_mpirun(), "--oversubscribe", "--bind-to", "none", "-n",
      std::to_string(request.ranks),
      // Its session directory in /tmp is shared by name: another user's would
      // be in the way.
      "--mca", "orte_tmpdir_base", directory,
      // What killed ranks leave of their shared memory goes with the rest.
      "--mca", "btl_vader_backing_directory", directory};
  // Under `reprise profile`: ranks on other hosts are to be recorded too.
  if (std::getenv(kProfileDirectory) != nullptr) {
    for (const char* name : kProfileVariables) {
      if (std::getenv(name) != nullptr)
        arguments.insert(arguments.end(), {"-x", name});
    }
  }
  for (const std::string& word : words_of_environment("REPRISE_MPI_ARGS"))
    arguments.push_back(word);
  for (const std::string& word : request.mpi_arguments)
    arguments.push_back(word);
  return arguments;
}

std::vector<std::string> trainer_arguments(const TrainRequest& request,
                                           const std::string& directory,
                                           const std::string& result_path) {
  std::vector<std::string> arguments = {
      executable_directory() + "/reprise-train",
      std::filesystem::absolute(request.program).string(),
      "--steps",
      std::to_string(request.steps),
      "--warmup",
      std::to_string(request.warmup),
      "--device",
      request.device,
      "--timeout",
      fmt::format("{}", request.timeout_s),
      "--result",
      result_path};
  if (!request.plan.empty()) {
    arguments.insert(
        arguments.end(),
        {"--plan", std::filesystem::absolute(request.plan).string()});
  }
  if (!request.data.folder.empty()) {
    arguments.insert(
        arguments.end(),
        {"--data", std::filesystem::absolute(request.data.folder).string()});
  }
  if (request.data.made_up) arguments.push_back("--made-up-data");
  for (const auto& [flag, path] : {std::pair{"--state", &request.data.state},
                                   {"--dump-state", &request.dump_state}}) {
    if (path->empty()) continue;
    arguments.insert(arguments.end(),
                     {flag, std::filesystem::absolute(*path).string()});
  }
  if (request.allow_nan) arguments.push_back("--allow-nan");
  if (request.verify) arguments.push_back("--verify");
  if (request.solo) arguments.push_back("--solo");
  if (request.interpret) arguments.push_back("--interpret");
  if (request.record)
    arguments.insert(arguments.end(), {"--shard-directory", directory});
  arguments.insert(arguments.end(), request.trainer_arguments.begin(),
                   request.trainer_arguments.end());
  return arguments;
}

std::vector<std::string> launch_arguments(const TrainRequest& request,
                                          const std::string& directory,
                                          const std::string& result_path) {
  std::vector<std::string> arguments;
  if (!is_alone(request)) arguments = mpirun_arguments(request, directory);
  for (std::string& word : trainer_arguments(request, directory, result_path))
    arguments.push_back(std::move(word));
  return arguments;
}

Status check_environment(const TrainRequest& request) {
  if (!is_alone(request) && find_mpirun().empty()) {
    return fail(ErrorKind::kDevice,
                "mpirun, which starts several ranks, is not installed; apt "
                "install openmpi-bin");
  }
  if (!std::filesystem::exists(executable_directory() + "/reprise-train")) {
    return fail(ErrorKind::kDevice,
                "{}/reprise-train is missing: build it beside reprise",
                executable_directory());
  }
  if (!std::filesystem::exists(request.program)) {
    return fail(ErrorKind::kIo, "{}: no such program", request.program);
  }
  return {};
}

// With less, mpirun's ranks fail in a dozen ways or wait for ever. Errors: kIo.
Status check_room(const std::string& directory) {
  constexpr uintmax_t kSessionBytes = 16'000'000;  // 8.3 MB for two ranks.
  std::error_code error;
  const std::filesystem::space_info space =
      std::filesystem::space(directory, error);
  if (error || space.available >= kSessionBytes) return {};
  return fail(ErrorKind::kIo,
              "{}: {} bytes are free, mpirun needs {} for its session; set "
              "TMPDIR to another place",
              directory, space.available, kSessionBytes);
}

/// What is known of ranks that have ended.
struct EndedRanks {
  std::string absent;  ///< Those that never began: "rank 0, rank 2".
  std::string first;   ///< Those whose end mpirun has seen.
  bool others = false;
  bool stuck = false;  ///< mpirun was killed, having waited for no other.
};

EndedRanks ended_ranks(int64_t ranks, const std::string& result_path) {
  const std::string lost =
      read_file(result_path + kLostSuffix).value_or("") + " ";
  EndedRanks ended;
  ended.stuck = lost.starts_with(kLauncherStuck);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto process =
        read_file(result_path + kBegunSuffix + std::to_string(rank));
    if (process && lost.find(" " + *process + " ") != lost.npos) {
      ended.others = true;
      continue;
    }
    std::string& list = process ? ended.first : ended.absent;
    list += (list.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  return ended;
}

// What mpirun says itself where it can: not where it did not end, having
// waited for the rank that ended first and not for the others, and not always
// of ranks that were killed before they began.
void tell_of_end(const TrainRequest& request, int status,
                 const std::string& result_path) {
  if (status > 128 && is_alone(request)) {
    fmt::print(stderr, "reprise train: signal {} ended rank 0\n", status - 128);
    return;
  }
  constexpr const char* kNoSign =
      "{} left no sign on this host of having begun";
  const EndedRanks ended = ended_ranks(request.ranks, result_path);
  if (status == kExitEnvironment && ended.stuck) {
    fmt::print(stderr,
               "reprise train: mpirun did not end though all that it started "
               "had, and was killed; {}\n",
               !ended.absent.empty() ? fmt::format(kNoSign, ended.absent)
               : ended.others        ? ended.first + " ended first"
                                     : "it does not say which rank first");
  }
  // Those of other hosts leave their signs there.
  const bool one_host = request.mpi_arguments.empty() &&
                        words_of_environment("REPRISE_MPI_ARGS").empty();
  if (status > 128 && one_host && !ended.absent.empty())
    fmt::print(stderr, "reprise train: {}\n",
               fmt::format(kNoSign, ended.absent));
}

// Joins the ranks' shards with what they ran.
Result<Trace> gather(const TrainRequest& request, const LoweredProgram& lowered,
                     const std::string& directory) {
  const TrainerContext context =
      trainer_context(lowered, request.program, request.device, request.solo);
  std::vector<std::string> shards;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".shard")
      shards.push_back(entry.path().string());
  }
  std::sort(shards.begin(), shards.end());
  return gather_shards(shards, context);
}

}  // namespace

Result<TrainOutcome> run_trainer(const TrainRequest& request) {
  const Status ready = check_environment(request);
  if (!ready) return pass(ready.error());
  // Every rank refuses a bad program or plan too; refusing it here spares the
  // user mpirun's words about it.
  ProgramData data = request.data;
  const Result<LoweredProgram> lowered =
      load_lowered_program(request.program, request.plan, request.ranks, data,
                           lowered_for(request.device));
  if (!lowered) return pass(lowered.error());
  std::optional<HeldSignals> held;  // Let go when the directory is gone.
  const Result<TemporaryDirectory> directory =
      TemporaryDirectory::create(request.scratch);
  if (!directory) return pass(directory.error());
  const bool alone = is_alone(request);
  const Status room = alone ? Status{} : check_room(directory->path());
  if (!room) return pass(room.error());
  const std::string result_path = directory->path() + "/result.json";

  std::vector<std::string> arguments =
      launch_arguments(request, directory->path(), result_path);
  std::optional<ShownTrainer> shown;
  if (ProgressLine().is_shown()) {
    const std::string progress_path = directory->path() + "/progress.json";
    arguments.insert(arguments.end(), {"--progress", progress_path});
    shown.emplace(progress_path);
  }
  // Open MPI refuses root unless told twice; containers run as root.
  int received = 0;
  const Result<int> status = run_supervised(
      arguments,
      {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
       {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}},
      request.scratch.empty() ? directory->path() : request.scratch,
      result_path + kLostSuffix, &received);
  shown.reset();
  if (!status) return pass(status.error());
  held.emplace();
  if (received == 0) tell_of_end(request, *status, result_path);
  TrainOutcome outcome;
  outcome.received = received;
  // mpirun that was interrupted ends with 1, whatever the signal, or is killed
  // when it takes its time.
  const bool is_interrupted =
      received != 0 && (*status == 1 || *status == 128 + SIGKILL);
  outcome.exit_status = is_interrupted ? 128 + received : *status;
  if (const Result<std::string> result = read_file(result_path))
    outcome.result_json = *result;
  if (request.record && outcome.exit_status <= 1 &&
      !outcome.result_json.empty()) {
    Result<Trace> trace = gather(request, *lowered, directory->path());
    if (!trace) return pass(trace.error());
    outcome.trace = std::move(*trace);
  }
  return outcome;
}

}  // namespace reprise

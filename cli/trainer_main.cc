// `reprise-train`: one rank of a run. `reprise train` starts it by mpirun; it
// also runs alone, and under RANK/WORLD_SIZE/REPRISE_RENDEZVOUS.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/trainer_device.h"
#include "cli/trainer_progress.h"
#include "data/file.h"
#include "data/program/lowered_program.h"
#include "profiler/trainer_context.h"
#include "runtime/process/process_group.h"
#include "runtime/process/wait_limit.h"
#include "runtime/train/run_directory.h"
#include "runtime/train/train.h"
#include "runtime/train/train_result.h"

namespace reprise {
namespace {

constexpr unsigned kTurnMicroseconds = 300'000, kOwnTurnMicroseconds = 20'000;

struct TrainerFlags {
  std::string program, plan, result_path, dump_path, progress_path;
  TrainerDeviceFlags device;
  TrainOptions train;
  ProgramData data;
  bool no_pin = false;
};

void add_flags(Flags& app, TrainerFlags& flags) {
  app.add_option("program", flags.program,
                 "PROGRAM.hlo, its manifest PROGRAM.json beside it")
      .required();
  app.add_option("--plan", flags.plan, "plan to run under (default: identity)");
  app.add_option("--data", flags.data.folder,
                 "folder of its data (default: the program's)");
  app.add_flag("--made-up-data", flags.data.made_up,
               "read no data: for steps that are only timed");
  app.add_option("--steps", flags.train.steps, "training steps (default 20)")
      .positive();
  app.add_option("--warmup", flags.train.warmup,
                 "first steps that are not timed (default 2)")
      .not_negative();
  app.add_option("--shard-directory", flags.train.shard_directory,
                 "record every unit into DIR/rank.R.shard");
  app.add_option("--result", flags.result_path,
                 "write the JSON result here (default: stdout)");
  app.add_option("--progress", flags.progress_path,
                 "write how far the first rank is here, again and again");
  app.add_option("--state", flags.data.state,
                 "start from this state (.safetensors or .npz)");
  app.add_option("--dump-state", flags.dump_path,
                 "write the final state here (.safetensors or .npz)");
  app.add_flag("--allow-nan", flags.train.allow_nan,
               "go on where the loss is not finite");
  app.add_flag("--verify", flags.train.verify,
               "compare the final state with the reference results");
  app.add_flag("--solo", flags.train.device.solo, "skip all communication");
  app.add_flag("--interpret", flags.train.device.interpret,
               "interpret kernels instead of compiling them");
  app.add_option("--cache", flags.train.device.cache_directory,
                 "directory of compiled kernels (default: the user's cache)");
  app.add_option("--timeout", flags.train.device.timeout_s,
                 "seconds to wait for a silent rank (default 30)")
      .positive();
  add_device_flags(app, flags.device);
  app.add_flag("--no-pin", flags.no_pin,
               "do not bind each rank's compute threads to cores");
  app.add_option("--threads", flags.train.device.threads,
                 "threads of each rank (default: its share of the cores)")
      .positive();
}

void say(const std::string& message) { tell("reprise-train: {}\n", message); }

Result<LoweredProgram> load(const TrainerFlags& flags,
                            const ProcessGroup& group) {
  int64_t ranks = group.size();
  if (flags.train.device.solo) {
    const Result<Manifest> manifest = load_manifest_for(flags.program);
    if (!manifest) return pass(manifest.error());
    ranks = manifest->ranks;
  }
  return load_lowered_program(flags.program, flags.plan, ranks, flags.data,
                              lowered_for(flags.device.device));
}

// Writes the result and says what did not verify.
Result<int> report(const TrainResult& result, const LoweredProgram& program,
                   const TrainerFlags& flags) {
  const std::string json = print_train_result(
      result, {.program = flags.program,
               .fingerprint = program.schedule.program_fingerprint,
               .device = flags.device.device,
               .plan = flags.plan.empty() ? "identity" : flags.plan});
  if (flags.result_path.empty()) {
    write_out(json);
    if (const Status written = flush_output(); !written)
      return pass(written.error());
  } else {
    const Status written = write_file_atomically(flags.result_path, json);
    if (!written) return pass(written.error());
  }
  if (!result.verification || result.verification->passed()) return kExitOk;
  if (!result.verification->loss_passed()) {
    say(fmt::format(
        "the loss differs from the reference: relative error {:.3g}, limit "
        "{:.0e}",
        result.verification->worst_loss, result.verification->limit));
  }
  for (const TensorCheck& check : result.verification->tensors) {
    if (check.passed) continue;
    say(fmt::format(
        "'{}' differs from the reference: relative error of its "
        "change {:.3g}, limit {:.0e}",
        check.name, check.relative_error, result.verification->limit));
  }
  return kExitAnswerIsNo;
}

// Under `reprise profile` every rank records its units too, and rank 0 says
// what they are. A run is never the worse for it: without the directory, or
// when it cannot be written, nothing is recorded.
// Collective: the ranks agree on a directory of this run. Errors: kDevice.
Status record_for_profile(const TrainerFlags& flags,
                          const LoweredProgram& program, ProcessGroup& group,
                          TrainOptions& options) {
  if (!options.shard_directory.empty()) return {};
  const char* base = std::getenv("REPRISE_PROFILE_DIRECTORY");
  const Result<std::string> directory =
      make_run_directory(base == nullptr ? "" : base, group);
  if (!directory) return pass(directory.error());
  options.shard_directory = *directory;
  if (directory->empty() || group.rank() != 0) return {};
  const TrainerContext context = trainer_context(
      program, flags.program, flags.device.device, flags.train.device.solo);
  const Status written =
      write_file_atomically(options.shard_directory + "/" + kTrainerFile,
                            print_trainer_context(context));
  if (!written) say(written.error().message);
  return {};
}

// For who started mpirun, which may wait without end for what is lost.
void mark_lost(const TrainerFlags& flags) {
  if (flags.result_path.empty()) return;
  static_cast<void>(write_file_atomically(flags.result_path + kLostSuffix, {}));
}

// Of what nothing in this process can end: destructors, and those of the
// libraries that run when a process exits, might wait for it for ever.
[[noreturn]] void leave_at_once(const TrainerFlags& flags,
                                const std::string& why) {
  say(why);
  mark_lost(flags);
  ::_exit(kExitEnvironment);
}

/// Between ranks that have the same to say: the first to speak ends the others.
void wait_for_turn(const ProcessGroup& group, unsigned turn_microseconds) {
  ::usleep(turn_microseconds *
           static_cast<unsigned>(std::min(group.rank(), 10)));
}

// What a rank alone has met is said before the others, who only know that it
// is lost, take their turns.
void fail_alone(const TrainerFlags& flags, ProcessGroup& group,
                const Error& error) {
  wait_for_turn(group, kOwnTurnMicroseconds);
  say(error.message);
  mark_lost(flags);
  group.abort(exit_code(error.kind));
}

Result<int> train_and_report(const TrainerFlags& flags, ProcessGroup& group) {
  const Result<std::unique_ptr<TrainingDevice>> device =
      make_training_device(flags.device);
  Status agreed =
      agree(group, device ? Status() : Status(pass(device.error())));
  if (!agreed) return pass(agreed.error());
  const Result<LoweredProgram> program = load(flags, group);
  agreed = agree(group, program ? Status() : Status(pass(program.error())));
  if (!agreed) return pass(agreed.error());
  TrainOptions options = flags.train;
  options.device.pin = !flags.no_pin;
  options.keep_state = !flags.dump_path.empty();
  options.tell = say;
  if (!flags.progress_path.empty() && group.rank() == 0)
    options.device.watch = write_progress(flags.progress_path);
  options.fail_alone = [&](const Error& error) {
    fail_alone(flags, group, error);
  };
  options.device.stuck = [&flags](const std::string& why) {
    leave_at_once(flags, why);
  };
  const Status recorded = record_for_profile(flags, *program, group, options);
  if (!recorded) return pass(recorded.error());
  const TrainingProgram training{.module = program->module,
                                 .manifest = program->manifest,
                                 .schedule = program->schedule,
                                 .state_path = flags.data.state};
  const Result<TrainResult> result = train(training, options, **device, group);
  if ((*device)->is_abandoned())
    leave_at_once(flags, result ? "the device does not end its work"
                                : result.error().message);
  if (!result) return pass(result.error());
  if (group.rank() != 0) {
    return !result->verification || result->verification->passed()
               ? kExitOk
               : kExitAnswerIsNo;
  }
  if (options.keep_state) {
    const Status dumped =
        write_state(flags.dump_path, program->manifest,
                    program->module.entry_computation(), result->final_state);
    if (!dumped) return pass(dumped.error());
  }
  return report(*result, *program, flags);
}

// Nothing tells MPI's waits for all ranks who is missing, nor ends them. The
// first rank to exit has its launcher end the others.
[[noreturn]] void give_up(const TrainerFlags& flags, double timeout_s,
                          const char* when) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const int order = rank == nullptr ? 0 : std::min(std::atoi(rank), 10);
  ::usleep(300'000u * static_cast<unsigned>(std::max(order, 0)));
  const std::vector<int> stopped = stopped_ranks_here();
  say(stopped.empty()
          ? fmt::format("not all ranks came within {} s {}", timeout_s, when)
          : fmt::format("rank {} is stopped: it did not come within {} s {}",
                        fmt::join(stopped, ", "), timeout_s, when));
  mark_lost(flags);
  ::_exit(kExitEnvironment);
}

/// Ranks end at different times, the slower for writing more.
constexpr double kLeastEndSeconds = 3;

Result<std::unique_ptr<ProcessGroup>> meet(const TrainerFlags& flags) {
  const double timeout_s = flags.train.device.timeout_s;
  const WaitLimit limit(timeout_s,
                        [&] { give_up(flags, timeout_s, "to the start"); });
  return make_process_group(timeout_s);
}

// For who started mpirun, which may not say whose end it waits for: a file
// from a rank's begin to its good end; none of a rank alone.
std::string begun_path(const TrainerFlags& flags) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (flags.result_path.empty() || rank == nullptr) return {};
  return flags.result_path + kBegunSuffix + std::to_string(std::atoi(rank));
}

int run(const TrainerFlags& flags) {
  const std::string begun = begun_path(flags);
  if (!begun.empty())
    static_cast<void>(write_file_atomically(begun, std::to_string(::getpid())));
  Result<std::unique_ptr<ProcessGroup>> group = meet(flags);
  if (!group) {
    say(group.error().message);
    return exit_code(group.error().kind);
  }
  const Result<int> code = train_and_report(flags, **group);
  const double end_s = std::max(flags.train.device.timeout_s, kLeastEndSeconds);
  const WaitLimit limit(end_s, [&] { give_up(flags, end_s, "to the end"); });
  if (code) {
    group->reset();
    if (!begun.empty()) ::unlink(begun.c_str());
    return *code;
  }
  const int failure = exit_code(code.error().kind);
  const bool lost = code.error().kind == ErrorKind::kDevice;
  // Errors that every rank has got are said once; of a lost rank, the first
  // to notice speaks and ends the others: every rank waits for those before.
  if (lost) {
    ::usleep(kOwnTurnMicroseconds * 10);  // Who failed alone speaks first.
    wait_for_turn(**group, kTurnMicroseconds);
  }
  if (lost || (*group)->rank() == 0) say(code.error().message);
  if (lost && (*group)->size() > 1) {
    mark_lost(flags);
    (*group)->abort(failure);
  }
  group->reset();
  return failure;
}

int parse_and_run(int argc, char** argv) {
  TrainerFlags flags;
  CLI::App app("One rank of a training run; `reprise train` starts these.",
               "reprise-train");
  Flags words(app);
  add_flags(words, flags);
  app.set_version_flag("-V,--version", "reprise-train " REPRISE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    say(fmt::format("{}; see reprise-train --help", error.what()));
    return kExitUsage;
  }
  if (flags.train.warmup >= flags.train.steps) {
    say(fmt::format("--warmup {} leaves no timed step of --steps {}",
                    flags.train.warmup, flags.train.steps));
    return kExitUsage;
  }
  return run(flags);
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  try {
    return reprise::parse_and_run(argc, argv);
  } catch (const std::bad_alloc&) {
    reprise::tell("reprise-train: out of memory\n");
    return reprise::kExitEnvironment;
  } catch (const std::exception& error) {
    reprise::tell("reprise-train: internal error: {}\n", error.what());
    return reprise::kExitInternal;
  }
}

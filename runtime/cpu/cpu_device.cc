#include <algorithm>
#include <chrono>

#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "runtime/process/communicator.h"
#include "runtime/process/core_choice.h"
#include "runtime/train/training_device.h"

namespace reprise {
namespace {

class CpuDevice : public TrainingDevice {
 public:
  std::string kind() const override { return "cpu"; }
  Result<BoundDevice> bind(const TrainingProgram& program,
                           const DeviceOptions& options, Recorder* recorder,
                           ProcessGroup& group) override {
    BoundDevice bound;
    const auto start = std::chrono::steady_clock::now();
    Result<LoadedKernels> kernels =
        load_kernels(program.schedule,
                     {.interpret = options.interpret,
                      .cache_directory = options.cache_directory,
                      .watch = options.watch},
                     group);
    if (!kernels) return pass(kernels.error());
    kernels_ = std::move(*kernels);
    const std::chrono::duration<double> compiling =
        std::chrono::steady_clock::now() - start;
    if (!kernels_.note.empty()) bound.notes.push_back(kernels_.note);
    Result<std::vector<int>> cores = choose_cores(group);
    if (!cores) return pass(cores.error());
    const size_t threads = options.threads > 0
                               ? static_cast<size_t>(options.threads)
                               : std::max<size_t>(cores->size(), 1);
    if (!options.pin) cores->clear();
    cores->resize(std::min(cores->size(), threads));
    Status status = agree(group, connect(options, group, &communicator_));
    if (status && any_unit_communicates(program.schedule))
      status = agree(group, connect(options, group, &called_));
    if (!status) return pass(status.error());
    Result<std::unique_ptr<Executor>> executor =
        Executor::create(program.module, program.schedule, kernels_.code,
                         *communicator_, recorder,
                         {.cores = *std::move(cores),
                          .threads = threads,
                          .rank = group.rank(),
                          .called = called_.get()});
    status = agree(group, executor ? Status() : Status(pass(executor.error())));
    if (!status) return pass(status.error());
    const size_t arena_bytes =
        static_cast<size_t>(program.schedule.arena_bytes) +
        (*executor)->scratch_bytes();
    bound.facts = {
        {"arena_bytes", fmt::format("{}", arena_bytes)},
        {"compile_seconds", fmt::format("{:.4f}", compiling.count())},
        {"threads", fmt::format("{}", threads)}};
    bound.executor = std::move(*executor);
    return bound;
  }

 private:
  static bool any_unit_communicates(const Schedule& schedule) {
    return std::any_of(
        schedule.units.begin(), schedule.units.end(),
        [](const Unit& unit) { return unit.routine.communicates; });
  }

  static Status connect(const DeviceOptions& options, ProcessGroup& group,
                        std::unique_ptr<Communicator>* to) {
    if (options.solo || group.size() == 1) {
      *to = make_solo_communicator();
      return {};
    }
    Result<std::unique_ptr<Communicator>> made =
        make_gloo_communicator(group, options.timeout_s);
    if (!made) return pass(made.error());
    *to = std::move(*made);
    return {};
  }

  LoadedKernels kernels_;
  std::unique_ptr<Communicator> communicator_;
  /// Of collectives inside loops, which run beside those of the step.
  std::unique_ptr<Communicator> called_;
};

}  // namespace

std::unique_ptr<TrainingDevice> make_cpu_device() {
  return std::make_unique<CpuDevice>();
}

}  // namespace reprise

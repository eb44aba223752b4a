// What the ranks of a run compute on: the CPU, or a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/progress.h"
#include "data/result.h"
#include "profiler/recorder.h"
#include "runtime/process/process_group.h"
#include "runtime/train/step_executor.h"
#include "runtime/train/training_run.h"

namespace reprise {

/// What all devices are told.
struct DeviceOptions {
  bool solo = false;  ///< Collectives do nothing; each rank runs alone.
  bool interpret = false;
  bool pin = true;      ///< To each rank its own cores, if there are enough.
  int64_t threads = 0;  ///< On the CPU, of each rank; 0: as many as its cores.
  std::string cache_directory;  ///< Of compiled kernels; empty: the user's.
  double timeout_s = 30;        ///< Longest wait for a silent peer or a device.
  ProgressWatcher watch = {};   ///< Told how far start-up and steps are.
  /// Says why and ends the process, on any thread: called when a call of a
  /// device's driver does not return, which nothing else can end. May be empty.
  std::function<void(const std::string& why)> stuck;
};

/// An executor and what rank 0 should say about it.
struct BoundDevice {
  std::unique_ptr<StepExecutor> executor;
  std::vector<std::string> notes;  ///< Such as "no compiler: interpreting".
  /// What the result states of the device, such as "device_name".
  std::map<std::string, std::string> facts;
};

class TrainingDevice {
 public:
  virtual ~TrainingDevice() = default;

  /// "cpu" or "cuda", as traces name it.
  virtual std::string kind() const = 0;

  /// Compiles the schedule's kernels, connects the ranks and binds every unit.
  /// Collective: every rank gets an executor or an error. The executor refers
  /// to this device, the program, the recorder (may be null) and the group.
  /// Errors: kUnsupported naming the first unit that cannot run; kDevice.
  virtual Result<BoundDevice> bind(const TrainingProgram& program,
                                   const DeviceOptions& options,
                                   Recorder* recorder, ProcessGroup& group) = 0;

  /// True once work on the device has outlived its deadline: then nothing of
  /// the device may be waited for, the end of a process least of all, which
  /// ends by _exit.
  virtual bool is_abandoned() const { return false; }
};

/// The CPU: one core for each rank, collectives by Gloo.
std::unique_ptr<TrainingDevice> make_cpu_device();

/// Passes on the first rank's error on all ranks, or success. Collective.
Status agree(ProcessGroup& group, const Status& mine);

}  // namespace reprise

// A whole run on all ranks: agree, warm up, train, compare, sum up.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/manifest/state_file.h"
#include "data/result.h"
#include "runtime/process/process_group.h"
#include "runtime/train/training_device.h"
#include "runtime/train/training_run.h"
#include "runtime/train/verification.h"

namespace reprise {

struct TrainOptions {
  int64_t steps = 20;
  int64_t warmup = 2;  ///< The first of `steps` that are not timed.
  bool verify = false;
  std::string shard_directory;  ///< Record into `rank.R.shard` here if set.
  bool keep_state = false;      ///< Fill TrainResult::final_state.
  bool allow_nan = false;  ///< Go on where the loss is not finite any more.
  /// Gets, on rank 0 and before the first step, what a user should know of the
  /// device, such as that kernels are interpreted. May be empty.
  std::function<void(const std::string& note)> tell;
  /// Gets, on any rank of several, an error of a step that only this rank may
  /// have, such as a full disk, before the others notice that it is gone: to
  /// say it and end them. May be empty, and return.
  std::function<void(const Error& error)> fail_alone;
  DeviceOptions device;
};

/// What rank 0 knows at the end.
struct TrainResult {
  int64_t ranks = 1;
  int64_t steps = 0, warmup = 0;
  bool solo = false;
  std::vector<int64_t> step_ns;  ///< Timed steps, maximum over ranks.
  /// The same by the devices' own clocks; empty where they have none.
  std::vector<int64_t> device_step_ns;
  std::vector<double> loss;      ///< Every step, mean over ranks; may be empty.
  std::vector<double> accuracy;  ///< Every step, over ranks; may be empty.
  std::string state_hash;
  std::optional<Verification> verification;  ///< On rank 0.
  FinalState final_state;                    ///< On rank 0, if asked for.
  std::map<std::string, std::string> device_facts;  ///< BoundDevice::facts.
};

/// Trains on every rank of the group. Collective; every rank gets the result
/// or an error. Errors: kInvalid where the loss is not finite, naming the
/// step and the unit that computed it; kDevice for lost ranks, naming them:
/// then peers may still wait, so the caller says it and calls `group.abort`.
/// Any other error every rank has got: kInvalid when ranks disagree about the
/// schedule or end with different states, naming rank and tensor; those of
/// TrainingRun and verify.
Result<TrainResult> train(const TrainingProgram& program,
                          const TrainOptions& options, TrainingDevice& device,
                          ProcessGroup& group);

}  // namespace reprise

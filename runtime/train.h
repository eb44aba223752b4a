// A whole run on all ranks: agree, warm up, train, compare, sum up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/result.h"
#include "runtime/kernel_loader.h"
#include "runtime/process_group.h"
#include "runtime/training_run.h"
#include "runtime/verification.h"

namespace reprise {

struct TrainOptions {
  int64_t steps = 20;
  int64_t warmup = 2;  ///< The first of `steps` that are not timed.
  bool verify = false;
  bool solo = false;  ///< Collectives do nothing; each rank runs alone.
  bool interpret = false;
  bool pin = true;  ///< One core to each rank's compute thread, if enough.
  std::string shard_directory;  ///< Record into `rank.R.shard` here if set.
  std::string cache_directory;  ///< Of compiled kernels; empty: the user's.
  bool keep_state = false;      ///< Fill TrainResult::final_state.
  double timeout_s = 30;        ///< Longest wait for a silent peer.
};

/// What rank 0 knows at the end.
struct TrainResult {
  int64_t ranks = 1;
  int64_t steps = 0, warmup = 0;
  bool solo = false;
  std::vector<int64_t> step_ns;  ///< Timed steps, maximum over ranks.
  std::vector<double> loss;      ///< Every step, mean over ranks.
  std::vector<double> accuracy;  ///< Every step, over ranks; may be empty.
  std::string state_hash;
  std::optional<Verification> verification;  ///< On rank 0.
  std::string final_state;  ///< Bytes of all state tensors, if asked for.
  std::vector<std::string> notes;  ///< Such as "no compiler: interpreting".
};

/// Trains on every rank of the group. Collective; every rank gets the result
/// or an error. Errors: kDevice for lost ranks, naming them: then peers may
/// still wait, so the caller says it and calls `group.abort`. Any other error
/// every rank has got: kInvalid when ranks disagree about the schedule or end
/// with different states, naming rank and tensor; those of TrainingRun and
/// verify.
Result<TrainResult> train(const TrainingProgram& program,
                          const TrainOptions& options, ProcessGroup& group);

/// Passes on the first rank's error on all ranks, or success. Collective.
Status agree(ProcessGroup& group, const Status& mine);

}  // namespace reprise

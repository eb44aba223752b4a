// Stops a run whose loss is not finite any more, and finds out why.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/result.h"
#include "runtime/process/process_group.h"
#include "runtime/train/training_run.h"

namespace reprise {

/// Ranks look at each other's losses between some steps only, so that they are
/// not kept in step by more than what they train; the steps since the last look
/// can be run again, from a copy of the state.
class LossWatch {
 public:
  /// `losses` grows by one a step. Without `active` it does nothing. All must
  /// outlive it.
  LossWatch(bool active, TrainingRun& run, const std::vector<double>& losses,
            ProcessGroup& group)
      : active_(active), run_(run), losses_(losses), group_(group) {}

  /// Before each step, counted from 0. Collective in some. Errors: as `look`.
  Status before(int64_t step);
  /// Compares all losses there are; after the last step, too. Collective.
  /// Errors: kInvalid, on all ranks, where one was not finite: the step, and
  /// the unit that computed it, as far as the executor can tell; kDevice.
  Status look();

 private:
  Status explain(int64_t step, bool can_rerun);
  Status keep_state(int64_t step);

  bool active_;
  TrainingRun& run_;
  const std::vector<double>& losses_;
  ProcessGroup& group_;
  std::map<int64_t, std::string> state_;  ///< Before `state_step_`.
  int64_t state_step_ = 0;
};

}  // namespace reprise

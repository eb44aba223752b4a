// How far a step has come on each stream, for when a device does not end it:
// words in page-locked memory that the streams write as they pass, and that the
// host can read whatever the device does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/stream_waits.h"
#include "runtime/cuda/driver.h"

namespace reprise {

class StepMarks {
 public:
  /// Marks the end of every unit, of collectives where they do something.
  /// `walks` must outlive it. Errors: kDevice.
  static Result<StepMarks> create(const Driver& driver,
                                  const StreamSequences& walks,
                                  bool communicates);

  /// Keeps so many marks that they cost no more than 1 % of a step of that
  /// length, those of collectives first: what is enqueued or captured from now
  /// on has only these.
  void thin_out(int64_t step_ns);

  /// Before a step: nothing has ended.
  void reset();
  /// Enqueues on `stream` that the unit at `place` of the sequence `which` has
  /// ended, where that is marked. Never fails: where the driver refuses, steps
  /// go on without marks.
  void ended(Stream which, uint32_t place, const CudaStream& stream);

  /// What runs, or waits to run, as "compute has come to dot.3, communication
  /// to all-reduce.1"; of thinned marks "between dot.3 and dot.7". Empty where
  /// nothing is known or everything has ended.
  std::string describe(const Schedule& schedule) const;

 private:
  StepMarks(const Driver& driver, const StreamSequences& walks)
      : driver_(&driver), walks_(&walks) {}
  std::string describe(const Schedule& schedule, Stream which) const;
  const UnitSequence& walk(Stream which) const {
    return which == Stream::kCompute ? walks_->compute : walks_->communication;
  }

  const Driver* driver_;
  const StreamSequences* walks_;
  PinnedMemory words_;  ///< `[stream]` units ended, 32 bits.
  std::vector<bool> compute_, communication_;  ///< `[place]` is marked.
  /// The threads of both streams read and clear it: std::atomic_ref.
  mutable bool works_ = true;
};

}  // namespace reprise

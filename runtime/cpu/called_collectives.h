// Collectives inside loops and branches: they run where they stand, on the
// thread that computes, in program order on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "profiler/recorder.h"
#include "runtime/process/communicator.h"

namespace reprise {

/// Records the parts of the unit that runs (TimedSchedule), on the thread that
/// computes.
class PartRecorder {
 public:
  /// Nothing is recorded without a recorder.
  PartRecorder(Recorder* recorder, uint32_t stream)
      : recorder_(recorder), stream_(stream) {}

  /// The unit begins of which these are the parts.
  void begin_unit(uint32_t first, uint32_t count, int32_t step,
                  int64_t start_ns) {
    part_ = first;
    last_ = first + count - 1;
    step_ = step;
    start_ns_ = start_ns;
  }
  /// A collective begins in it, which ends a part, and ends.
  void begin_collective();
  void end_collective();
  /// The unit ends, and with it its last part.
  void end_unit(int64_t end_ns);

 private:
  Recorder* recorder_;
  uint32_t stream_;
  uint32_t part_ = 0, last_ = 0;
  int32_t step_ = 0;
  int64_t start_ns_ = 0;  ///< Of the part.
};

/// What they run on, and why one failed: a unit itself can only say that it
/// did.
struct CalledCollectives {
  Communicator* communicator = nullptr;
  PartRecorder* parts = nullptr;
  uint32_t bound = 0;  ///< Calls bound so far, the same on all ranks.
  std::optional<Error> error = std::nullopt;
};

/// How often a called program was entered, and the one that called it.
struct ProgramEntries {
  uint32_t count = 0;
  const ProgramEntries* caller = nullptr;
};

/// One collective of a called program, bound to its memory.
class CalledCollective {
 public:
  /// Errors: those of Communicator::check. Both references must outlive it.
  static Result<CalledCollective> bind(const Unit& unit,
                                       std::vector<ArrayBytes> arrays,
                                       const ProgramEntries& entries,
                                       CalledCollectives& among);

  /// False with CalledCollectives::error when a rank was lost or kept silent.
  bool run() const;

 private:
  /// Ranks that do not enter the same programs equally often have other tags,
  /// so a loop that ends sooner on one rank leaves the others waiting, where
  /// the next loop's messages would be taken for this one's.
  uint32_t tag() const;

  const Unit* unit_ = nullptr;
  std::vector<ArrayBytes> arrays_;
  const ProgramEntries* entries_ = nullptr;
  CalledCollectives* among_ = nullptr;
  uint32_t number_ = 0;
};

}  // namespace reprise

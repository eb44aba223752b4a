// How long the steps of a trace took: the job's pace. A step lasts from the
// latest end of the step before it, over ranks, to its own latest end: of ranks
// that are late by turns each waits for the other's last step within its own
// mark, and the longest mark would count that step twice. It lasts no longer
// than its longest mark, since what ranks do between their marks is no step's;
// so one rank's steps last as long as their marks, and so does the first step.
// Only steps count that every rank with times marked, and none of the warm-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// Whether the rank's events have times, not durations and order alone.
bool is_timed(const RankInfo& rank);

struct TimedStep {
  int32_t step = 0;
  int64_t step_ns = 0;
};

/// The steps of `marks`, all on one clock, that are no warm-up and that at
/// least `ranks` ranks have, by number. `before_ns`: when the step before the
/// first ended. Ranks that do not wait for each other may be steps apart, and
/// the last one's count; where they have no instant in common, clocks do not
/// agree, and the longest mark is the step's time.
std::vector<TimedStep> steps_over_ranks(
    std::span<const StepMark> marks, size_t ranks,
    std::optional<int64_t> before_ns = std::nullopt);

/// The steps that count, by number.
std::vector<TimedStep> complete_steps(const Trace& trace);
/// The same with other marks of the trace's ranks, on the ranks' own clocks.
std::vector<TimedStep> complete_steps(const Trace& trace,
                                      std::vector<StepMark> marks);

/// When the step before this one ended on the last rank, on rank 0's clock.
/// Nothing without one, or where clocks do not agree.
std::optional<int64_t> end_before_ns(const Trace& trace, int32_t step);

/// The step whose time is nearest to the median, of two the longer one.
struct TypicalStep {
  int32_t step = 0;
  int64_t step_ns = 0;                               ///< Its own.
  size_t steps = 0;                                  ///< That count.
  int64_t least_ns = 0, median_ns = 0, most_ns = 0;  ///< Over all of them.
  int64_t spread_ns = 0;  ///< From the first quartile to the third.
};

/// Nothing when no step counts.
std::optional<TypicalStep> typical_step(const Trace& trace);
std::optional<TypicalStep> typical_step(std::span<const TimedStep> steps);

/// When the earliest rank began the step, on rank 0's clock; the latest time of
/// all where none did. Requires: ranks by number.
int64_t step_start_ns(const Trace& trace, int32_t step);

/// The median step. Errors: kInvalid when no step counts.
Result<int64_t> measured_step_time(const Trace& trace);

}  // namespace reprise

// What changed between two recorded runs, in time per step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/analysis/step_costs.h"
#include "replay/analysis/stragglers.h"

namespace reprise {

enum class DiffKey : uint8_t {
  kOp,  ///< Names of device work without templates and numbers.
  /// compute, exposed communication, memory, idle: sums to a step.
  kKind,
  kCollective,  ///< Operation, size and ranks; wait and transfer apart.
  kPhase,       ///< forward, backward, optimizer, data, communication, other.
};

struct DiffEntry {
  std::string key;
  StepCost before, after;
  int64_t change_ns() const { return after.time_ns - before.time_ns; }
  /// after/before - 1; infinite where it appeared.
  double change() const;
  int64_t wait_change_ns() const { return after.wait_ns - before.wait_ns; }
  /// Ranks wait longer, or less long, for the last of them: that is half of the
  /// change or more.
  bool is_of_waiting() const;
};

/// An operator or range on the host threads of a rank with a device, in its own
/// time; of the rank where it changes most.
struct HostEntry {
  uint32_t rank = 0;
  DiffEntry entry;
};

struct RunSteps {
  int64_t step_ns = 0;     ///< As TypicalStep::median_ns.
  int64_t between_ns = 0;  ///< As between_steps_ns: beside a step.
  int64_t steps = 0;       ///< 0: the trace marks none and counts as one.
  int64_t ranks = 0;
  /// Who comes last to collectives by most (kOp); none where nobody does.
  std::optional<Straggler> latest;
};

struct TraceDiff {
  RunSteps before, after;
  std::vector<DiffEntry> entries;  ///< Largest change first, then by key.
  /// Those that change by 1 % of a step or more (kOp); likewise.
  std::vector<HostEntry> host;
  /// Of the step.
  double step_change() const;
  /// Not so where one run marks steps and the other is a whole recording.
  bool comparable() const { return (before.steps > 0) == (after.steps > 0); }
  /// What the table does not tell of these runs, in whole sentences.
  std::vector<std::string> remarks() const;
};

/// Compares steps that are no warm-up; a trace without steps is one. Errors:
/// kUnsupported when one has no timed work.
Result<TraceDiff> diff_traces(Trace before, Trace after, DiffKey by);

/// What got slower by more than `ratio`: "step", and keys that take at least
/// 1 % of a step in either run.
std::vector<std::string> slower_than(const TraceDiff& diff, double ratio);

/// "void f<4>(int)" -> "f", "fusion.12" -> "fusion".
std::string normalized_op_name(std::string_view name);

}  // namespace reprise

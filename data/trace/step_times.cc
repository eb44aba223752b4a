#include "data/trace/step_times.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "data/trace/intervals.h"

namespace reprise {
namespace {

/// A step over all ranks that have it.
struct JoinedStep {
  size_t timed = 0;  ///< Ranks to which it is no warm-up.
  int64_t longest_ns = 0;
  int64_t last_start_ns = std::numeric_limits<int64_t>::min();
  int64_t last_end_ns = std::numeric_limits<int64_t>::min();
};

std::map<int32_t, JoinedStep> join_ranks(std::span<const StepMark> marks) {
  std::map<int32_t, JoinedStep> steps;
  for (const StepMark& mark : marks) {
    JoinedStep& step = steps[mark.step];
    step.last_start_ns = std::max(step.last_start_ns, mark.start_ns);
    step.last_end_ns = std::max(step.last_end_ns, mark.end_ns);
    if (mark.warmup) continue;
    ++step.timed;
    step.longest_ns = std::max(step.longest_ns, mark.time_ns());
  }
  return steps;
}

/// Whether all ranks were at work at one time by their marks.
bool share_instant(std::span<const StepMark> marks) {
  std::map<uint32_t, Interval> ranks;
  for (const StepMark& mark : marks) {
    Interval& whole =
        ranks.try_emplace(mark.rank, Interval{mark.start_ns, mark.end_ns})
            .first->second;
    whole.start_ns = std::min(whole.start_ns, mark.start_ns);
    whole.end_ns = std::max(whole.end_ns, mark.end_ns);
  }
  Interval common = {std::numeric_limits<int64_t>::min(),
                     std::numeric_limits<int64_t>::max()};
  for (const auto& [rank, whole] : ranks) {
    common.start_ns = std::max(common.start_ns, whole.start_ns);
    common.end_ns = std::min(common.end_ns, whole.end_ns);
  }
  return common.start_ns <= common.end_ns;
}

/// Requires: ranks by number.
std::vector<StepMark> marks_on_rank0(const Trace& trace,
                                     std::vector<StepMark> marks) {
  for (StepMark& mark : marks) {
    const auto info = std::partition_point(
        trace.ranks.begin(), trace.ranks.end(),
        [&](const RankInfo& each) { return each.rank < mark.rank; });
    if (info == trace.ranks.end() || info->rank != mark.rank) continue;
    mark.start_ns = to_rank0_ns(*info, mark.start_ns);
    mark.end_ns = to_rank0_ns(*info, mark.end_ns);
  }
  return marks;
}

}  // namespace

bool is_timed(const RankInfo& rank) { return rank.clock_domain != "none"; }

std::vector<TimedStep> steps_over_ranks(std::span<const StepMark> marks,
                                        size_t ranks,
                                        std::optional<int64_t> before_ns) {
  std::vector<TimedStep> complete;
  const bool on_one_clock = share_instant(marks);
  for (const auto& [number, step] : join_ranks(marks)) {
    int64_t step_ns = step.longest_ns;
    if (before_ns && on_one_clock) {
      // A rank may begin a step before its last one has ended.
      const int64_t from_ns = std::min(*before_ns, step.last_start_ns);
      step_ns =
          std::min(step_ns, saturating_subtract(step.last_end_ns, from_ns));
    }
    before_ns =
        std::max(before_ns.value_or(step.last_end_ns), step.last_end_ns);
    if (step.timed > 0 && step.timed >= ranks)
      complete.push_back({number, step_ns});
  }
  return complete;
}

std::vector<TimedStep> complete_steps(const Trace& trace) {
  return complete_steps(trace, trace.steps);
}

std::vector<TimedStep> complete_steps(const Trace& trace,
                                      std::vector<StepMark> marks) {
  const auto timed = static_cast<size_t>(
      std::count_if(trace.ranks.begin(), trace.ranks.end(), is_timed));
  return steps_over_ranks(marks_on_rank0(trace, std::move(marks)), timed);
}

std::optional<int64_t> end_before_ns(const Trace& trace, int32_t step) {
  const std::vector<StepMark> marks = marks_on_rank0(trace, trace.steps);
  if (!share_instant(marks)) return std::nullopt;
  const auto steps = join_ranks(marks);
  const auto found = steps.find(step);
  if (found == steps.end() || found == steps.begin()) return std::nullopt;
  return std::prev(found)->second.last_end_ns;
}

std::optional<TypicalStep> typical_step(const Trace& trace) {
  return typical_step(complete_steps(trace));
}

std::optional<TypicalStep> typical_step(std::span<const TimedStep> steps) {
  std::vector<std::pair<int64_t, int32_t>> complete;
  for (const TimedStep& each : steps) {
    complete.emplace_back(each.step_ns, each.step);
  }
  if (complete.empty()) return std::nullopt;
  std::sort(complete.begin(), complete.end());
  const int64_t lower_ns = complete[(complete.size() - 1) / 2].first;
  const auto& [step_ns, step] = complete[complete.size() / 2];
  return TypicalStep{
      .step = step,
      .step_ns = step_ns,
      .steps = complete.size(),
      .least_ns = complete.front().first,
      .median_ns = lower_ns + (step_ns - lower_ns) / 2,
      .most_ns = complete.back().first,
      .spread_ns = complete[3 * (complete.size() - 1) / 4].first -
                   complete[(complete.size() - 1) / 4].first};
}

int64_t step_start_ns(const Trace& trace, int32_t step) {
  int64_t earliest_ns = std::numeric_limits<int64_t>::max();
  for (const StepMark& mark : trace.steps) {
    if (mark.step != step || mark.rank >= trace.ranks.size()) continue;
    earliest_ns = std::min(earliest_ns,
                           to_rank0_ns(trace.ranks[mark.rank], mark.start_ns));
  }
  return earliest_ns;
}

Result<int64_t> measured_step_time(const Trace& trace) {
  const std::optional<TypicalStep> typical = typical_step(trace);
  if (!typical) {
    return fail(ErrorKind::kInvalid,
                "trace: no step after the warm-up is complete on all ranks");
  }
  return typical->median_ns;
}

}  // namespace reprise

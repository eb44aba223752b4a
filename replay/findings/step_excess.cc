#include "replay/findings/step_excess.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "data/median.h"
#include "replay/analysis/device_work.h"

namespace reprise {
namespace {

/// Of a step's time; a range that takes more is the step, by another name.
constexpr double kWholeStep = 0.9;
/// Of the greatest excess.
constexpr double kNearlyAsMuch = 0.9;

/// The steps of one rank, by start, and whether each is a slow one.
struct RankSteps {
  std::vector<StepMark> marks;
  std::vector<bool> slow;

  RankSteps(const Trace& frame, uint32_t rank, std::span<const int32_t> of) {
    for (const StepMark& mark : frame.steps) {
      if (mark.rank == rank && !mark.warmup) marks.push_back(mark);
    }
    std::sort(marks.begin(), marks.end(),
              [](const StepMark& a, const StepMark& b) {
                return a.start_ns < b.start_ns;
              });
    for (const StepMark& mark : marks)
      slow.push_back(std::binary_search(of.begin(), of.end(), mark.step));
  }
};

bool counts(EventKind kind) {
  return kind != EventKind::kOverhead && kind != EventKind::kSynchronization &&
         kind != EventKind::kOther;
}

/// Of the events of one name.
struct Sums {
  std::vector<int64_t> of_step_ns;
  bool fills_step = false;  ///< A slow one.
};
using SumsByName = std::map<uint32_t, Sums>;

SumsByName sums_of(const RankEvents& events, const RankSteps& steps) {
  SumsByName sums;
  for (size_t index = events.first; index < events.last; ++index) {
    const Event& event = events.trace.events[index];
    if (!counts(event.kind)) continue;
    const int32_t place = step_at(steps.marks, event.start_ns);
    if (place < 0) continue;
    const auto step = static_cast<size_t>(place);
    const int64_t time_ns = saturating_subtract(event.end_ns, event.start_ns);
    Sums& sum = sums[index_of(event.name)];
    sum.of_step_ns.resize(steps.marks.size());
    sum.of_step_ns[step] = saturating_add(sum.of_step_ns[step], time_ns);
    sum.fills_step |=
        steps.slow[step] &&
        static_cast<double>(time_ns) >=
            kWholeStep * static_cast<double>(steps.marks[step].time_ns());
  }
  return sums;
}

/// Of those with nearly the greatest excess, the one of least time elsewhere.
std::optional<StepExcess> most_telling(const std::vector<StepExcess>& all) {
  if (all.empty()) return std::nullopt;
  int64_t most_ns = 0;
  for (const StepExcess& each : all)
    most_ns = std::max(most_ns, each.excess_ns());
  const double least_ns = kNearlyAsMuch * static_cast<double>(most_ns);
  const StepExcess* best = nullptr;
  for (const StepExcess& each : all) {
    if (static_cast<double>(each.excess_ns()) < least_ns) continue;
    if (best == nullptr || each.other_ns < best->other_ns) best = &each;
  }
  return *best;
}

}  // namespace

std::optional<StepExcess> step_excess(const TraceByRank& trace,
                                      std::span<const int32_t> slow) {
  std::vector<StepExcess> all;
  for (const RankInfo& info : trace.frame().ranks) {
    const RankSteps steps(trace.frame(), info.rank, slow);
    const auto slow_count =
        std::count(steps.slow.begin(), steps.slow.end(), true);
    if (slow_count == 0 || slow_count == std::ssize(steps.slow)) continue;
    const RankEvents events = trace.of_rank(info.rank);
    for (const auto& [name, sums] : sums_of(events, steps)) {
      if (sums.fills_step) continue;
      std::vector<int64_t> slow_ns, other_ns;
      for (size_t step = 0; step < sums.of_step_ns.size(); ++step)
        (steps.slow[step] ? slow_ns : other_ns)
            .push_back(sums.of_step_ns[step]);
      StepExcess excess{.rank = info.rank,
                        .name = events.trace.strings[name],
                        .slow_ns = lower_median(std::move(slow_ns)),
                        .other_ns = lower_median(std::move(other_ns))};
      if (excess.excess_ns() > 0) all.push_back(std::move(excess));
    }
  }
  return most_telling(all);
}

}  // namespace reprise

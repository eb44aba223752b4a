#include "replay/findings/step_excess.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "data/median.h"
#include "data/trace/call_index.h"
#include "replay/analysis/device_work.h"

namespace reprise {
namespace {

/// Of a step's time; a range that takes more is the step, by another name.
constexpr double kWholeStep = 0.9;
/// Of the greatest excess.
constexpr double kNearlyAsMuch = 0.9;
/// Of what kernels take in the other steps: so much of it got longer, by this
/// factor at least, for "nearly all".
constexpr double kNearlyAll = 0.8, kLonger = 1.2;
/// Of the events of one name: a device that runs behind its host has some of
/// the next step's within this one's mark.
constexpr double kAsOften = 1.05;

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
  std::vector<int64_t> of_step_ns, of_step_count;
  bool fills_step = false;  ///< A slow one.
  bool kernels = true;      ///< All of them compute on a device.
};
using SumsByName = std::map<uint32_t, Sums>;

/// When it began, or was launched where that is known: a device may do it in a
/// later step.
int64_t asked_ns(const RankEvents& events, const CallIndex& calls,
                 const Event& event) {
  const Trace& trace = events.trace;
  if (event.correlation < 0 ||
      trace.streams[event.stream].kind != StreamKind::kDeviceStream)
    return event.start_ns;
  const uint32_t call = calls.of(event.correlation);
  return call == CallIndex::kNoCall ? event.start_ns
                                    : trace.events[call].start_ns;
}

SumsByName sums_of(const RankEvents& events, const RankSteps& steps) {
  SumsByName sums;
  const CallIndex calls(std::span(events.trace.events)
                            .subspan(events.first, events.last - events.first),
                        static_cast<uint32_t>(events.first));
  for (size_t index = events.first; index < events.last; ++index) {
    const Event& event = events.trace.events[index];
    if (!counts(event.kind)) continue;
    const int32_t place = step_at(steps.marks, asked_ns(events, calls, event));
    if (place < 0) continue;
    const auto step = static_cast<size_t>(place);
    const int64_t time_ns = saturating_subtract(event.end_ns, event.start_ns);
    Sums& sum = sums[index_of(event.name)];
    sum.of_step_ns.resize(steps.marks.size());
    sum.of_step_count.resize(steps.marks.size());
    ++sum.of_step_count[step];
    sum.kernels &=
        event.kind == EventKind::kCompute &&
        events.trace.streams[event.stream].kind == StreamKind::kDeviceStream;
    sum.of_step_ns[step] = saturating_add(sum.of_step_ns[step], time_ns);
    sum.fills_step |=
        steps.slow[step] &&
        static_cast<double>(time_ns) >=
            kWholeStep * static_cast<double>(steps.marks[step].time_ns());
  }
  return sums;
}

/// Median of the slow steps, and of the others.
std::pair<int64_t, int64_t> medians(const std::vector<int64_t>& of_step,
                                    const RankSteps& steps) {
  std::vector<int64_t> slow, other;
  for (size_t step = 0; step < of_step.size(); ++step)
    (steps.slow[step] ? slow : other).push_back(of_step[step]);
  return {lower_median(std::move(slow)), lower_median(std::move(other))};
}

/// A rank's kernels, in all and those that got longer.
struct Kernels {
  double slow_ns = 0, longer_ns = 0;  ///< Of those, in slow steps and others.
  double all_ns = 0;                  ///< In the others.
  StepExcess most;                    ///< Of those.

  void add(const StepExcess& each) {
    const auto other_ns = static_cast<double>(each.other_ns);
    const auto each_slow_ns = static_cast<double>(each.slow_ns);
    all_ns += other_ns;
    if (!each.as_often || each_slow_ns < kLonger * other_ns) return;
    slow_ns += each_slow_ns;
    longer_ns += other_ns;
    if (each.excess_ns() > most.excess_ns()) most = each;
  }
  double excess_ns() const { return slow_ns - longer_ns; }
  bool nearly_all() const {
    return longer_ns > 0 && longer_ns >= kNearlyAll * all_ns;
  }
};

/// Every name of a rank that takes longer in slow steps; its kernels.
void add_rank(const RankEvents& events, uint32_t rank, const RankSteps& steps,
              std::vector<StepExcess>& all, Kernels& kernels) {
  for (const auto& [name, sums] : sums_of(events, steps)) {
    if (sums.fills_step) continue;
    StepExcess excess{.rank = rank, .name = events.trace.strings[name]};
    std::tie(excess.slow_ns, excess.other_ns) = medians(sums.of_step_ns, steps);
    const auto [slow, other] = medians(sums.of_step_count, steps);
    excess.as_often =
        static_cast<double>(slow) <= kAsOften * static_cast<double>(other);
    if (sums.kernels) kernels.add(excess);
    if (excess.excess_ns() > 0) all.push_back(std::move(excess));
  }
}

/// Of those with nearly the greatest excess, the one of least time elsewhere.
std::optional<StepExcess> most_telling(const std::vector<StepExcess>& all,
                                       const std::vector<Kernels>& of_ranks) {
  if (all.empty()) return std::nullopt;
  int64_t most_ns = 0;
  for (const StepExcess& each : all)
    most_ns = std::max(most_ns, each.excess_ns());
  const double least_ns = kNearlyAsMuch * static_cast<double>(most_ns);
  const Kernels* longer = nullptr;
  for (const Kernels& kernels : of_ranks) {
    if (!kernels.nearly_all() || kernels.excess_ns() < least_ns) continue;
    if (longer == nullptr || kernels.excess_ns() > longer->excess_ns())
      longer = &kernels;
  }
  if (longer != nullptr) {
    StepExcess excess = longer->most;
    excess.slow_ns = std::llround(longer->slow_ns);
    excess.other_ns = std::llround(longer->longer_ns);
    excess.kernels_longer = longer->slow_ns / longer->longer_ns;
    return excess;
  }
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
  std::vector<Kernels> kernels;
  for (const RankInfo& info : trace.frame().ranks) {
    const RankSteps steps(trace.frame(), info.rank, slow);
    const auto slow_count =
        std::count(steps.slow.begin(), steps.slow.end(), true);
    if (slow_count == 0 || slow_count == std::ssize(steps.slow)) continue;
    add_rank(trace.of_rank(info.rank), info.rank, steps, all,
             kernels.emplace_back());
  }
  return most_telling(all, kernels);
}

}  // namespace reprise

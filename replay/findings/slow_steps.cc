// Some steps take longer than the others: what these do more of, which the
// step nearest to the median does not show.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "data/median.h"
#include "data/trace/framework.h"
#include "data/trace/step_times.h"
#include "replay/findings/finding_kinds.h"
#include "replay/findings/findings.h"
#include "replay/findings/step_excess.h"

namespace reprise {
namespace {

/// Steps as long as this many median steps are slow ones; if more than this
/// share of the steps are, these are no exception.
constexpr double kSlow = 1.2, kMostSlow = 0.4;
constexpr size_t kLeastSteps = 5;
/// A finding that explains less of a slow step's excess explains it not.
constexpr double kLeastExplained = 0.3;

struct SlowSteps {
  std::vector<int32_t> numbers;  ///< Ascending.
  int32_t step = 0;              ///< The middle one of them, by its time.
  int64_t step_ns = 0, typical_ns = 0;
  size_t of = 0;                    ///< Of so many steps.
  double lost_ns = 0, mean_ns = 0;  ///< Lost by the mean of all steps.
};

/// Nothing where steps are alike, too few, or only the first one is slow, as
/// first ones are.
std::optional<SlowSteps> slow_steps(std::span<const TimedStep> times) {
  if (times.size() < kLeastSteps) return std::nullopt;
  std::vector<int64_t> all;
  all.reserve(times.size());
  for (const auto& [number, time_ns] : times) all.push_back(time_ns);
  SlowSteps slow;
  slow.of = times.size();
  slow.typical_ns = lower_median(all);
  std::vector<std::pair<int64_t, int32_t>> found;
  for (size_t i = 0; i < times.size(); ++i) {
    const auto& [number, time_ns] = times[i];
    slow.mean_ns +=
        static_cast<double>(time_ns) / static_cast<double>(times.size());
    // What runs beside the next step (a checkpoint's copies), which is shorter
    // by as much, costs nothing.
    const int64_t made_up_ns =
        i + 1 < times.size()
            ? std::max<int64_t>(0, slow.typical_ns - times[i + 1].step_ns)
            : 0;
    const int64_t own_ns = time_ns - made_up_ns;
    if (static_cast<double>(own_ns) <
        kSlow * static_cast<double>(slow.typical_ns))
      continue;
    found.emplace_back(time_ns, number);
    slow.numbers.push_back(number);
    slow.lost_ns += static_cast<double>(own_ns - slow.typical_ns) /
                    static_cast<double>(times.size());
  }
  const bool first_alone =
      found.size() == 1 && found.front().second == times.front().step;
  if (found.empty() || first_alone ||
      static_cast<double>(found.size()) >
          kMostSlow * static_cast<double>(times.size()))
    return std::nullopt;
  std::tie(slow.step_ns, slow.step) = lower_median(found);
  return slow;
}

/// From its begin to the end of the work that it launched, of the slowest rank.
/// What a mark encloses may be the work of steps before, which the device still
/// had to do.
int64_t span_ns(const Analysis& analysis, int32_t number) {
  int64_t longest_ns = 0;
  for (const RankAnalysis& rank : analysis.ranks) {
    for (const StepAnalysis& step : rank.steps) {
      if (step.mark.step != number) continue;
      const int64_t launched_ns =
          saturating_add(saturating_subtract(step.launched.window_start_ns,
                                             step.mark.start_ns),
                         step.launched.window_ns);
      longest_ns =
          std::max({longest_ns, step.mark.time_ns(),
                    step.launched.window_ns > 0 ? launched_ns : int64_t{0}});
    }
  }
  return longest_ns;
}

/// Whether the slow step lasts longer than the typical one by what a finding
/// would have to explain, not in its marks alone.
bool lasts_longer(const SlowSteps& slow, const Analysis& analysis) {
  const auto more_ns = static_cast<double>(saturating_subtract(
      span_ns(analysis, slow.step), span_ns(analysis, analysis.typical->step)));
  return more_ns >=
         kLeastExplained * static_cast<double>(slow.step_ns - slow.typical_ns);
}

int64_t gain_of(const Findings& findings, std::string_view kind) {
  for (const Finding& finding : findings.list) {
    if (finding.kind == kind) return finding.gain_ns;
  }
  return 0;
}

std::string steps_text(const SlowSteps& slow) {
  return fmt::format("{} of {} steps {} {}, the others {}", slow.numbers.size(),
                     slow.of, slow.numbers.size() == 1 ? "takes" : "take",
                     finding_time(slow.step_ns), finding_time(slow.typical_ns));
}

std::string numbers_text(const SlowSteps& slow) {
  if (slow.numbers.size() == 1)
    return fmt::format("it is step {}", slow.numbers.front());
  constexpr size_t kShown = 8;
  const size_t shown = std::min(kShown, slow.numbers.size());
  return fmt::format(
      "they are steps {}{}",
      fmt::join(slow.numbers.begin(),
                slow.numbers.begin() + static_cast<std::ptrdiff_t>(shown),
                ", "),
      shown < slow.numbers.size() ? ", ..." : "");
}

/// What grows in the slow steps, if it is as much as would explain them.
std::optional<StepExcess> excess_of(const SlowSteps& slow,
                                    const TraceByRank& trace) {
  std::optional<StepExcess> excess = step_excess(trace, slow.numbers);
  const double least_ns =
      kLeastExplained * static_cast<double>(slow.step_ns - slow.typical_ns);
  if (excess && static_cast<double>(excess->excess_ns()) < least_ns)
    excess.reset();
  return excess;
}

std::string excess_text(const StepExcess& excess) {
  if (excess.kernels_longer > 0) {
    return fmt::format(
        "kernels on rank {} take {:.3g} times as long and run no more "
        "often ({} in these, {} in the others, above all {})",
        excess.rank, excess.kernels_longer, finding_time(excess.slow_ns),
        finding_time(excess.other_ns), excess.name);
  }
  return fmt::format("{} on rank {} takes {} in these, {} in the others",
                     excess.name, excess.rank, finding_time(excess.slow_ns),
                     finding_time(excess.other_ns));
}

void advise(const std::optional<StepExcess>& excess, Framework framework,
            Finding& finding) {
  if (!excess) {
    finding.action =
        "look at what the hosts do at that time: checkpoints, evaluation, "
        "garbage collection, other processes; record with stacks";
    if (framework == Framework::kPyTorch)
      finding.command = "torch.profiler.profile(with_stack=True)";
  } else if (excess->kernels_longer > 0) {
    finding.action =
        "compare the device's clocks, power and temperature in these and in "
        "the others; if they are the same, the sizes of what it computes";
    finding.command = "nvidia-smi dmon -s pc";
  } else if (excess->as_often) {
    finding.action =
        "it is done as often in the others: look at what it waits for and at "
        "what runs beside it in these";
  } else {
    finding.action =
        "have it done less often, beside the steps, or by equal parts in each";
  }
}

/// Where no finding of the slow step tells why.
Finding untold(const SlowSteps& slow, const std::optional<StepExcess>& excess,
               Framework framework) {
  Finding finding;
  finding.kind = kSlowSteps;
  finding.what = fmt::format(
      "{}: {}", steps_text(slow),
      excess ? excess_text(*excess) : "nothing that was recorded says why");
  finding.evidence.push_back(numbers_text(slow));
  advise(excess, framework, finding);
  if (excess) {
    finding.where.ranks = {excess->rank};
    finding.where.kernel = excess->name;
  }
  finding.gain_ns = std::llround(slow.lost_ns);
  return finding;
}

/// By which of a slow step's findings the slow steps lose what they lose;
/// nothing where none explains it.
std::optional<Finding> told_of(const SlowSteps& slow, const Findings& typical,
                               const Findings& own) {
  const auto more_ns = [&](const Finding& finding) {
    return static_cast<double>(finding.gain_ns -
                               gain_of(typical, finding.kind));
  };
  double most_ns = 0;
  for (const Finding& finding : own.list)
    most_ns = std::max(most_ns, more_ns(finding));
  const double explained = std::min(
      1.0, most_ns / static_cast<double>(slow.step_ns - slow.typical_ns));
  if (explained < kLeastExplained) return std::nullopt;
  // Of findings about the same time, the first is the more special.
  const Finding& cause =
      *std::find_if(own.list.begin(), own.list.end(), [&](const Finding& each) {
        return more_ns(each) >= (1 - Findings::kSameGain) * most_ns;
      });
  Finding finding = cause;
  finding.kind = kSlowSteps;
  // Of the others it is not known: they may wait for another rank.
  finding.what = fmt::format("{}: in step {}, {}", steps_text(slow), slow.step,
                             cause.what);
  finding.evidence.insert(
      finding.evidence.begin(),
      fmt::format("{}; in step {} a replay without it gains {}",
                  numbers_text(slow), slow.step, finding_time(cause.gain_ns)));
  finding.gain_ns = std::llround(slow.lost_ns * explained);
  finding.what_if.clear();  // Its replay is of one slow step.
  return finding;
}

}  // namespace

Findings find_all_findings(const AlignedTrace& recorded,
                           const Analysis& analysis) {
  Findings findings = find_findings(recorded.by_rank(), analysis);
  if (!findings.not_replayed.empty() || !analysis.typical) return findings;
  const std::optional<SlowSteps> slow = slow_steps(analysis.steps);
  if (!slow || slow->lost_ns < static_cast<double>(findings.threshold_ns) ||
      !lasts_longer(*slow, analysis)) {
    return findings;
  }
  const Result<Analysis> own = analyze(recorded, {.step = slow->step});
  if (!own) return findings;  // Its step has no graph of its own.
  std::optional<Finding> finding =
      told_of(*slow, findings, find_findings(recorded.by_rank(), *own));
  const std::optional<StepExcess> excess = excess_of(*slow, recorded.by_rank());
  if (!finding) {
    finding = untold(*slow, excess, framework_of(recorded.by_rank().frame()));
  } else if (excess) {
    finding->evidence.insert(finding->evidence.begin() + 1,
                             excess_text(*excess));
  }
  if (finding->gain_ns < findings.threshold_ns) return findings;
  finding->gain_share = static_cast<double>(finding->gain_ns) / slow->mean_ns;
  const auto place = std::find_if(
      findings.list.begin(), findings.list.end(),
      [&](const Finding& each) { return each.gain_ns < finding->gain_ns; });
  findings.list.insert(place, *std::move(finding));
  return findings;
}

}  // namespace reprise

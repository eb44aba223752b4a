#include "data/trace/step_times.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace reprise {
namespace {

constexpr const char* kStepKey = "step";
constexpr const char* kBareContext = "device not recorded";

}  // namespace

bool is_timed(const RankInfo& rank) { return rank.clock_domain != "none"; }

std::vector<TimedStep> complete_steps(const Trace& trace) {
  struct Step {
    size_t ranks = 0;
    int64_t time_ns = 0;
  };
  std::map<int32_t, Step> steps;
  for (const StepMark& mark : trace.steps) {
    if (mark.warmup) continue;
    Step& step = steps[mark.step];
    ++step.ranks;
    step.time_ns = std::max(step.time_ns, mark.time_ns());
  }
  const auto timed = static_cast<size_t>(
      std::count_if(trace.ranks.begin(), trace.ranks.end(), is_timed));
  std::vector<TimedStep> complete;
  for (const auto& [number, step] : steps) {
    if (step.ranks >= timed) complete.push_back({number, step.time_ns});
  }
  return complete;
}

std::optional<TypicalStep> typical_step(const Trace& trace) {
  std::vector<std::pair<int64_t, int32_t>> complete;
  for (const TimedStep& each : complete_steps(trace)) {
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

void keep_bare_steps(std::vector<StepMark> marks, Trace& trace) {
  Trace bare;
  bare.ranks = trace.ranks;
  bare.steps = std::move(marks);
  const std::optional<TypicalStep> typical = typical_step(bare);
  if (!typical) return;
  trace.measurements.push_back(
      {.key = kStepKey,
       .unit = kStepKey,
       .context = kBareContext,
       .median_ns = typical->median_ns,
       .spread_ns = typical->spread_ns,
       .samples = static_cast<int64_t>(typical->steps)});
}

std::optional<Measurement> bare_steps(const Trace& trace) {
  for (const Measurement& one : trace.measurements) {
    if (one.key == kStepKey && one.context == kBareContext) return one;
  }
  return std::nullopt;
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

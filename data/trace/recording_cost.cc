#include "data/trace/recording_cost.h"

#include <utility>

#include "data/io/decimal.h"
#include "data/trace/step_times.h"

namespace reprise {
namespace {

constexpr const char* kStepKey = "step";
constexpr const char* kBareContext = "device not recorded";

}  // namespace

int64_t event_cost_ns(const Trace& trace) {
  constexpr int64_t kMost_ns = 999;
  const auto told = trace.environment.find(kEventCost);
  if (told == trace.environment.end()) return 0;
  const int64_t cost_ns = parse_integer(told->second).value_or(0);
  return cost_ns >= 0 && cost_ns <= kMost_ns ? cost_ns : 0;
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

}  // namespace reprise

#include "replay/verdict/step_run.h"

#include <cmath>
#include <utility>

#include "data/trace/job_size.h"
#include "data/trace/step_times.h"

namespace reprise {
namespace {

Status check_times(const std::vector<double>& times, const std::string& name) {
  for (size_t i = 0; i < times.size(); ++i) {
    constexpr double kMost = 0x1p63;  // Of an int64_t.
    if (!(times[i] > 0 && times[i] < kMost)) {
      return fail(ErrorKind::kInvalid,
                  "{}: step {}: expected a time above zero and below 2^63 ns",
                  name, i);
    }
  }
  return {};
}

}  // namespace

Result<StepRun> run_of_trace(const Trace& trace, std::string name) {
  StepRun run{.name = std::move(name),
              .program = {},
              .ranks = static_cast<int64_t>(job_size(trace)),
              .step_ns = {},
              .reference_ns = {},
              .start_ns = -1};
  for (const TimedStep& each : complete_steps(trace)) {
    run.step_ns.push_back(static_cast<double>(each.step_ns));
  }
  if (run.step_ns.empty()) {
    return fail(ErrorKind::kInvalid,
                "{}: no step after the warm-up is complete on all ranks: mark "
                "steps, or give their times as a list",
                run.name);
  }
  if (Status times = check_times(run.step_ns, run.name); !times)
    return pass(times.error());
  if (!trace.ranks.empty() && trace.ranks.front().clock_domain == "epoch") {
    for (const StepMark& mark : trace.steps) {
      if (mark.rank != trace.ranks.front().rank || mark.warmup) continue;
      if (run.start_ns < 0 || mark.start_ns < run.start_ns)
        run.start_ns = mark.start_ns;
    }
  }
  return run;
}

Result<StepRun> run_of_list(StepList list, std::string name) {
  if (!list.reference_ns.empty() &&
      list.reference_ns.size() != list.step_ns.size()) {
    return fail(ErrorKind::kInvalid, "{}: {} references of {} steps", name,
                list.reference_ns.size(), list.step_ns.size());
  }
  for (const auto* times : {&list.step_ns, &list.reference_ns}) {
    if (Status sound = check_times(*times, name); !sound)
      return pass(sound.error());
  }
  return StepRun{.name = std::move(name),
                 .program = std::move(list.program),
                 .ranks = list.ranks,
                 .step_ns = std::move(list.step_ns),
                 .reference_ns = std::move(list.reference_ns),
                 .start_ns = -1};
}

}  // namespace reprise

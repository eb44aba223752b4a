// Machines change pace between runs by more than plans differ. Matrix products
// are the same library calls under every plan, so their median ratio to the
// first solo run, which on one rank is the recorded one, says by how much, and
// all times of a run are scaled by it.
#include "costmodel/plan_calibration.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "costmodel/calibration.h"
#include "data/integers.h"
#include "data/median.h"
#include "data/schedule/timed_schedule.h"

namespace reprise {
namespace {

/// Slow-downs vary more than prices: which thread gets the core is chance.
constexpr std::chrono::milliseconds kSoloRun{1500}, kApartRun{2500},
    kOverlappedRun{3500};

/// Whether an earlier calibration told the slow-downs.
bool has_contention(std::span<const Measurement> measurements) {
  return std::any_of(
      measurements.begin(), measurements.end(),
      [](const Measurement& each) { return each.context == kBesideContext; });
}

}  // namespace

PlanCalibration::PlanCalibration(const Trace& recorded,
                                 const LoweredProgram& program,
                                 std::vector<Measurement> known,
                                 MeasuringRuns runs)
    : recorded_(recorded),
      program_(program),
      known_(std::move(known)),
      knows_contention_(has_contention(known_) ||
                        has_contention(recorded.measurements)) {
  runs_ = std::move(runs);
  runs_.run = [this, run = std::move(runs_.run)](
                  const LoweredProgram& each, bool solo,
                  const CalibrationSteps& steps) {
    ++run_count_;
    return run(each, solo, steps);
  };
}

Status PlanCalibration::measure(const Plan& plan) {
  known_before_ = known_.size();
  measured_before_ = measured_.size();
  if (!knows_contention_) {
    Status recorded = measure_recorded();
    if (!recorded) return recorded;
  }
  LoweredProgram under = program_;
  under.plan = plan;
  Result<Schedule> schedule = lower_under(program_, plan);
  if (!schedule) return pass(schedule.error());
  under.schedule = *std::move(schedule);
  const auto solo = solo_run(under);
  if (!solo) return pass(solo.error());
  keep(*solo);
  return {};
}

void PlanCalibration::forget_last() {
  known_.resize(known_before_);
  measured_.resize(measured_before_);
}

/// What the recorded run itself cannot tell: its units alone, and how compute
/// and communication slow each other down.
Status PlanCalibration::measure_recorded() {
  knows_contention_ = true;
  if (program_.plan.ranks < 2) {
    const TimedSchedule timed(program_.schedule, recorded_.environment);
    const auto alone = measurements_of(recorded_, timed.schedule());
    if (!alone) return pass(alone.error());
    take_as_reference(*alone);
    return {};
  }
  const Result<LoweredProgram> overlapped = overlapped_program(program_);
  if (!overlapped) return pass(overlapped.error());
  const auto solo = solo_run(*overlapped);
  if (!solo) return pass(solo.error());
  keep(*solo);
  const auto link = measure_link(
      recorded_, program_, *overlapped, *solo,
      {steps_within(kApartRun), steps_within(kOverlappedRun)}, runs_);
  if (!link) return pass(link.error());
  keep(*link);
  return {};
}

/// A solo run, with its times brought to the machine speed of the first one,
/// told by the library calls that every plan shares.
Result<std::vector<Measurement>> PlanCalibration::solo_run(
    const LoweredProgram& program) {
  const Result<Trace> trace = runs_.run(program, true, steps_within(kSoloRun));
  if (!trace) return pass(trace.error());
  const TimedSchedule timed(program.schedule, trace->environment);
  Result<std::vector<Measurement>> solo =
      measurements_of(*trace, timed.schedule());
  if (!solo) return solo;
  std::vector<double> ratios;
  for (const Measurement& each : *solo) {
    if (each.key.rfind("dot:", 0) != 0 || each.median_ns <= 0) continue;
    const auto first = reference_.find(each.key);
    if (first == reference_.end()) continue;
    ratios.push_back(static_cast<double>(first->second) /
                     static_cast<double>(each.median_ns));
  }
  if (ratios.empty()) {
    take_as_reference(*solo);
    return solo;
  }
  const double scale = median(std::move(ratios));
  for (Measurement& each : *solo) {
    each.median_ns = std::llround(static_cast<double>(each.median_ns) * scale);
  }
  return solo;
}

void PlanCalibration::take_as_reference(
    const std::vector<Measurement>& measurements) {
  for (const Measurement& each : measurements)
    reference_.emplace(each.key, each.median_ns);
}

/// Steps of a run that lasts about `length`, at the recorded pace.
CalibrationSteps PlanCalibration::steps_within(
    std::chrono::nanoseconds length) const {
  constexpr int64_t kWarmup = 2, kFewest = 5, kMost = 1000;
  constexpr int64_t kMostRuns = 300'000;  // Of units; a trace of 20 MB.
  int64_t time_ns = 0, count = 0;
  for (const StepMark& mark : recorded_.steps) {
    if (mark.warmup) continue;
    time_ns = saturating_add(time_ns, mark.time_ns());
    count += 1;
  }
  const int64_t step_ns =
      std::max<int64_t>(1, time_ns / std::max<int64_t>(1, count));
  const auto units = static_cast<int64_t>(program_.schedule.units.size());
  const int64_t most =
      std::clamp(kMostRuns / std::max<int64_t>(1, units), kFewest, kMost);
  return {
      .steps = kWarmup + std::clamp(length.count() / step_ns, kFewest, most),
      .warmup = kWarmup};
}

void PlanCalibration::keep(const std::vector<Measurement>& measurements) {
  known_.insert(known_.end(), measurements.begin(), measurements.end());
  measured_.insert(measured_.end(), measurements.begin(), measurements.end());
}

}  // namespace reprise

// A measuring run differs from the recorded one in its order (units that wait
// for no collective first, so that both streams are busy, or all compute first,
// so that no transfer has company) and in its buckets (a few of growing sizes).
#include "costmodel/measuring_runs.h"

#include <algorithm>

#include "costmodel/calibration.h"
#include "costmodel/large_transfers.h"
#include "data/schedule/timed_schedule.h"

namespace reprise {
namespace {

using Measurements = Result<std::vector<Measurement>>;

/// Slow-downs are stated in millionths. Two threads that share a core slow each
/// other down twofold at most; what is fitted above that is noise.
constexpr int64_t kMillionths = 1'000'000;

Measurements limited(Measurements slowdowns) {
  if (!slowdowns) return slowdowns;
  for (Measurement& each : *slowdowns) {
    each.median_ns = std::clamp(each.median_ns, kMillionths, 2 * kMillionths);
  }
  return slowdowns;
}

/// The program under `plan` in an order made from that plan's units.
Result<LoweredProgram> under_order(
    const LoweredProgram& program, const Plan& plan,
    std::vector<std::string> (*order_of)(const Schedule&)) {
  LoweredProgram ordered = program;
  ordered.plan = plan;
  ordered.plan.order.clear();
  for (const bool last : {false, true}) {
    Result<Schedule> lowered = lower_under(program, ordered.plan);
    if (!lowered) return pass(lowered.error(), "plan of a measuring run");
    if (!last) ordered.plan.order = order_of(*lowered);
    ordered.schedule = *std::move(lowered);
  }
  return ordered;
}

Result<Trace> run_aligned(const LoweredProgram& program,
                          const CalibrationSteps& steps,
                          const MeasuringRuns& runs) {
  Result<Trace> trace = runs.run(program, false, steps);
  if (trace) runs.align_clocks(*trace);
  return trace;
}

/// Of the buckets in `probe`, run after the compute and beside it.
Measurements measure_buckets(const RecordedRun& recorded, const Plan& probe,
                             const LoweredProgram& program,
                             const std::vector<Measurement>& solo,
                             const LinkSteps& steps,
                             const MeasuringRuns& runs) {
  const auto apart = under_order(program, probe, apart_order);
  if (!apart) return pass(apart.error());
  const auto beside = under_order(program, probe, overlapped_order);
  if (!beside) return pass(beside.error());
  const Result<Trace> apart_run = run_aligned(*apart, steps.apart, runs);
  if (!apart_run) return pass(apart_run.error());
  const Result<Trace> beside_run = run_aligned(*beside, steps.beside, runs);
  if (!beside_run) return pass(beside_run.error());
  const TimedSchedule apart_units(apart->schedule, apart_run->environment);
  const TimedSchedule beside_units(beside->schedule, beside_run->environment);
  const RecordedRun alone = {*apart_run, apart_units.schedule()};
  Measurements measured = limited(contention_measurements(
      alone, {*beside_run, beside_units.schedule()}, solo, false));
  if (!measured) return measured;
  const Measurements sizes = size_measurements(
      recorded, alone, with_measured({}, *measured).collective);
  if (!sizes) return pass(sizes.error());
  measured->insert(measured->end(), sizes->begin(), sizes->end());
  return measured;
}

}  // namespace

Status check_measurable(const Trace& trace, const std::string& path) {
  const auto found = trace.environment.find("device");
  if (found == trace.environment.end() || found->second == "cpu") return {};
  return fail(ErrorKind::kUnsupported,
              "{}: recorded on {}, and units are measured on the CPU only",
              path, found->second);
}

Result<LoweredProgram> overlapped_program(const LoweredProgram& program) {
  return under_order(program, program.plan, overlapped_order);
}

Measurements measure_link(const Trace& trace, const LoweredProgram& program,
                          const LoweredProgram& overlapped,
                          const std::vector<Measurement>& solo,
                          const LinkSteps& steps, const MeasuringRuns& runs) {
  Trace aligned = trace;
  runs.align_clocks(aligned);
  const TimedSchedule recorded_units(program.schedule, aligned.environment);
  const RecordedRun recorded = {aligned, recorded_units.schedule()};
  const Result<bool> credited = has_burst_credit(recorded);
  if (!credited) return pass(credited.error());
  Plan probe = program.plan;
  probe.buckets = probing_buckets(program.schedule);
  if (!*credited && !probe.buckets.empty()) {
    return measure_buckets(recorded, probe, program, solo, steps, runs);
  }
  const Result<Trace> run = run_aligned(overlapped, steps.beside, runs);
  if (!run) return pass(run.error());
  const TimedSchedule units(overlapped.schedule, run->environment);
  return limited(
      contention_measurements(recorded, {*run, units.schedule()}, solo));
}

Result<Calibration> calibrate(const LoweredProgram& program,
                              const Trace* recorded,
                              const CalibrationSteps& steps,
                              const MeasuringRuns& runs) {
  // Alone and with both streams busy, in an order that keeps both busy.
  const bool both = recorded != nullptr && program.plan.ranks > 1;
  const Result<LoweredProgram> run =
      both ? overlapped_program(program) : program;
  if (!run) return pass(run.error());
  const Result<Trace> solo = runs.run(*run, true, steps);
  if (!solo) return pass(solo.error());
  const TimedSchedule timed(run->schedule, solo->environment);
  Measurements units = measurements_of(*solo, timed.schedule());
  if (!units) return pass(units.error());
  Calibration result{*std::move(units), solo->environment};
  if (!both) return result;
  const Measurements link = measure_link(
      *recorded, program, *run, result.measurements, {steps, steps}, runs);
  if (!link) return pass(link.error());
  result.measurements.insert(result.measurements.end(), link->begin(),
                             link->end());
  return result;
}

}  // namespace reprise

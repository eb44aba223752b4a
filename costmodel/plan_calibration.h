// Measures the units of plans while a search asks for them: one solo run a
// plan, and before the first one what the recorded run cannot tell of its link.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "costmodel/measuring_runs.h"
#include "data/program/lowered_program.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

class PlanCalibration {
 public:
  /// `recorded` ran `program`; both outlive this. `known`: of earlier
  /// calibrations, besides the trace's own.
  PlanCalibration(const Trace& recorded, const LoweredProgram& program,
                  std::vector<Measurement> known, MeasuringRuns runs);
  PlanCalibration(const PlanCalibration&) = delete;  // Its runs count in it.

  /// Runs a plan without communication, for about 1.5 s at the recorded pace.
  /// Before the first plan, where no earlier calibration told the slow-downs,
  /// the recorded plan and its link are measured too. Errors: of lowering, of
  /// the runs, and as fit_costs.
  Status measure(const Plan& plan);
  /// Forgets what the last `measure` found.
  void forget_last();

  /// `known`, and what was measured since.
  const std::vector<Measurement>& known() const { return known_; }
  const std::vector<Measurement>& measured() const { return measured_; }
  /// Trainings so far.
  int runs() const { return run_count_; }

 private:
  Status measure_recorded();
  Result<std::vector<Measurement>> solo_run(const LoweredProgram& program);
  void take_as_reference(const std::vector<Measurement>& measurements);
  CalibrationSteps steps_within(std::chrono::nanoseconds length) const;
  void keep(const std::vector<Measurement>& measurements);

  const Trace& recorded_;
  const LoweredProgram& program_;
  MeasuringRuns runs_;
  std::vector<Measurement> known_, measured_;
  /// Of the first run without communication, by key.
  std::map<std::string, int64_t> reference_;
  bool knows_contention_ = false;
  /// Sizes of known_ and measured_ before the last `measure`.
  size_t known_before_ = 0, measured_before_ = 0;
  int run_count_ = 0;
};

}  // namespace reprise

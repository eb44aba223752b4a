// One run as the times of its steps: what verdicts are made of, whatever
// recorded it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/step_list.h"
#include "data/trace/trace.h"

namespace reprise {

struct StepRun {
  std::string name;             ///< For people: its file.
  std::string program;          ///< What ran, as far as it is told; "" unknown.
  int64_t ranks = 0;            ///< Of the job; 0 unknown.
  std::vector<double> step_ns;  ///< In order, warm-up that was marked left out.
  /// The machine's pace beside each step, as the time of some fixed work; empty
  /// where none was taken.
  std::vector<double> reference_ns;
  int64_t start_ns = -1;  ///< On a clock that runs share; -1: unknown.
};

/// Steps that all ranks marked, as complete_steps has them. Errors: kInvalid
/// when it marks none that counts.
Result<StepRun> run_of_trace(const Trace& trace, std::string name);

/// Errors: kInvalid of a time that is not above zero, or references that are
/// not as many as steps.
Result<StepRun> run_of_list(StepList list, std::string name);

}  // namespace reprise

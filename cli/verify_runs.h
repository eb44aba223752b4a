// The runs that `reprise verify` is given, and what they show of a plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/plan/plan.h"
#include "data/result.h"
#include "optimizer/ddp/ddp_effect.h"
#include "optimizer/ddp/ddp_recording.h"
#include "optimizer/ddp/fsdp_effect.h"
#include "replay/verdict/step_run.h"

namespace reprise {

/// One run: its steps, and what else a trace of it tells.
struct VerifiedRun {
  StepRun run;
  bool traced = false;    ///< Else a list of step times.
  std::string plan_text;  ///< Of our trainer's trace; "" of others.
  std::optional<DdpRecording> recording;  ///< Of a data-parallel job.
  std::string no_recording;               ///< Why there is none.
  std::vector<std::vector<FsdpGroup>>
      fsdp_groups;  ///< [rank] Of a sharded job.
};

/// Reads a list of step times, a trace, or what can be imported as one. What
/// the run did of gradients is read where `plan` is of an imported trace.
/// Errors: as parse_step_list, read_trace_shown and run_of_trace.
Result<VerifiedRun> read_run(const std::string& path, const Plan* plan);

/// Whether a plan is what the runs ran.
struct PlanEffect {
  std::optional<bool> in_effect;  ///< None: the runs do not show it.
  bool other_program = false;     ///< Some run is not of the plan's program.
  std::string told;               ///< A sentence.
};

/// Errors: as bucket_effect.
Result<PlanEffect> plan_effect(const Plan& plan, const std::string& path,
                               const std::vector<VerifiedRun>& after);

}  // namespace reprise

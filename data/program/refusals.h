// Everything about a program that does not run, before anything starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// One reason, and where it was met first.
struct Refusal {
  std::string instruction;  ///< With its place in the source.
  std::string reason;
  std::string advice;  ///< What to do; empty where nothing is known.
  int64_t more = 0;    ///< Instructions of the same opcode and type beside it.
};

/// What lowering refuses, in the order in which it meets it, gathered by
/// lowering again with each refused result taken for an input; then what is
/// lowered but not run, in loops and branches too. At most
/// `kMostRefusals` reasons. Empty: it runs. Cost: a lowering for each reason.
std::vector<Refusal> refusals_of(const InlinedModule& module, int64_t ranks);
inline constexpr size_t kMostRefusals = 12;

/// What of a schedule that `module` was lowered to does not run.
std::vector<Refusal> refusals_of(const InlinedModule& module,
                                 const Schedule& schedule);

/// The reasons as an error of as many lines; success where there are none.
Status refuse(const std::vector<Refusal>& refusals);

/// All of refusals_of as an error.
Status check_runs(const InlinedModule& module, int64_t ranks);

}  // namespace reprise

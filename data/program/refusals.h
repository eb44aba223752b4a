// Everything about a program that does not run, before anything starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// One reason, and where it was met first.
struct Refusal {
  std::string instruction;  ///< With its place in the source.
  std::string reason;
  std::string advice;  ///< What to do; empty where nothing is known.
  int64_t more = 0;    ///< Instructions of the same opcode and type beside it.
};

/// What lowering refuses, in the order in which it meets it, gathered by
/// lowering again with each refused result taken for an input; at most
/// `kMostRefusals` reasons. Empty: it runs. Cost: a lowering for each reason.
std::vector<Refusal> refusals_of(const InlinedModule& module, int64_t ranks);
inline constexpr size_t kMostRefusals = 12;

/// The same as an error of as many lines; success where there are none.
Status check_runs(const InlinedModule& module, int64_t ranks);

}  // namespace reprise

// What lowering the same program again need not do again: the analysis of the
// program and the kernels of its groups. A search lowers thousands of plans
// that differ in a few groups.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/kernel/kernel.h"
#include "data/plan/dot_epilogue.h"
#include "data/plan/op_graph.h"
#include "data/plan/unit_graph.h"
#include "data/result.h"
#include "data/schedule/called_fusion.h"
#include "data/schedule/routine_spec.h"

namespace reprise {

/// A group's kernel with the figures that units carry.
struct LoweredKernel {
  Kernel kernel;
  std::string key;
  double flops = 0;
  double bytes = 0;
};

/// What a routine's unit carries beside its locations; `spec` without the
/// places of kernels.
struct LoweredRoutine {
  RoutineSpec spec;
  std::string key;
  double flops = 0;
  double bytes = 0;
  int64_t workspace_bytes = 0;
  /// [element of its result] False for what needs no memory unless it is read.
  std::vector<bool> written;
  std::vector<int32_t> replaces;  ///< CalledState's.
};

/// What a dot's unit carries beside its locations.
struct DotFigures {
  std::string key;
  double flops = 0;
  double bytes = 0;
};

/// Serves one module, one thread at a time; using it for another module empties
/// it.
struct ScheduleCache {
  /// Of a called program, the rules of its caller; else those that its loops
  /// and branches are noted for.
  std::optional<CalledFusion> called_fusion = {};
  const InlinedModule* module = nullptr;
  OpGraph graph = {};
  /// By ops and outputs.
  std::unordered_map<std::string, Result<LoweredKernel>> kernels = {};
  /// By instruction and number of ranks.
  std::map<std::pair<uint32_t, int64_t>, Result<LoweredRoutine>> routines = {};
  /// Description -> key.
  std::unordered_map<std::string, std::string> dot_keys = {};
};

/// Makes `cache` serve `inlined`. Errors: those of build_op_graph.
Status open_cache(const InlinedModule& inlined, ScheduleCache* cache);

/// The kernel of one planned unit, lowered at most once. The result lives as
/// long as the cache. Errors: kUnsupported naming an instruction; kInvalid
/// naming the unit when its ops cannot be one kernel.
Result<const LoweredKernel*> find_kernel(const PlannedUnit& unit,
                                         ScheduleCache* cache);

/// The routine of one planned unit, lowered at most once; as find_kernel.
/// Errors: kUnsupported naming an instruction.
Result<const LoweredRoutine*> find_routine(InstructionId instruction,
                                           int64_t ranks, ScheduleCache* cache);

/// Structural key and costs of a dot's unit: the dot's and its epilogue's
/// flops, every operand and the result moved once. A plain dot has the key that
/// it has in no group. Requires: `epilogue` is that of `ops`.
DotFigures dot_figures(const std::vector<InstructionId>& ops,
                       const DotEpilogue& epilogue, ScheduleCache* cache);

}  // namespace reprise

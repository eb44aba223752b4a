// Where every value of a planned program lives, which copies that takes, and in
// what order units run.
#pragma once

#include <cstdint>
#include <vector>

#include "data/plan/op_graph.h"
#include "data/plan/unit_graph.h"
#include "data/schedule/schedule.h"
#include "data/schedule/schedule_cache.h"

namespace reprise {

/// A copy that the plan does not name.
struct PlannedCopy {
  std::string name;
  UnitRef ref;
  Location from, to;
};

struct Placement {
  std::vector<uint32_t> order;  ///< Planned units.
  std::vector<Buffer> buffers;
  std::vector<BufferId> parameter_buffers;  ///< By number.
  std::vector<Location> location;           ///< [value]
  /// [planned collective] Its buffer, or its members' results where these are
  /// apart.
  std::vector<std::vector<Location>> collective;
  /// [unit] Of a routine: its result's arrays, then its workspace if it has
  /// one. Without bytes where nothing need be written.
  std::vector<std::vector<Location>> routine_writes;
  std::vector<int32_t> slot_copy;  ///< [slot] index in input_copies, or -1.
  std::vector<PlannedCopy> first_copies;  ///< Run before everything.
  std::vector<PlannedCopy> input_copies;  ///< Run just before their collective.
  std::vector<PlannedCopy> last_copies;   ///< Run after everything.
  std::vector<OutputBinding> outputs;
};

/// What units are lowered to, [unit]: null where a unit is of another kind.
struct LoweredUnits {
  std::vector<const LoweredKernel*> kernels;
  std::vector<const LoweredRoutine*> routines;
};

/// Decides order, copies and locations; see lower_schedule for the rules.
Placement place_values(const OpGraph& graph, const UnitGraph& units,
                       const LoweredUnits& lowered);

}  // namespace reprise

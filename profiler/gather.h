// Joins the shards of all ranks into one Trace.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// What the shards do not repeat for each event: one per unit of the schedule,
/// in its order.
struct UnitLabel {
  std::string name;
  EventKind kind = EventKind::kCompute;
  int64_t bytes = 0;  ///< Collectives: payload.
};

struct GatherContext {
  std::string program_text;
  std::string manifest_text;
  std::string plan_text;
  std::map<std::string, std::string> environment;
  std::vector<UnitLabel> units;
};

/// Reads the shards (any order, one per rank) and builds the trace: sorted,
/// names interned, clocks of the ranks as they were measured. What was lost
/// stands in Trace::warnings. Errors: those of read_shard; kInvalid when two
/// shards are of the same rank, or an event names a unit that `context.units`
/// lacks.
Result<Trace> gather_shards(const std::vector<std::string>& paths,
                            const GatherContext& context);

}  // namespace reprise

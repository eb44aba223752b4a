// What-ifs: a price model, a priced schedule or the graph of an imported trace
// (replay/simulate/trace_replay.h), edited by a short text.
#pragma once

#include <string>
#include <string_view>

#include "costmodel/cost_model.h"
#include "data/hlo/module.h"
#include "data/result.h"
#include "replay/simulate/replay.h"

namespace reprise {

enum class WhatIfKind : uint8_t {
  kBandwidth,  ///< "bandwidth=2x": all collectives.
  kLatency,    ///< "latency=0.5x", "latency=50us": of each collective.
  kOp,         ///< "op:REGEX=0.5x": time of units with a matching op or name.
  /// "rank:1=1.2x": compute time of one rank (of an imported trace: all that it
  /// does itself, on the host too).
  kRank,
  kDevice,     ///< "device=0.5x": all device work but collectives.
  kHost,       ///< "host=0.5x": what host threads do, and their named ranges.
  kLaunch,     ///< "launch=0", "launch=0.5x": handing work to a stream.
  kStraggler,  ///< "straggler=none": no rank slower than the median one.
  kOverlap,    ///< "overlap=ideal": nothing but collectives waits for one.
};

/// The forms that parse_what_if understands, for help and errors.
extern const char* const kWhatIfForms;

struct WhatIf {
  WhatIfKind kind = WhatIfKind::kBandwidth;
  double factor = 1;       ///< 0 only of kLaunch.
  double latency_ns = -1;  ///< Absolute latency; -1: use the factor.
  std::string pattern;     ///< kOp.
  uint32_t rank = 0;       ///< kRank.
};

/// Errors: kInvalid with the text and the forms that are understood.
Result<WhatIf> parse_what_if(std::string_view text);

/// Edits prices; for kBandwidth and kLatency. Call it before price_schedule.
void apply_what_if(const WhatIf& what_if, CostModel& costs);

/// Edits a priced schedule; for all others. `module` (null: unit names only)
/// names the ops of a unit.
/// Errors: kInvalid when nothing matches, or the rank does not exist;
/// kUnsupported for kOverlap, which a schedule's dependencies leave no room
/// for, and for kDevice and kHost, which it does not tell apart.
Status apply_what_if(const WhatIf& what_if, const Module* module,
                     PricedSchedule& priced);

}  // namespace reprise

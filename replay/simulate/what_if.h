// What-ifs: the graph of a priced schedule or of an imported trace, edited by a
// short text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"
#include "replay/graph/timed_graph.h"
#include "replay/simulate/node_facts.h"

namespace reprise {

enum class WhatIfKind : uint8_t {
  kBandwidth,  ///< "bandwidth=2x": all collectives.
  kLatency,    ///< "latency=0.5x", "latency=50us": of each collective.
  kRanks,      ///< "ranks=64": the largest groups of collectives.
  kOp,         ///< "op:REGEX=0.5x": time of units with a matching op or name.
  kRank,       ///< "rank:1=1.2x": what one rank does itself, its host too.
  kDevice,     ///< "device=0.5x": device work but transfers and host copies.
  kHost,       ///< "host=0.5x": what host threads do, and their named ranges.
  kLaunch,     ///< "launch=0", "launch=0.5x": handing work to a stream.
  kStraggler,  ///< "straggler=none": no rank slower than the median one.
  kOverlap,    ///< "overlap=ideal": as overlap_collectives has it.
  kCapture,    ///< "launch=graph": device work is launched all at once.
  kSync,       ///< "sync=none": the host waits for no device work.
  kCopies,     ///< "copies=overlapped": nothing else waits for such a copy.
  kData,       ///< "data=none": data loaders take no time.
};

/// The forms that parse_what_if understands, for help and errors.
extern const char* const kWhatIfForms;

struct WhatIf {
  WhatIfKind kind = WhatIfKind::kBandwidth;
  double factor = 1;       ///< 0 only of kLaunch.
  double latency_ns = -1;  ///< Absolute latency; -1: use the factor.
  std::string pattern;     ///< kOp.
  uint32_t rank = 0;       ///< kRank; kRanks: how many.
};

/// Errors: kInvalid with the text and the forms that are understood.
Result<WhatIf> parse_what_if(std::string_view text);
Result<std::vector<WhatIf>> parse_what_ifs(
    const std::vector<std::string>& texts);

/// Whether any of them changes or compares single ranks, so that none may stand
/// for others.
bool tells_ranks_apart(std::span<const WhatIf> what_ifs);

/// Edits durations, gaps and edges of a graph; what is not named stays as
/// recorded or priced, gaps too. `facts` are those of its origins. Errors:
/// kInvalid when nothing matches, the rank does not exist, or there is nothing
/// of the kind that would change.
Status apply_what_if(const WhatIf& what_if, const NodeFacts& facts,
                     TimedGraph& graph);

}  // namespace reprise

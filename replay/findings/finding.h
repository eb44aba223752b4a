// What could make a recorded step faster, ranked by what a replay without it
// gains, not by its share of the time. A kind of finding lives in a file of its
// own: it looks for its pattern and proposes the edit of the graph that takes
// it away (finding_kinds.h); the replay alone says what that is worth.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/graph/timed_graph.h"

namespace reprise {

/// Where to look; what is unknown or does not apply stays empty.
struct FindingPlace {
  std::vector<uint32_t> ranks;  ///< By number.
  std::string stream, kernel, collective;
  std::string source;  ///< "train.py(42): step", of traces with stacks.
};

struct Finding {
  std::string_view kind;  ///< "late-rank"; one of finding_kinds().
  std::string what;       ///< A sentence without its full stop.
  FindingPlace where;
  /// Of the replayed window (a step), without it.
  int64_t gain_ns = 0;
  double gain_share =
      0;  ///< Of the replayed window; of slow steps, of the mean.
  /// The replay takes away all of it; what is done about it may gain less.
  bool at_most = true;
  std::vector<std::string> evidence;  ///< Figures, a clause each.
  std::string action;                 ///< What to do, in words.
  std::string command;  ///< A flag, line or `reprise` command; "" where none.
  /// The same gain by `reprise replay --what-if`; "" where it has no word.
  std::string what_if;
  std::optional<int32_t> step;  ///< The replayed one; none: everything.
};

/// A finding before it is priced.
struct Candidate {
  Finding finding;
  std::function<void(TimedGraph& graph)> remove;
  /// What the edit gains beyond this is not the finding's.
  int64_t most_ns = std::numeric_limits<int64_t>::max();
  /// Event of a host call or device work to look up a source line for, or
  /// TimedGraph::Transfer::kNoLink.
  uint32_t origin = TimedGraph::Transfer::kNoLink;
};

}  // namespace reprise

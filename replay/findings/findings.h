// All findings of an analysed trace, priced and ranked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/analysis/analysis.h"
#include "replay/findings/finding.h"

namespace reprise {

struct Findings {
  /// Findings of less are not worth a line: kLeastShare of the window.
  static constexpr double kLeastShare = 0.01;
  /// Graphs beyond this are not copied for edits: 70 bytes a node.
  static constexpr size_t kMostNodes = size_t{1} << 23;

  std::vector<Finding> list;  ///< Most gain first.
  int64_t replayed_ns = 0;    ///< The window, unedited; 0: none was replayed.
  int64_t measured_ns = 0;
  int64_t threshold_ns = 0;
  /// Of the replayed path, what is a gap that nothing recorded explains.
  double unexplained_share = 0;
  std::string not_replayed;  ///< Why there are none, else "".
};

/// Requires: `analysis` of `trace`, with its critical path. Gains do not add
/// up: each is of the recorded step without that finding alone. Cost: some
/// copies and sweeps of analysis.graph.
Findings find_findings(const TraceByRank& trace, const Analysis& analysis);

}  // namespace reprise

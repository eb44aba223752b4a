// All findings of an analysed trace, priced and ranked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "replay/analysis/analysis.h"
#include "replay/findings/finding.h"

namespace reprise {

struct Findings {
  /// Findings of less are not worth a line: kLeastShare of the window.
  static constexpr double kLeastShare = 0.01;
  /// A finding of a more special kind goes first where the other gains so
  /// little more: both are then about the same time.
  static constexpr double kSameGain = 0.02;
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
/// sweeps of analysis.graph, two copies of it at a time.
Findings find_findings(const TraceByRank& trace, const Analysis& analysis);

/// The same and, of a trace of steps among which some last longer than the
/// others for a reason that their findings give, what the mean step loses by
/// these: kSlowSteps, without a replay of its own. Cost: where there are such,
/// another analysis of one.
Findings find_all_findings(const AlignedTrace& recorded,
                           const Analysis& analysis);
constexpr std::string_view kSlowSteps = "slow-steps";

}  // namespace reprise

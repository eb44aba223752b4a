// A trace whose ranks have one clock, its collectives matched: what every
// question over several ranks starts from, so that neither is done twice.
#pragma once

#include <vector>

#include "data/trace/trace.h"
#include "replay/clocks/clock_alignment.h"
#include "replay/collectives/collectives.h"

namespace reprise {

class AlignedTrace {
 public:
  /// Matches and aligns; ranks that ran alone (`solo`) keep their clocks, as
  /// nothing ties them together. Cost: as align_clocks.
  static AlignedTrace align(Trace trace);
  /// Takes the clocks as they are: of one rank, or aligned before.
  static AlignedTrace as_recorded(Trace trace);

  const Trace& trace() const { return trace_; }
  const CollectiveMatching& matching() const { return matching_; }
  /// By rank; empty where nothing was aligned.
  const std::vector<ClockAlignment>& clocks() const { return clocks_; }

 private:
  explicit AlignedTrace(Trace trace)
      : trace_(std::move(trace)), matching_(match_collectives(trace_)) {}

  Trace trace_;
  CollectiveMatching matching_;
  std::vector<ClockAlignment> clocks_;
};

/// Whether ranks ran without communication, which leaves nothing to align by.
bool is_solo(const Trace& trace);

}  // namespace reprise

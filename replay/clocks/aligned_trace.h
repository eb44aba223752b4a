// A trace whose ranks have one clock, its collectives matched: what every
// question over several ranks starts from, so that neither is done twice.
#pragma once

#include <string>
#include <vector>

#include "data/progress.h"
#include "data/trace/trace_by_rank.h"
#include "replay/clocks/clock_alignment.h"
#include "replay/collectives/collectives.h"

namespace reprise {

class AlignedTrace {
 public:
  /// Matches and aligns; ranks that ran alone (`solo`) keep their clocks, as
  /// nothing ties them together. Cost: as align_clocks.
  static AlignedTrace align(Trace trace);
  /// The same of a file, as TraceByRank::read. Errors: as that.
  static Result<AlignedTrace> read(
      const std::string& path, size_t most_events = TraceByRank::kMostEvents,
      const ProgressWatcher& watch = {});
  /// Takes the clocks as they are: of one rank, or aligned before.
  static AlignedTrace as_recorded(Trace trace);

  const TraceByRank& by_rank() const { return trace_; }
  /// Everything but the events.
  const Trace& frame() const { return trace_.frame(); }
  /// With all events. Requires: these are in memory, as those of a program of
  /// ours and of a trace that was not read here always are.
  const Trace& trace() const { return trace_.whole(); }
  Trace take() && { return std::move(trace_).take_whole(); }
  const CollectiveMatching& matching() const { return matching_; }
  /// By rank; empty where nothing was aligned.
  const std::vector<ClockAlignment>& clocks() const { return clocks_; }

 private:
  explicit AlignedTrace(TraceByRank trace, CollectiveCallFinder calls = {})
      : trace_(std::move(trace)),
        matching_(match_collectives(std::move(calls).finish(trace_))) {}
  void align();

  TraceByRank trace_;
  CollectiveMatching matching_;
  std::vector<ClockAlignment> clocks_;
};

/// Whether ranks ran without communication, which leaves nothing to align by.
bool is_solo(const Trace& trace);

}  // namespace reprise

// Where the two streams of a schedule must wait for each other.
#pragma once

#include <cstdint>
#include <vector>

#include "data/schedule/schedule.h"

namespace reprise {

/// The units of one stream in order, and before which of them it waits.
struct UnitSequence {
  std::vector<UnitId> units;
  /// `[place]`: how many units of the other stream must have ended before this
  /// one starts; 0 where an earlier wait already covers it.
  std::vector<uint32_t> wait_for;
  /// `[place]`: the other stream waits for exactly this many units of ours, so
  /// the end of this one must be told.
  std::vector<bool> tell;
};

struct StreamSequences {
  UnitSequence compute, communication;
};

/// Reduces the dependencies within a step to waits on counts: within a stream
/// the order implies them, and a later count implies an earlier one.
StreamSequences make_stream_waits(const Schedule& schedule);

}  // namespace reprise

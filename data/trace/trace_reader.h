// Reading a trace whose events need not be in memory at once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "data/progress.h"
#include "data/result.h"
#include "data/trace/columns.h"
#include "data/trace/trace.h"

namespace reprise {

/// Where the events of a trace with more than `most_events` go that no program
/// of ours ran, and that has several ranks: as they stand in the file, some at
/// a time, in a trace that has all but the others, with the segments of the
/// file that they are. `take` clears them; without it they stay. `watch` is
/// told how many events were read.
struct EventSink {
  size_t most_events = 0;
  std::function<Status(Trace& trace, std::span<EncodedSegment> segments)> take =
      {};
  ProgressWatcher watch = {};
};

/// read_trace; of a trace that went to the sink, everything but its events.
/// Errors: as read_trace, and those of the sink.
Result<Trace> read_trace(const std::string& path, const EventSink& sink);

}  // namespace reprise

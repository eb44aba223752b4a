// The events of a timeline in Chrome's JSON form as Horovod, ByteScheduler,
// BytePS and dPRO write it: complete ones and pairs of begin and end, in an
// array that is often not closed. Built on the reader of Kineto's events, which
// passes over begins and ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/reader.h"
#include "data/io/byte_source.h"
#include "data/io/chrome_event.h"
#include "data/result.h"

namespace reprise {

using TimelineVisitor = std::function<void(const ChromeEvent&)>;

/// Hands over each event of the timeline, whatever its phase, and counts what
/// was lost or repaired. Returns whether the input held events at all.
/// Errors: kIo; kParse when it is no JSON.
Result<bool> read_timeline(ByteSource& source, FileReport& report,
                           const TimelineVisitor& take);

/// A member of the event's "args", as it stands; empty if there is none.
std::string_view timeline_argument(const ChromeEvent& event,
                                   std::string_view key);

/// What stands between the quotes of a string without escapes, else the value
/// itself; for names that are compared, not shown.
std::string_view unquoted(std::string_view value);

/// Adds the rank that a timeline is of, its clock unknown.
uint32_t add_timeline_rank(TraceSpool& spool, uint32_t rank);

/// Refuses a timeline of which nothing was kept.
void refuse_if_empty(const TraceSpool& spool, FileReport& report);

/// Whether the text begins as an object or an array.
bool starts_as_json(std::string_view head);

/// Times of a complete event, in nanoseconds.
struct TimelineSpan {
  int64_t start_ns = 0, end_ns = 0;
};
/// Reads start and duration of an event of phase X; counts in
/// `report.dropped` why there are none.
bool read_span(const ChromeEvent& event, FileReport& report,
               TimelineSpan& span);

/// Counts an event that tells nothing, by its phase.
void count_ignored(const ChromeEvent& event, FileReport& report);

/// Elements of a shape written as "[64, 3, 7, 7]" (brackets of any kind);
/// -1 if it is none or beyond an int64.
int64_t elements_of_shape(std::string_view shape);

}  // namespace reprise

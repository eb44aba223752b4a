#include <algorithm>

#include "data/trace/columns.h"
#include "data/trace/trace.h"
#include "data/trace/trace_file.h"
#include "data/trace/validate_trace.h"

namespace reprise {

Status write_trace(const Trace& trace, const std::string& path,
                   Existing existing) {
  if (Status valid = validate_trace(trace); !valid)
    return pass(valid.error(), path);
  Result<TraceFileWriter> file = TraceFileWriter::create(path);
  if (!file) return pass(file.error());
  SegmentEncoder<Event> encoder(event_columns());
  const std::span<const Event> events(trace.events);
  for (size_t first = 0; first < events.size(); first += kSegmentRecords) {
    const auto segment =
        events.subspan(first, std::min(kSegmentRecords, events.size() - first));
    if (Status added =
            file->add_events(encoder.encode(segment), segment.size());
        !added) {
      return added;
    }
  }
  return file->finish(trace, existing);
}

Status write_trace(const Trace& trace, const std::string& path) {
  return write_trace(trace, path, Existing::kReplace);
}

}  // namespace reprise

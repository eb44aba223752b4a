// Events as rows of CSV (RFC 4180), for SQL and spreadsheets; names as
// csv_field writes them.
#pragma once

#include <string>

#include "data/trace/trace.h"

namespace reprise {

/// Returns one line an event after a header line: rank, host, stream, kind,
/// step, unit, name, enqueue_ns, start_ns, end_ns, bytes, correlation,
/// external_id, graph_node, sequence, detail (id in the trace's tables),
/// attributes (JSON, or nothing). Times are the rank's own clock.
std::string csv_of(const Trace& trace);

}  // namespace reprise

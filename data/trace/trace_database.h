// The database of a trace file as data from a stranger: nothing of it is
// trusted, and nothing in it is run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/io/sqlite.h"
#include "data/result.h"

namespace reprise {

/// An open trace whose header and schema are known to be ours.
struct TraceDatabase {
  Database database;
  int32_t schema = 0;
  uint64_t file_bytes = 0;
};

/// Whether a file with this head (100 bytes are enough) is a trace of ours,
/// whatever its schema.
bool begins_as_trace(std::string_view head);

/// The trace in `bytes`, which must outlive it. Errors: kParse (not a trace,
/// cut short, a foreign schema); kUnsupported (newer schema).
Result<TraceDatabase> open_trace_bytes(std::string& bytes);

/// The trace file in place, without locks. Errors: as open_trace_bytes; kIo
/// (SQLite cannot open it: a pipe, or a name that is too long for it).
Result<TraceDatabase> open_trace_file(const std::string& path);

}  // namespace reprise

// Traces with collectives as text, so that a case is a few readable lines.
#pragma once

#include <string>

#include "data/trace/trace.h"

namespace reprise {

/// One event a line: `RANK KIND STREAM START END NAME [key=value …]`, times in
/// nanoseconds. KIND: collective, compute, host, range (annotation), launch.
/// STREAM: d7 (stream 7 of a device) or t1 (host thread 1). Keys: op comm
/// group(0,1) size in out type seq peer bytes step corr ext, and attr, which
/// takes the rest of the line. "nccl:send_0->1" is written with a space. Blank
/// lines are passed over. Clock domain: epoch.
Trace collective_trace(const std::string& text);

}  // namespace reprise

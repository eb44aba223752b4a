// Imported traces as text, one event a line, for tests of their graph.
#pragma once

#include <string_view>

#include "data/trace/trace.h"

namespace reprise {

/// Parses lines of `STREAM KIND NAME FROM-TO`, times in microseconds, and
/// optionally `#CORRELATION`, `id=EXTERNAL_ID`, `bytes=N`, of a synchronization
/// `awaits=STREAM` (`?`: unknown), and of a message `peer=RANK`. A stream is
/// "h" (host thread) or "d" (device stream) and its rank, then anything: "h0",
/// "d1x"; the order in which they first come is their number. KIND is a word of
/// name_of(EventKind); of a collective, NAME is its operation, and all ranks
/// are its group (`ranks=N`: so many, others too). `step RANK NUMBER FROM-TO
/// [warmup]` marks a step; `depends RANK BEFORE AFTER` is a dependency by
/// external id; `untimed` says that no rank has times. A bad line is a test
/// failure.
Trace parse_trace_text(std::string_view text);

}  // namespace reprise

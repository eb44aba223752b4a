// What holds of every trace, whatever was imported.
#pragma once

#include "data/trace/trace.h"

namespace reprise {

/// Aborts when a column points nowhere or the order is not the stated one.
void check_trace(const Trace& trace);

}  // namespace reprise

// Reads timelines of ByteScheduler: one row a tensor, never closed, queueing
// and communication of several tensors at once. Begins and ends are both named
// and need not nest.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "bytescheduler".
const TraceReader& bytescheduler_reader();

}  // namespace reprise

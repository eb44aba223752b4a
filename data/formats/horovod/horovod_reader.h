// Reads timelines of Horovod (HOROVOD_TIMELINE), closed or not: one row a
// tensor. Only rank 0 writes one, so it is the trace's only rank; when each
// rank became ready is an attribute of the negotiation, not a rank.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "horovod".
const TraceReader& horovod_reader();

}  // namespace reprise

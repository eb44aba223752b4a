// Reads timelines of BytePS (BYTEPS_TRACE_ON: <dir>/<local rank>/comm.json):
// one row a tensor as a whole and one each of its partitions, which are pushed
// to servers and pulled back.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "byteps".
const TraceReader& byteps_reader();

}  // namespace reprise

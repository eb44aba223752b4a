// What NCCL's Inspector plugin writes (NVIDIA/nccl, plugins/profiler/inspector,
// output formats v4.0 to 5.x): a JSON object for each completed call of a
// communicator, with its execution time and, when verbose, the times of its
// kernel on each channel. Since v4.3 whose calls follow stands in a mark before
// them, once a dump of a communicator.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "nccl-inspector". A call becomes a kCollective event on its rank's
/// stream "communication", with the communicator ("0x7f…"), its sequence in it
/// and its bytes, and a cost point (context "nccl-inspector").
///
/// A record that is not verbose has a duration and no time: then the rank's
/// clock is "none" and its calls follow one another in the file's order.
///
/// Records state ranks of their communicator. The rank of the trace is that in
/// the largest communicator of the file; where a process has several ranks,
/// those of other communicators are matched to them in ascending order.
const TraceReader& nccl_inspector_reader();

}  // namespace reprise

// Tables of nccl-tests (all_reduce_perf …), old and new, in whatever they were
// pasted or logged: cost points, not events.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "nccl-tests". Every row becomes a Measurement of the out-of-place time
/// (context "nccl-tests") and one of the in-place time ("nccl-tests in
/// place"), keyed by collective_key(); rows that repeat a size (nccl-tests
/// rounds small sizes down to 0) become one with several samples.
///
/// Tables of before 2024 do not name their operation. It then follows from the
/// columns and from bus bandwidth over algorithm bandwidth: 2(n-1)/n is
/// all-reduce; (n-1)/n reduce-scatter with a reduction, else all-gather or
/// all-to-all; 1 reduce, broadcast or send/receive. Where that leaves two, the
/// file's name decides. Send/receive goes as "collective-permute".
const TraceReader& nccl_tests_reader();

}  // namespace reprise

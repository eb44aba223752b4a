// The NVTX table of an nsys-jax archive (`report_nvtx_pushpop_trace.csv`), as
// `nsys stats --report nvtx_pushpop_trace` writes it. The archive's programs
// are read by hlo_proto_reader.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "nsys-jax-csv". A rank is a process; ranges are annotations on its
/// threads, NCCL's calls are host operations. What devices did is in another
/// file of the archive, which the report tells.
const TraceReader& nsys_jax_reader();

}  // namespace reprise

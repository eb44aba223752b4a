// Records of NCCL's profiler plugins that follow a call through the library:
// lines of JSON (pha-Z/nccl's minimal profiler) and the asynchronous Chrome
// events of NVIDIA's example plugin (NVIDIA/nccl, plugins/profiler/example),
// which are no valid JSON in most versions and are read all the same.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "nccl-profiler". Calls, launches and groups become events of their host
/// threads. What NCCL records of a collective itself is its launch, so its
/// kCollective event on a device stream has the times of its kernel (recorded
/// by CUPTI), else those of the kernel's channels as the proxy thread saw them,
/// else, with network proxies, those until the last one was done. A collective
/// with none of these is a host op. Collectives whose kernel is known are cost
/// points (context "nccl-profiler").
///
/// Several collectives in one kernel are one event with the sum of their bytes.
/// States, channels and proxies' records are ignored and counted.
const TraceReader& nccl_profiler_reader();

}  // namespace reprise

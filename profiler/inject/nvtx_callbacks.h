// NVTX ranges and marks as records, without CUPTI: push/pop ranges of each
// thread, start/end ranges of the process, in all domains.
#pragma once

#include "profiler/inject/nvtx_types.h"

namespace reprise::nvtx {

/// Puts our functions into the tables of one NVTX instance (each shared object
/// of a process may have its own). False when it has no tables.
bool install(GetExportTable get_export_table);

}  // namespace reprise::nvtx

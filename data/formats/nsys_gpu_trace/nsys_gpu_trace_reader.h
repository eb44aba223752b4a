// The table of device work that `nsys stats --report cuda_gpu_trace --format
// csv` writes: often all that is left of a profile of Nsight Systems.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "nsys-gpu-trace". A rank is a device (of several its ordinal, one alone
/// does not say which); its streams are those of the table. Kernels of NCCL's
/// become collectives as far as their names tell. Times are ns since the
/// capture's start; sizes of copies are MB (10^6 bytes) with three decimals in
/// the table, so that they are right to 500 bytes. Source: Nsight Systems user
/// guide, "cuda_gpu_trace" under "Report scripts"; headers of versions 2022 to
/// 2026.
const TraceReader& nsys_gpu_trace_reader();

}  // namespace reprise

// XLA's profiles (`*.xplane.pb` of JAX, TensorFlow and PyTorch/XLA), of GPUs
// and TPUs.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "xplane". A rank is a device that ran kernels; its number is not in
/// the file. Modules of the trace are the programs in the file.
const TraceReader& xplane_reader();

}  // namespace reprise

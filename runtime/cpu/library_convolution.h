// Convolutions by oneDNN.
#pragma once

#include <memory>

#include "runtime/cpu/convolution_geometry.h"
#include "runtime/cpu/routine.h"

namespace reprise {

/// A convolution bound to its memory as a primitive of oneDNN's; null where
/// oneDNN has none for it, or only one that it runs for want of a better.
/// Requires: the geometry is that of `call`.
std::unique_ptr<Routine> make_library_convolution(
    const RoutineCall& call, const ConvolutionGeometry& geometry);

}  // namespace reprise

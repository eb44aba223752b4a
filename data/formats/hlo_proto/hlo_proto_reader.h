// HLO protos as inputs of an import: `*.hlo.pb` of XLA's dumps and of nsys-jax.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "hlo-proto". Adds no event but a module, named after the file without
/// its ending: a dump holds one program before and after optimizations.
const TraceReader& hlo_proto_reader();

}  // namespace reprise

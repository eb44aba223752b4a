// A first manifest for a program of the user's own: what aliasing and shapes
// tell, with placeholders for the rest.
#pragma once

#include <string>

#include "data/hlo/module.h"
#include "data/manifest/manifest.h"

namespace reprise {

/// All that take part in any collective; `{}` means all of the header. 1
/// without collectives.
int64_t ranks_of(const Module& module);

/// Roles by aliasing (an output that aliases a parameter is its next value;
/// without any aliases, leading outputs shaped like leading parameters are),
/// floating scalars among the other outputs as the loss, other parameters as
/// batch; ranks by the replica groups (`{}` by the header); uniform initial
/// values scaled by 1/sqrt(fan-in) for matrices, zeros for the rest; `program`
/// is the file's name. Dataset fields follow one another in a record of
/// placeholder file `FILL_IN`.
Manifest infer_manifest(const Module& module, const std::string& program);

/// The JSON of a manifest (schema reprise.manifest/1); parse_manifest reads it
/// back.
std::string manifest_text(const Manifest& manifest);

}  // namespace reprise

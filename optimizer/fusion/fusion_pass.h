// Operator fusion as a pass: settled once, before everything else, by the
// prices of fused units, which it may have measured.
#pragma once

#include "optimizer/search/pass.h"

namespace reprise {

PassEntry fusion_pass();

}  // namespace reprise

// Recomputation as a pass: what is cheap to compute twice is not kept from one
// reader to a late one, as long as memory gets less and the step no longer.
#pragma once

#include "optimizer/search/pass.h"

namespace reprise {

PassEntry recompute_pass();

}  // namespace reprise

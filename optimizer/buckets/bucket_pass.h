// Tensor fusion as a pass: buckets by the exact dynamic program on the replayed
// timeline, then local search on their borders.
#pragma once

#include "optimizer/search/pass.h"

namespace reprise {

PassEntry bucket_pass();

}  // namespace reprise

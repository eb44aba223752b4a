// The passes of the optimizer, in the order in which they settle and take
// turns. A new pass adds its line in passes.cc and its folder to
// optimizer/CMakeLists.txt.
#pragma once

#include <string>
#include <vector>

#include "optimizer/search/pass.h"

namespace reprise {

const std::vector<PassEntry>& registered_passes();

/// "fusion,buckets,order".
std::string pass_names();

}  // namespace reprise

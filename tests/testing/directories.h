// Where a test finds the checkout and the build it belongs to.
#pragma once

#include <string>

namespace reprise {

/// The checkout, absolute: source_directory() + "/data/programs/mlp.2.hlo".
std::string source_directory();

/// Real traces and HLO beside the checkout, read in place, absolute. Users do
/// not have them: who reads them skips.
std::string shared_directory();

/// The build folder, absolute.
std::string build_directory();

}  // namespace reprise

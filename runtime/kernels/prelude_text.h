// The texts of prelude.inc, prelude_functions.inc and
// prelude_functions_f64.inc, turned into a string by CMake.
#pragma once

#include <string_view>

namespace reprise {

extern const std::string_view kPreludeText;
/// The text of print_cuda_prelude.inc.
extern const std::string_view kCudaPreludeText;

}  // namespace reprise

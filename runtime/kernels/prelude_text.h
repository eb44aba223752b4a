// The text of prelude.inc, turned into a string by CMake.
#pragma once

#include <string_view>

namespace reprise {

extern const std::string_view kPreludeText;

}  // namespace reprise

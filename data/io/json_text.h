// JSON scalars as text, for writers that stream (nlohmann-json is 20 times
// slower).
#pragma once

#include <string>
#include <string_view>

namespace reprise {

/// Returns `text` quoted and escaped; bytes that are no UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);

/// Returns the shortest text that reads back as `value`; null for what JSON
/// lacks.
std::string json_number(double value);

}  // namespace reprise

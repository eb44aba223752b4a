// What readers look for in the first bytes of an input.
#pragma once

#include <string_view>

#include "data/io/json_scan.h"

namespace reprise {

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The text behind the blanks that it begins with.
inline std::string_view without_blanks(std::string_view text) {
  return text.substr(skip_json_space(text, 0));
}

/// The text behind a byte order mark of UTF-8.
inline std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size())
                                          : text;
}

}  // namespace reprise

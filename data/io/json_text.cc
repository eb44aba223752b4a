#include "data/io/json_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "data/io/utf8.h"

namespace reprise {
namespace {

/// As it is, unescaped.
bool stands_in_json(char c) {
  return is_shown_ascii(c) && c != '"' && c != '\\';
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const auto* const end =
        std::find_if_not(text.begin(), text.end(), stands_in_json);
    quoted.append(text.begin(), end);
    text.remove_prefix(static_cast<size_t>(end - text.begin()));
    if (text.empty()) break;
    const char front = text.front();
    const size_t count = utf8_bytes(text);
    if (count == 0) {
      quoted += "\\ufffd";
    } else if (front == '"' || front == '\\') {
      quoted += '\\';
      quoted += front;
    } else if (is_unprintable(text)) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const uint32_t code = code_point(text);  // At most U+2069.
      quoted += "\\u";
      for (const int shift : {12, 8, 4, 0})
        quoted += kDigits[code >> shift & 0x0f];
    } else {
      quoted += text.substr(0, count);
    }
    text.remove_prefix(count == 0 ? 1 : count);
  }
  return quoted + '"';
}

}  // namespace reprise

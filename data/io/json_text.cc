#include "data/io/json_text.h"

#include <cstddef>
#include <cstdint>

namespace reprise {
namespace {

/// Bytes of the UTF-8 character at the front, 0 if there is none.
size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t count = lead >= 0xc2 && lead < 0xe0   ? 2
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xf0 && lead < 0xf5 ? 4
                                                     : 0;
  if (count == 0 || text.size() < count) return 0;
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies above U+10FFFF.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
      (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return count;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const char front = text.front();
    const size_t count = utf8_bytes(text);
    if (count == 0) {
      quoted += "\\ufffd";
    } else if (front == '"' || front == '\\') {
      quoted += '\\';
      quoted += front;
    } else if (static_cast<uint8_t>(front) < 0x20 || front == 0x7f) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      quoted += "\\u00";
      quoted += kDigits[static_cast<uint8_t>(front) >> 4];
      quoted += kDigits[static_cast<uint8_t>(front) & 0x0f];
    } else {
      quoted += text.substr(0, count);
    }
    text.remove_prefix(count == 0 ? 1 : count);
  }
  return quoted + '"';
}

}  // namespace reprise

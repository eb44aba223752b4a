#include "data/io/utf8.h"

namespace reprise {
namespace {

uint8_t lead_byte(char c) { return static_cast<uint8_t>(c); }

}  // namespace

size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return lead_byte(text[i]); };
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

uint32_t code_point(std::string_view text) {
  const size_t count = utf8_bytes(text);
  if (count == 1) return lead_byte(text[0]);
  uint32_t code = lead_byte(text[0]) & (0xffu >> (count + 1));
  for (size_t i = 1; i < count; ++i)
    code = code << 6 | (lead_byte(text[i]) & 0x3fu);
  return code;
}

bool is_unprintable(std::string_view text) {
  const uint8_t lead = lead_byte(text[0]);
  if (lead < 0x80) return lead < 0x20 || lead == 0x7f;
  if (lead != 0xc2 && lead != 0xd8 && lead != 0xe2) return false;
  const uint32_t code = code_point(text);
  return (code >= 0x80 && code < 0xa0) || code == 0x61c || code == 0x200e ||
         code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace reprise

// Characters of UTF-8 text, one at a time. Needs libc alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise {

/// Bytes of the UTF-8 character at the front of `text`, which is not empty; 0
/// if there is none.
size_t utf8_bytes(std::string_view text);

/// Whether it is a character of ASCII that shows (U+0020 to U+007E), as most of
/// all names.
constexpr bool is_shown_ascii(char c) { return c >= 0x20 && c < 0x7f; }

/// Whether the character at the front acts on what shows it: control characters
/// (C0, DEL, C1), line and paragraph separators, and marks that reorder text
/// (bidirectional embeddings, overrides, isolates; Unicode 15, UAX #9).
/// Requires: there is a character at the front.
bool is_unprintable(std::string_view text);

/// The character at the front. Requires: there is one.
uint32_t code_point(std::string_view text);

}  // namespace reprise

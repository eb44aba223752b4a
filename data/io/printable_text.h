// Text of strangers (names in traces and programs) as it may stand on a
// terminal and in a spreadsheet: nothing in it moves a cursor, reorders what
// follows, or is computed.
#pragma once

#include <string>
#include <string_view>

namespace reprise {

/// Returns `text` with control characters (C0, DEL, C1), line and paragraph
/// separators and the marks that reorder text (bidirectional embeddings,
/// overrides, isolates) as escapes like \x1b or \u202e, and bytes that are no
/// UTF-8 as \xNN.
std::string printable_text(std::string_view text);

/// The same line by line: newlines stay.
std::string printable_lines(std::string_view text);

/// JSON, whose strings alone can hold such characters, with them as \uNNNN.
std::string printable_json(std::string_view json);

/// A field of CSV: printable, with lines and tabs as they are, quoted where RFC
/// 4180 wants it, and behind a quote mark where a spreadsheet would take it for
/// a formula (it begins with = + - @ or a tab, and is no number).
std::string csv_field(std::string_view text);

}  // namespace reprise

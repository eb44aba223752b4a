// JSON as profilers really write it, read without a tree: objects and arrays
// are walked in place, nothing recurses, and the usual defects (unescaped
// quotes, stray commas, control characters, words that are no JSON such as inf
// or N/A) cost nothing but themselves. On well-formed text it sees what any
// JSON parser sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

/// What was wrong and could be read all the same; bits of a set.
enum JsonDefect : uint8_t {
  kUnescapedQuote = 1,
  kControlCharacter = 2,
  kStrayComma = 4,
  kBareWord = 8,  ///< A value that is no JSON.
};

constexpr size_t kNoEnd = std::string_view::npos;

inline bool is_json_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

inline size_t skip_json_space(std::string_view text, size_t at) {
  while (at < text.size() && is_json_space(text[at])) ++at;
  return at;
}

/// Returns the place after the value (of any kind) that starts at `at`, or
/// kNoEnd if `text` ends before. `complete` says that nothing follows `text`.
/// A quote ends a string only where an end can be: before ':', '}', ']' or a
/// comma and another value. Cost: linear, whatever the nesting.
size_t end_of_json_value(std::string_view text, size_t at, bool complete,
                         uint8_t& defects);

/// Walks the members of an object or the elements of an array.
///
///   JsonScanner scanner(text);
///   while (scanner.next()) use(scanner.key(), scanner.value());
class JsonScanner {
 public:
  /// `text` starts with '{' or '['; otherwise there is nothing to walk.
  explicit JsonScanner(std::string_view text);

  /// False at the end, and where nothing more can be made out.
  bool next();
  /// As it stands between its quotes; empty in an array.
  std::string_view key() const { return key_; }
  /// As it stands, quotes included, without space around it.
  std::string_view value() const { return value_; }

  uint8_t defects() const { return defects_; }
  /// Whether it ended otherwise than by the closing bracket.
  bool broken() const { return broken_; }

 private:
  bool stop();
  bool read_key();

  std::string_view text_;
  size_t at_ = 1;
  char close_ = 0;
  bool first_ = true, broken_ = false;
  std::string_view key_, value_;
  uint8_t defects_ = 0;
};

/// Returns the text that a JSON string (quotes included) stands for, as UTF-8:
/// escapes resolved, bytes that are no UTF-8 replaced by U+FFFD. Any other
/// value comes back as it is.
std::string json_unescaped(std::string_view value);

}  // namespace reprise

// A cursor over HLO text: skips white space and comments, reads names,
// integers, strings and balanced raw text, and remembers the first error with
// its place. Scannerless, since what a character means depends on the grammar
// around it (`{` opens a layout, a body, a list). Reading functions return
// false on error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "data/result.h"

namespace reprise {

class HloLexer {
 public:
  HloLexer(std::string_view text, std::string_view file)
      : text_(text), file_(file) {}

  /// Skips spaces, `/* … */` and `// …`; an unclosed comment is an error at its
  /// use.
  void skip_space();
  /// Next character, '\0' at the end. Does not skip white space.
  char peek(size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  bool at_end() const { return position_ >= text_.size(); }
  size_t position() const { return position_; }
  void set_position(size_t position) { position_ = position; }
  void advance(size_t count) { position_ += count; }
  std::string_view text_between(size_t begin, size_t end) const {
    return text_.substr(begin, end - begin);
  }

  /// Skips white space, then takes `token` if it is there.
  bool take(std::string_view token);
  /// The same, or fails with "expected `token` …".
  bool expect(std::string_view token, std::string_view where);
  /// A name of instruction, computation, opcode or attribute:
  /// `[A-Za-z0-9_.\-/]+`, a leading `%` dropped. Empty when there is none.
  std::string_view name();
  bool expect_name(std::string_view what, std::string_view* out);
  bool expect_integer(std::string_view what, int64_t* out);
  /// Text up to, not including, a character of `stops` outside of brackets and
  /// strings; stops at the closing bracket of the enclosing level, too.
  bool raw_until(std::string_view stops, std::string_view what,
                 std::string_view* out);
  /// What stands at the cursor, for messages: "`name`", "`{`" or "end of text".
  std::string found() const;

  /// Records `file:line:column: message` unless an error stands already; always
  /// false.
  bool error(ErrorKind kind, size_t position, std::string message);
  bool error(std::string message) {
    return error(ErrorKind::kParse, position_, std::move(message));
  }
  Error take_error() { return std::move(error_); }

 private:
  bool skip_string();

  std::string_view text_;
  std::string_view file_;
  size_t position_ = 0;
  bool failed_ = false;
  Error error_;
};

}  // namespace reprise

// A cursor over the compact text of one attribute that the parser left raw.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

class AttributeReader {
 public:
  explicit AttributeReader(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  bool integer(int64_t* out) {
    skip();
    const char* end = text_.data() + text_.size();
    const auto parsed = std::from_chars(text_.data() + at_, end, *out);
    if (parsed.ec != std::errc()) return false;
    at_ = static_cast<size_t>(parsed.ptr - text_.data());
    return true;
  }
  /// Integers apart by commas between `open` and `close`.
  bool list(char open, char close, std::vector<int64_t>* out) {
    if (!take(open)) return false;
    if (take(close)) return true;
    do {
      if (!integer(&out->emplace_back())) return false;
    } while (take(','));
    return take(close);
  }
  /// What stands between two of `mark`.
  bool quoted(char mark, std::string_view* out) {
    if (!take(mark)) return false;
    const size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) return false;
    *out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }
  bool at_end() {
    skip();
    return at_ >= text_.size();
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (text_.substr(at_, 2) != "/*") return;
    const size_t end = text_.find("*/", at_);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
    skip();
  }

  std::string_view text_;
  size_t at_ = 0;
};

/// The text of an attribute that is kept raw; "" without one.
inline std::string_view raw_text(const Instruction& instruction,
                                 std::string_view name) {
  const Attribute* found = instruction.find_attribute(name);
  if (found == nullptr) return {};
  const auto* raw = std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string_view() : std::string_view(raw->text);
}

inline tl::unexpected<Error> malformed(const Instruction& instruction,
                                       std::string_view name) {
  return fail(ErrorKind::kInvalid,
              "instruction `{}`: attribute {}={} is malformed",
              instruction.name, name, raw_text(instruction, name));
}

}  // namespace reprise

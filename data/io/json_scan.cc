// A quote that a writer forgot to escape looks like the end of its string. So a
// quote ends a string only where what follows it fits: a colon, a closing
// bracket, or a comma and another value; else it belongs to the text and counts
// as a defect. Plain text, most of a file, is passed over eight bytes at a
// time: the bytes of a word that lie below n show in the borrows of a
// subtraction. Cost: linear.
#include "data/io/json_scan.h"

#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace reprise {
namespace {

/// Whether a value can start here; a word only if writers use it for one.
bool starts_value(std::string_view text) {
  if (text.empty()) return true;
  const char c = text[0];
  if (c == '"' || c == '{' || c == '[' || c == '-') return true;
  if (c >= '0' && c <= '9') return true;
  for (const std::string_view word :
       {"true", "false", "null", "nan", "NaN", "inf", "Inf", "N/A"}) {
    if (text.starts_with(word)) return true;
  }
  return false;
}

enum class Quote : uint8_t { kEnds, kInside, kUnknown };

/// What the quote before `at` is, by what follows it.
Quote judge_quote(std::string_view text, size_t at, bool complete) {
  constexpr size_t kLongestWord = 5;
  const size_t next = skip_json_space(text, at);
  if (next == text.size()) return complete ? Quote::kEnds : Quote::kUnknown;
  const char c = text[next];
  if (c == ':' || c == '}' || c == ']') return Quote::kEnds;
  if (c != ',') return Quote::kInside;
  const size_t after = skip_json_space(text, next + 1);
  if (!complete && after + kLongestWord > text.size()) return Quote::kUnknown;
  const bool ends = after == text.size() || text[after] == ',' ||
                    text[after] == '}' || text[after] == ']' ||
                    starts_value(text.substr(after));
  return ends ? Quote::kEnds : Quote::kInside;
}

/// Each byte of the result the same.
constexpr uint64_t all_bytes(uint8_t byte) {
  return uint64_t{0x0101010101010101} * byte;
}

/// Bit 7 of each byte below `limit` (<= 0x80); above the first such byte others
/// may be marked too.
constexpr uint64_t bytes_below(uint64_t bytes, uint8_t limit) {
  return (bytes - all_bytes(limit)) & ~bytes & all_bytes(0x80);
}

/// Passes over bytes that are neither quote, backslash nor control character,
/// eight at a time; what it returns need not be such a byte near the end.
size_t skip_plain_text(std::string_view text, size_t at) {
  uint64_t bytes = 0;
  for (; at + sizeof bytes <= text.size(); at += sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    const uint64_t found = bytes_below(bytes, 0x20) |
                           bytes_below(bytes ^ all_bytes('"'), 1) |
                           bytes_below(bytes ^ all_bytes('\\'), 1);
    if (found != 0) {
      return at + static_cast<size_t>(std::countr_zero(found)) / 8;
    }
  }
  return at;
}

size_t end_of_string(std::string_view text, size_t at, bool complete,
                     uint8_t& defects) {
  for (at = skip_plain_text(text, at + 1); at < text.size();
       at = skip_plain_text(text, at + 1)) {
    const char c = text[at];
    if (c == '\\') {
      ++at;
    } else if (c == '"') {
      switch (judge_quote(text, at + 1, complete)) {
        case Quote::kEnds:
          return at + 1;
        case Quote::kUnknown:
          return kNoEnd;
        case Quote::kInside:
          defects |= kUnescapedQuote;
      }
    } else if (static_cast<unsigned char>(c) < 0x20) {
      defects |= kControlCharacter;
    }
  }
  return kNoEnd;
}

constexpr auto kBracketOrQuote = [] {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']'}) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}();

size_t end_of_container(std::string_view text, size_t at, bool complete,
                        uint8_t& defects) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (!kBracketOrQuote[static_cast<unsigned char>(c)]) {
      ++at;
      continue;
    }
    if (c == '"') {
      at = end_of_string(text, at, complete, defects);
      if (at == kNoEnd) return kNoEnd;
      continue;
    }
    ++at;
    depth += c == '{' || c == '[' ? 1 : static_cast<size_t>(-1);
    if (depth == 0) return at;
  }
  return kNoEnd;
}

bool is_json_word(std::string_view word) {
  if (word == "true" || word == "false" || word == "null") return true;
  const size_t first = !word.empty() && word[0] == '-';
  return word.size() > first && word[first] >= '0' && word[first] <= '9';
}

size_t end_of_word(std::string_view text, size_t at, bool complete,
                   uint8_t& defects) {
  const size_t start = at;
  while (at < text.size() && text[at] != ',' && text[at] != '}' &&
         text[at] != ']' && !is_json_space(text[at])) {
    ++at;
  }
  if (at == text.size() && !complete) return kNoEnd;
  if (!is_json_word(text.substr(start, at - start))) defects |= kBareWord;
  return at;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto byte = [&](uint32_t value) {
    out.push_back(static_cast<char>(value));
  };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

constexpr uint32_t kReplacement = 0xFFFD;

std::optional<uint32_t> four_hex_digits(std::string_view text, size_t at) {
  if (at + 4 > text.size()) return std::nullopt;
  uint32_t value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  return value;
}

/// Appends the \u escape at `at`, a surrogate pair too; returns the place after
/// it, or `at` if it is none.
size_t append_unicode_escape(std::string_view text, size_t at,
                             std::string& out) {
  const std::optional<uint32_t> high = four_hex_digits(text, at + 2);
  if (!high) return at;
  if (*high < 0xD800 || *high > 0xDFFF) {
    append_utf8(out, *high);
    return at + 6;
  }
  const bool pair = *high < 0xDC00 && text.substr(at + 6, 2) == "\\u";
  const std::optional<uint32_t> low =
      pair ? four_hex_digits(text, at + 8) : std::nullopt;
  if (!low || *low < 0xDC00 || *low > 0xDFFF) {
    append_utf8(out, kReplacement);
    return at + 6;
  }
  append_utf8(out, 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00));
  return at + 12;
}

/// Appends the escape at `at` and returns the place after it; a malformed one
/// stands for itself.
size_t append_escape(std::string_view text, size_t at, std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt",
                             kMeanings = "\"\\/\b\f\n\r\t";
  const char letter = at + 1 < text.size() ? text[at + 1] : '\0';
  if (letter == 'u') {
    const size_t next = append_unicode_escape(text, at, out);
    if (next != at) return next;
  } else if (const size_t place = kLetters.find(letter);
             letter != 0 && place != kLetters.npos) {
    out.push_back(kMeanings[place]);
    return at + 2;
  }
  out.push_back('\\');
  return at + 1;
}

/// How many bytes the UTF-8 character at `at` has; 0 if there is none.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first < 0xE0   ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond Unicode.
  const unsigned second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

size_t end_of_json_value(std::string_view text, size_t at, bool complete,
                         uint8_t& defects) {
  if (at >= text.size()) return kNoEnd;
  switch (text[at]) {
    case '"':
      return end_of_string(text, at, complete, defects);
    case '{':
    case '[':
      return end_of_container(text, at, complete, defects);
    default:
      return end_of_word(text, at, complete, defects);
  }
}

JsonScanner::JsonScanner(std::string_view text) : text_(text) {
  if (!text.empty() && text[0] == '{') close_ = '}';
  if (!text.empty() && text[0] == '[') close_ = ']';
  if (close_ == 0) at_ = text.size();
}

bool JsonScanner::stop() {
  broken_ = true;
  at_ = text_.size();
  return false;
}

bool JsonScanner::read_key() {
  if (text_[at_] != '"') return stop();
  const size_t end = end_of_string(text_, at_, true, defects_);
  if (end == kNoEnd) return stop();
  key_ = text_.substr(at_ + 1, end - at_ - 2);
  at_ = skip_json_space(text_, end);
  if (at_ == text_.size() || text_[at_] != ':') return stop();
  at_ = skip_json_space(text_, at_ + 1);
  return true;
}

bool JsonScanner::next() {
  if (close_ == 0) return false;
  size_t commas = 0;
  for (at_ = skip_json_space(text_, at_);
       at_ < text_.size() && text_[at_] == ',';
       at_ = skip_json_space(text_, at_ + 1)) {
    ++commas;
  }
  if (at_ == text_.size()) return stop();
  const bool closes = text_[at_] == close_;
  if (commas > (first_ || closes ? 0U : 1U)) defects_ |= kStrayComma;
  if (closes) {
    at_ = text_.size();
    close_ = 0;
    return false;
  }
  first_ = false;
  if (close_ == '}' && !read_key()) return false;
  const size_t end = end_of_json_value(text_, at_, true, defects_);
  if (end == kNoEnd || end == at_) return stop();
  value_ = text_.substr(at_, end - at_);
  at_ = end;
  return true;
}

std::string json_unescaped(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') {
    return std::string(value);
  }
  value = value.substr(1, value.size() - 2);
  std::string out;
  out.reserve(value.size());
  for (size_t at = 0; at < value.size();) {
    if (value[at] == '\\') {
      at = append_escape(value, at, out);
      continue;
    }
    const size_t length = utf8_length(value, at);
    if (length == 0) {
      append_utf8(out, kReplacement);
      ++at;
    } else {
      out.append(value, at, length);
      at += length;
    }
  }
  return out;
}

}  // namespace reprise

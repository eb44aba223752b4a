// Errors keep the first place only, as line and column, and cut long
// quotations: shapes of thousands of arrays say no more than their beginning.
// One pass, no copies.
#include "data/hlo/hlo_lexer.h"

#include <algorithm>
#include <charconv>

namespace reprise {
namespace {

constexpr size_t kMaxNesting = 1000;
constexpr size_t kMaxQuoted = 40;
/// Shapes of thousands of arrays say no more than their beginning.
constexpr size_t kMaxMessage = 600;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

char closing_of(char open) {
  return open == '(' ? ')' : open == '[' ? ']' : '}';
}

}  // namespace

void HloLexer::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else if (c == '/' && peek(1) == '*') {
      const size_t end = text_.find("*/", position_ + 2);
      position_ = end == std::string_view::npos ? text_.size() : end + 2;
    } else if (c == '/' && peek(1) == '/') {
      const size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? text_.size() : end;
    } else {
      return;
    }
  }
}

bool HloLexer::take(std::string_view token) {
  skip_space();
  if (text_.substr(position_, token.size()) != token) return false;
  position_ += token.size();
  return true;
}

bool HloLexer::expect(std::string_view token, std::string_view where) {
  if (take(token)) return true;
  return error(
      fmt::format("expected `{}` {}, found {}", token, where, found()));
}

std::string_view HloLexer::name() {
  skip_space();
  size_t begin = position_;
  size_t at = begin;
  if (at < text_.size() && text_[at] == '%') begin = ++at;
  while (at < text_.size()) {
    const bool path_slash = text_[at] == '/' && at > begin &&
                            at + 1 < text_.size() &&
                            is_name_character(text_[at + 1]);
    if (!is_name_character(text_[at]) && !path_slash) break;
    // `->` ends a name: `x->f32[]`.
    if (text_[at] == '-' && at + 1 < text_.size() && text_[at + 1] == '>')
      break;
    ++at;
  }
  if (at == begin) return {};
  position_ = at;
  return text_.substr(begin, at - begin);
}

bool HloLexer::expect_name(std::string_view what, std::string_view* out) {
  *out = name();
  if (!out->empty()) return true;
  return error(fmt::format("expected {}, found {}", what, found()));
}

bool HloLexer::expect_integer(std::string_view what, int64_t* out) {
  skip_space();
  const char* end = text_.data() + text_.size();
  const auto parsed = std::from_chars(text_.data() + position_, end, *out);
  if (parsed.ec == std::errc::result_out_of_range) {
    return error(fmt::format("{} does not fit in 64 bits", what));
  }
  if (parsed.ec != std::errc()) {
    return error(
        fmt::format("expected {} (an integer), found {}", what, found()));
  }
  position_ = static_cast<size_t>(parsed.ptr - text_.data());
  return true;
}

bool HloLexer::skip_string() {
  const size_t begin = position_++;
  while (position_ < text_.size() && text_[position_] != '"') {
    position_ += text_[position_] == '\\' ? 2 : 1;
  }
  if (position_ >= text_.size()) {
    position_ = text_.size();
    return error(ErrorKind::kParse, begin,
                 "string is not closed before the end of text");
  }
  ++position_;
  return true;
}

bool HloLexer::raw_until(std::string_view stops, std::string_view what,
                         std::string_view* out) {
  constexpr std::string_view kOpening = "([{", kClosing = ")]}";
  skip_space();
  const size_t begin = position_;
  std::string closers;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (closers.empty() && (stops.find(c) != std::string_view::npos)) break;
    if (c == '"') {
      if (!skip_string()) return false;
      continue;
    }
    if (c == '/' && peek(1) == '*') {
      skip_space();
      continue;
    }
    if (kOpening.find(c) != std::string_view::npos) {
      if (closers.size() >= kMaxNesting) {
        return error(
            fmt::format("{} nests deeper than {} brackets", what, kMaxNesting));
      }
      closers.push_back(closing_of(c));
    } else if (kClosing.find(c) != std::string_view::npos) {
      if (closers.empty()) break;
      if (closers.back() != c) {
        return error(fmt::format("expected `{}` in {}, found `{}`",
                                 closers.back(), what, c));
      }
      closers.pop_back();
    }
    ++position_;
  }
  if (!closers.empty()) {
    return error(ErrorKind::kParse, position_,
                 fmt::format("expected `{}` in {}, found end of text",
                             closers.back(), what));
  }
  *out = text_.substr(begin, position_ - begin);
  return true;
}

std::string HloLexer::found() const {
  if (at_end()) return "end of text";
  size_t end = position_;
  while (end < text_.size() && is_name_character(text_[end]) &&
         end - position_ < kMaxQuoted)
    ++end;
  if (end == position_) ++end;
  std::string shown;
  for (const char c : text_.substr(position_, end - position_)) {
    shown.push_back(c >= ' ' && c < '\x7f' ? c : '?');
  }
  return fmt::format("`{}`", shown);
}

bool HloLexer::error(ErrorKind kind, size_t position, std::string message) {
  if (failed_) return false;
  failed_ = true;
  if (message.size() > kMaxMessage) {
    size_t end = kMaxMessage;
    while (end > 0 && (message[end] & 0xC0) == 0x80) --end;
    message.replace(end, std::string::npos, "…");
  }
  const std::string_view before =
      text_.substr(0, std::min(position, text_.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  error_ = {kind, fmt::format("{}:{}:{}: {}", file_, lines + 1,
                              before.size() - line_start + 1, message)};
  return false;
}

}  // namespace reprise

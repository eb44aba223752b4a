#include "data/io/csv.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr size_t kLongestRow = size_t{1} << 20;
constexpr int kEnd = -1;

}  // namespace

/// The next byte, or kEnd.
Result<int> CsvRows::next_byte() {
  if (at_ == buffer_.size()) {
    buffer_.resize(kBufferBytes);
    const Result<size_t> got = source_.read(buffer_);
    buffer_.resize(got ? *got : 0);
    at_ = 0;
    if (!got) return pass(got.error());
    if (buffer_.empty()) return kEnd;
  }
  return static_cast<unsigned char>(buffer_[at_++]);
}

Result<bool> CsvRows::next() {
  while (true) {
    const int64_t before = too_long_;
    const Result<bool> read = read_row();
    if (!read || !*read || too_long_ == before) return read;
  }
}

Result<bool> CsvRows::read_row() {
  fields_.assign(1, {});
  size_t bytes = 0;
  bool quoted = false, was_quote = false;
  while (true) {
    const Result<int> next = next_byte();
    if (!next) return pass(next.error());
    if (*next == kEnd) {
      cut_ = quoted && !was_quote;
      break;
    }
    const char c = static_cast<char>(*next);
    ++bytes;
    // Two quotes within quotes are one.
    const bool inside = quoted && (!was_quote || c == '"');
    was_quote = inside && !was_quote && c == '"';
    if (!inside) {
      quoted = c == '"';
      if (c == '\n') break;
      if (quoted || c == '\r') continue;
    }
    if (was_quote || bytes > kLongestRow) continue;
    if (!inside && c == ',') {
      fields_.emplace_back();
    } else {
      fields_.back() += c;
    }
  }
  too_long_ += bytes > kLongestRow;
  return bytes > 0;
}

Status find_columns(const std::vector<std::string>& header,
                    std::span<const std::string_view> names,
                    std::span<size_t> places) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(header.begin(), header.end(), names[i]);
    if (found == header.end()) {
      return fail(ErrorKind::kParse, "the first row names no column \"{}\"",
                  names[i]);
    }
    places[i] = static_cast<size_t>(found - header.begin());
  }
  return {};
}

}  // namespace reprise

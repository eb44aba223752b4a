// A state machine over bytes: outside records it follows brackets and the key
// at hand, to know which objects are records; within one it only counts braces
// outside strings. A string that does not end at its line's end is broken, and
// the reader goes on at the next line that starts with a brace, so that one bad
// record loses itself alone. Cost: linear, one buffer.
#include "data/formats/json_objects.h"

#include <algorithm>

namespace reprise {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kLargestRest = 1 << 20;
constexpr size_t kLongestKey = 64;
/// So many records of one line each at the start: all are.
constexpr int kTelling = 2;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

JsonObjects::JsonObjects(ByteSource& source, std::vector<std::string> arrays)
    : source_(source), arrays_(std::move(arrays)), buffer_(kBufferBytes, 0) {}

Result<bool> JsonObjects::fill() {
  const Result<size_t> read = source_.read(buffer_);
  if (!read) return pass(read.error());
  size_ = *read;
  at_ = 0;
  return size_ > 0;
}

Status JsonObjects::read(FileReport& report, const Take& take) {
  while (true) {
    const Result<const std::string*> record = next();
    if (!record) return pass(record.error());
    if (*record == nullptr) break;
    take(**record);
  }
  report_losses(report);
  return {};
}

/// The next record, valid until the next call; null at the end.
Result<const std::string*> JsonObjects::next() {
  record_.clear();
  while (true) {
    if (at_ == size_) {
      const Result<bool> more = fill();
      if (!more) return pass(more.error());
      if (!*more) {
        truncated_ |= state_ == State::kRecord || in_string_;
        return nullptr;
      }
    }
    if (scan()) return &record_;
  }
}

void JsonObjects::report_losses(FileReport& report) const {
  if (oversized_ > 0) report.dropped["record over 16 MB"] += oversized_;
  if (broken_ > 0) report.dropped["record cut by a line break"] += broken_;
  if (stray_ > 0) report.repaired["stray quote or bracket"] += stray_;
  if (truncated_) ++report.dropped["truncated"];
}

/// Reads on to the end of a record (true) or of the buffer.
bool JsonObjects::scan() {
  while (at_ < size_) {
    if (state_ == State::kRecord) {
      if (scan_record()) return true;
    } else if (scan_outside(buffer_[at_])) {
      open_record();
    } else {
      ++at_;
    }
  }
  return false;
}

/// Whether an object that opens here is a record.
bool JsonObjects::opens_record() const {
  if (arrays_.empty()) return depth_ <= 1;
  return in_array_ && depth_ == 2;
}

/// An object where only a member or nothing may be: a bracket too many stood
/// before it, and the array goes on.
bool JsonObjects::resumes_array() {
  if (arrays_.empty() || !had_array_ || in_array_ || last_ != ',' ||
      depth_ > 1) {
    return false;
  }
  ++stray_;
  in_array_ = true;
  depth_ = 2;
  return true;
}

void JsonObjects::open_record() {
  state_ = State::kRecord;
  record_.clear();
  record_depth_ = 0;
  record_too_large_ = record_has_break_ = false;
  in_string_ = escaped_ = false;
}

void JsonObjects::keep_rest(char c) {
  if (arrays_.empty() || rest_.size() >= kLargestRest) return;
  if (in_array_ && depth_ >= 2) return;
  if (depth_ > 0 || c == '{' || c == '}') rest_ += c;
}

/// One byte of a string outside records.
void JsonObjects::scan_string(char c) {
  keep_rest(c);
  if (escaped_) {
    escaped_ = false;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    in_string_ = false;
    return;
  } else if (c == '\n') {  // No string has a line break: the quote is stray.
    in_string_ = false;
    ++stray_;
    return;
  }
  if (string_.size() < kLongestKey) string_ += c;
}

/// One byte outside records; true if a record opens at it.
bool JsonObjects::scan_outside(char c) {
  if (state_ == State::kResync) {
    if (c == '{' && line_is_blank_) return true;
    line_is_blank_ = c == '\n' || (line_is_blank_ && is_blank(c));
    return false;
  }
  if (in_string_) {
    scan_string(c);
    return false;
  }
  if (c == '{' && (opens_record() || resumes_array())) return true;
  if (!is_blank(c) && c != '\n') last_ = c;
  switch (c) {
    case '"':
      in_string_ = true;
      string_.clear();
      break;
    case ':':
      if (depth_ == 1) key_ = string_;
      break;
    case ']':
    case '}':
      if (in_array_ && depth_ == 2) in_array_ = false;
      if (depth_ > 0) --depth_;
      break;
    case '[':
      in_array_ |= depth_ == 1 && std::find(arrays_.begin(), arrays_.end(),
                                            key_) != arrays_.end();
      had_array_ |= in_array_;
      keep_rest(c);
      ++depth_;
      return false;
    case '{':
      keep_rest(c);
      ++depth_;
      return false;
    default:
      break;
  }
  keep_rest(c);
  return false;
}

/// A string or a line of its own that does not end: all of the record is lost,
/// and the next is looked for at the start of a line.
void JsonObjects::break_record() {
  ++broken_;
  state_ = State::kResync;
  in_string_ = escaped_ = false;
  line_is_blank_ = true;
}

/// Reads on within a record; true when it is complete.
bool JsonObjects::scan_record() {
  const size_t begin = at_;
  bool complete = false, broken = false;
  for (; at_ < size_ && !complete && !broken; ++at_) {
    const char c = buffer_[at_];
    if (in_string_) {
      broken = c == '\n';
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++record_depth_;
    } else if (c == '}' || c == ']') {
      complete = --record_depth_ == 0;
    } else if (c == '\n') {
      record_has_break_ = true;
      broken = lines_;
    }
  }
  if (broken) {
    break_record();
    return false;
  }
  if (record_.size() + (at_ - begin) > kLargestJsonObject) {
    record_too_large_ = true;
    record_.clear();
  }
  if (!record_too_large_) record_.append(buffer_, begin, at_ - begin);
  if (!complete) return false;
  state_ = State::kOutside;
  if (arrays_.empty() && one_line_records_ < kTelling) {
    one_line_records_ =
        record_has_break_ ? kTelling + 1 : one_line_records_ + 1;
    lines_ = one_line_records_ == kTelling;
  }
  if (record_too_large_) {
    ++oversized_;
    return false;
  }
  return true;
}

}  // namespace reprise

// Where one event ends and the next begins is learnt from the file. After the
// first whole event the text between it and the next ("},\n  {") is taken for
// the writer's own border, if it is text that no JSON string can hold (a line
// break, or an unescaped quote). A block then goes up to the last border in the
// buffer, found by one search from behind; nothing in between is looked at.
// Without a border, or once a block was refused, events are cut one by one by
// their brackets. Cost: linear in the bytes; memory is one block, or one event
// up to kLargestEvent.
#include "data/io/json_events.h"

#include <algorithm>
#include <cstring>

#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Before the first byte: room for the '[' that makes a block an array.
constexpr size_t kFront = 64;
/// Longer text between two events is not taken for the writer's own.
constexpr size_t kLongestBorder = 96;

/// Tracks brackets and strings of text that is thrown away.
class ValueSkipper {
 public:
  /// Returns the place after the value's end, or kNoEnd.
  size_t feed(std::string_view text) {
    for (size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      if (escaped_) {
        escaped_ = false;
      } else if (in_string_) {
        escaped_ = c == '\\';
        in_string_ = c != '"';
      } else if (c == '"') {
        in_string_ = true;
      } else if (c == '{' || c == '[') {
        ++depth_;
      } else if (c == '}' || c == ']') {
        --depth_;
      }
      if (depth_ <= 0 && !in_string_) return at + 1;
    }
    return kNoEnd;
  }

 private:
  int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

/// The bytes before a hole at their end: what a crashed machine leaves of a
/// file, or what was never written. No JSON has one, and it may go on for
/// terabytes that cost no disk.
size_t bytes_before_hole(std::string_view bytes) {
  constexpr size_t kHoleBytes = 4096;
  const size_t kept = bytes.find_last_not_of('\0') + 1;  // npos + 1 is 0.
  return bytes.size() - kept < kHoleBytes ? bytes.size() : kept;
}

}  // namespace

JsonEventStream::JsonEventStream(ByteSource& source, JsonEventOptions options)
    : source_(source),
      options_(options),
      buffer_(kFront + kPadding),
      begin_(kFront),
      end_(kFront) {}

/// Makes rest() hold at least `wanted` bytes unless the source ends before.
Status JsonEventStream::fill(size_t wanted) {
  if (source_ended_ || rest().size() >= wanted) return {};
  const size_t moved = begin_ - kFront;
  if (moved > 0) {
    std::memmove(buffer_.data() + kFront, rest().data(), rest().size());
  }
  begin_ -= moved;
  end_ -= moved;
  singles_until_ -= std::min(singles_until_, moved);
  const size_t room = kFront + wanted + kPadding;
  if (buffer_.size() < room) buffer_.resize(room);
  while (rest().size() < wanted) {
    const Result<size_t> got =
        source_.read({buffer_.data() + end_, buffer_.size() - kPadding - end_});
    if (!got && got.error().kind == ErrorKind::kIo) return pass(got.error());
    if (!got) ++dropped_["the rest of the file: " + got.error().message];
    const size_t count = got.value_or(0);
    const size_t kept = bytes_before_hole({buffer_.data() + end_, count});
    if (kept < count)
      ++dropped_["the rest of the file: nothing but zero bytes"];
    end_ += kept;
    bytes_read_ += static_cast<int64_t>(kept);
    if (count == 0 || kept < count) {
      source_ended_ = true;
      return {};
    }
  }
  return {};
}

/// The place in rest() of the first text at or after `from`, kNoEnd if none.
Result<size_t> JsonEventStream::text_after(size_t from) {
  for (;;) {
    const size_t place = skip_json_space(rest(), from);
    if (place < rest().size()) return place;
    if (source_ended_) return kNoEnd;
    if (from == 0) {
      begin_ = end_;
    } else if (place > kLargestEvent) {
      return kNoEnd;
    }
    const Status filled =
        fill(std::max(rest().size() * 2, options_.block_bytes));
    if (!filled) return pass(filled.error());
  }
}

/// The place in rest() after the value at `from`; kNoEnd if it is cut short or
/// longer than may be.
Result<size_t> JsonEventStream::find_end(size_t from) {
  for (;;) {
    uint8_t defects = 0;
    const size_t end = end_of_json_value(rest(), from, source_ended_, defects);
    if (end != kNoEnd || source_ended_) return end;
    if (rest().size() - from >= kLargestEvent) return kNoEnd;
    const Status filled =
        fill(std::max(rest().size() * 2, options_.block_bytes));
    if (!filled) return pass(filled.error());
  }
}

void JsonEventStream::restore_block() {
  if (block_end_ == 0) return;
  std::memcpy(buffer_.data() + block_end_, patched_ + 1, 2);
  *(const_cast<char*>(text_.data())) = patched_[0];
  block_end_ = 0;
}

Result<JsonEventStream::Piece> JsonEventStream::next() {
  restore_block();
  if (mode_ == Mode::kStart) {
    if (const Status started = start(); !started) return pass(started.error());
  }
  while (mode_ != Mode::kDone) {
    const Result<bool> ready =
        mode_ == Mode::kMembers ? next_member() : next_events();
    if (!ready) return pass(ready.error());
    if (*ready) return piece_;
  }
  return Piece::kEnd;
}

Status JsonEventStream::start() {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (const Status filled = fill(options_.block_bytes); !filled) return filled;
  if (rest().starts_with(kByteOrderMark)) begin_ += kByteOrderMark.size();
  const Result<size_t> first = text_after(0);
  if (!first) return pass(first.error());
  const char c = *first == kNoEnd ? '\0' : rest()[*first];
  if (c != '{' && c != '[') {
    return fail(ErrorKind::kParse,
                "byte {}: neither a JSON object nor an array",
                bytes_read_ - static_cast<int64_t>(rest().size()));
  }
  begin_ += *first + 1;
  bare_array_ = has_events_ = c == '[';
  mode_ = bare_array_ ? Mode::kEvents : Mode::kMembers;
  return {};
}

/// One step through the members around the events; true if a piece is ready.
Result<bool> JsonEventStream::next_member() {
  const Result<size_t> first = text_after(0);
  if (!first) return pass(first.error());
  if (*first == kNoEnd) {
    ++repaired_["object not closed"];
    mode_ = Mode::kDone;
    return false;
  }
  begin_ += *first;
  const char c = rest()[0];
  if (c != '"') {
    ++begin_;
    return c == '}' ? close() : false;
  }
  const Result<size_t> key_end = find_end(0);
  if (!key_end) return pass(key_end.error());
  const Result<size_t> colon =
      *key_end == kNoEnd ? *key_end : text_after(*key_end);
  if (!colon) return pass(colon.error());
  const Result<size_t> value =
      *colon == kNoEnd ? *colon : text_after(*colon + 1);
  if (!value) return pass(value.error());
  if (*value == kNoEnd) {
    ++dropped_["truncated metadata"];
    begin_ = end_;
    return false;
  }
  if (rest()[*colon] != ':') {
    begin_ += *colon;
    return false;
  }
  key_ = json_unescaped(rest().substr(0, *key_end));
  return take_member(*value);
}

Result<bool> JsonEventStream::take_member(size_t value) {
  begin_ += value;
  if (key_ == "traceEvents" && rest()[0] == '[') {
    ++begin_;
    has_events_ = true;
    after_comma_ = after_event_ = false;
    mode_ = Mode::kEvents;
    return false;
  }
  const Result<size_t> end = find_end(0);
  if (!end) return pass(end.error());
  if (*end == kNoEnd) {
    ++dropped_[source_ended_ ? "truncated metadata" : "metadata too long"];
    if (const Status gone = skip_value(); !gone) return pass(gone.error());
    return false;
  }
  text_ = rest().substr(0, *end);
  begin_ += *end;
  piece_ = Piece::kMember;
  return *end > 0;
}

/// One step through the events; true if a piece is ready.
Result<bool> JsonEventStream::next_events() {
  const Result<size_t> first = text_after(0);
  if (!first) return pass(first.error());
  if (*first == kNoEnd) {
    ++repaired_["array not closed"];
    mode_ = Mode::kDone;
    return false;
  }
  begin_ += *first;
  const char c = rest()[0];
  if (c == ',') {
    if (after_comma_ || !after_event_) ++repaired_["stray comma"];
    after_comma_ = true;
    ++begin_;
    return false;
  }
  if (c == ']') {
    const Result<bool> stray = events_go_on();
    if (!stray) return pass(stray.error());
    if (after_comma_) ++repaired_["stray comma"];
    ++begin_;
    if (*stray) {
      ++repaired_["stray bracket"];
      return false;
    }
    if (bare_array_) return close();
    mode_ = Mode::kMembers;
    return false;
  }
  if (c != '{') {
    ++dropped_["not an event"];
    begin_ += std::min(rest().find_first_of("{]"), rest().size());
    return false;
  }
  if (after_event_ && !after_comma_) ++repaired_["missing comma"];
  // Not for every event: each time moves all that is left to the front.
  if (rest().size() < options_.block_bytes / 2) {
    const Status filled = fill(options_.block_bytes);
    if (!filled) return pass(filled.error());
  }
  return take_block() ? Result<bool>(true) : take_event();
}

/// The document is read; a second one, as two traces in one file have, is not.
Result<bool> JsonEventStream::close() {
  mode_ = Mode::kDone;
  const Result<size_t> next = text_after(0);
  if (!next) return pass(next.error());
  if (*next == kNoEnd) return false;
  const char c = rest()[*next];
  if (c == '{' || c == '[')
    ++dropped_["another JSON document behind the first one"];
  return false;
}

/// Whether a comma and an event follow the bracket that starts rest().
Result<bool> JsonEventStream::events_go_on() {
  const Result<size_t> comma = text_after(1);
  if (!comma) return pass(comma.error());
  if (*comma == kNoEnd || rest()[*comma] != ',') return false;
  const Result<size_t> event = text_after(*comma + 1);
  if (!event) return pass(event.error());
  return *event != kNoEnd && rest()[*event] == '{';
}

/// Whether the ']' there ends the events, by what follows it: another may
/// stand in what is left of a broken one.
Result<bool> JsonEventStream::closes_events(size_t bracket) {
  const Result<size_t> next = text_after(bracket + 1);
  if (!next) return pass(next.error());
  if (*next == kNoEnd) return true;
  const char c = rest()[*next];
  if (bare_array_) return c != ',' && c != '{' && c != ']' && c != '}';
  if (c != ',' && c != '}') return false;
  const Result<size_t> after = text_after(*next + 1);
  if (!after) return pass(after.error());
  return *after == kNoEnd || (c == ',' && rest()[*after] == '"');
}

/// Passes over what cannot be an event, to where one or the end may be.
Status JsonEventStream::skip_stray_text() {
  for (size_t at = 1;; ++at) {
    at = std::min(rest().find_first_of("{]", at), rest().size());
    const Result<bool> closes =
        at < rest().size() && rest()[at] == ']' ? closes_events(at) : false;
    if (!closes) return pass(closes.error());
    if (*closes || at == rest().size() || rest()[at] == '{') {
      begin_ += at;
      return {};
    }
  }
}

bool JsonEventStream::take_block() {
  if (!options_.blocks || border_.empty() || begin_ < singles_until_) {
    return false;
  }
  const size_t place = rest().rfind(border_);
  if (place == kNoEnd) {
    singles_until_ = end_;
    if (!source_ended_) border_.clear();
    return false;
  }
  char* const data = buffer_.data();
  block_end_ = begin_ + place + 1;
  patched_[0] = data[begin_ - 1];
  std::memcpy(patched_ + 1, data + block_end_, 2);
  data[begin_ - 1] = '[';
  data[block_end_] = ']';
  data[block_end_ + 1] = '\0';
  text_ = {data + begin_ - 1, block_end_ + 2 - begin_};
  begin_ = block_end_;
  after_comma_ = false;
  after_event_ = true;
  piece_ = Piece::kBlock;
  return true;
}

void JsonEventStream::split_block(size_t offset) {
  singles_until_ = block_end_;
  restore_block();
  begin_ = static_cast<size_t>(text_.data() - buffer_.data()) + offset;
  after_comma_ = true;
}

Result<bool> JsonEventStream::take_event() {
  const size_t border = border_.empty() ? kNoEnd : rest().find(border_);
  const bool bounded = border != kNoEnd;
  const std::string_view text = bounded ? rest().substr(0, border + 1) : rest();
  uint8_t defects = 0;
  const size_t end =
      end_of_json_value(text, 0, bounded || source_ended_, defects);
  if (end != kNoEnd) {
    deliver_event(end);
    return true;
  }
  after_event_ = true;
  after_comma_ = false;
  if (bounded) {
    ++dropped_["malformed event"];
    begin_ += border + 1;
  } else if (source_ended_) {
    ++dropped_["truncated"];
    begin_ = end_;
  } else if (rest().size() < kLargestEvent) {
    after_comma_ = true;  // The same event again.
    const Status filled = fill(rest().size() * 2);
    if (!filled) return pass(filled.error());
  } else {
    ++dropped_["event too long"];
    const Status gone = border_.empty() ? skip_value() : skip_to_border();
    if (!gone) return pass(gone.error());
  }
  return false;
}

void JsonEventStream::deliver_event(size_t size) {
  text_ = rest().substr(0, size);
  if (border_.empty()) learn_border(size);
  begin_ += size;
  after_comma_ = false;
  after_event_ = true;
  piece_ = Piece::kEvent;
}

/// Learns from what stands after the event that ends at `end` of rest(). Text
/// with a line break or an unescaped quote cannot be within a JSON string.
void JsonEventStream::learn_border(size_t end) {
  const std::string_view text = rest().substr(end - 1, kLongestBorder);
  const size_t comma = skip_json_space(text, 1);
  if (comma >= text.size() || text[comma] != ',') return;
  size_t last = skip_json_space(text, comma + 1);
  if (last >= text.size() || text[last] != '{') return;
  if (text.substr(0, last).find('\n') == kNoEnd) {
    last = text.find('"', last);
    if (last != kNoEnd) last = text.find('"', last + 1);
    if (last == kNoEnd) return;
  }
  border_ = text.substr(0, last + 1);
}

/// Throws away the value that starts rest(), without keeping it in memory.
Status JsonEventStream::skip_value() {
  ValueSkipper skipper;
  for (;;) {
    const size_t end = skipper.feed(rest());
    begin_ = end == kNoEnd ? end_ : begin_ + end;
    if (end != kNoEnd || source_ended_) return {};
    if (const Status filled = fill(options_.block_bytes); !filled) {
      return filled;
    }
  }
}

Status JsonEventStream::skip_to_border() {
  for (;;) {
    const size_t place = rest().find(border_);
    if (place != kNoEnd || source_ended_) {
      begin_ = place == kNoEnd ? end_ : begin_ + place + 1;
      return {};
    }
    begin_ = end_ - std::min(border_.size(), rest().size());
    const Status filled = fill(options_.block_bytes);
    if (!filled) return filled;
  }
}

}  // namespace reprise

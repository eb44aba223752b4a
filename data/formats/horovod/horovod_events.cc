#include "data/formats/horovod/horovod_events.h"

#include <utility>

#include "data/io/decimal.h"
#include "data/io/head_text.h"
#include "data/io/json_events.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

void count_defects(uint8_t defects, FileReport& report) {
  if (defects & kUnescapedQuote) ++report.repaired["unescaped quote"];
  if (defects & kControlCharacter) ++report.repaired["control character"];
  if (defects & kStrayComma) ++report.repaired["stray comma"];
  if (defects & kBareWord) ++report.repaired["value that is no JSON"];
}

}  // namespace

Result<bool> read_timeline(ByteSource& source, FileReport& report,
                           const TimelineVisitor& take) {
  JsonEventStream stream(source);
  ChromeEventBlock block;
  for (;;) {
    const Result<JsonEventStream::Piece> piece = stream.next();
    if (!piece) return pass(piece.error());
    if (*piece == JsonEventStream::Piece::kEnd) break;
    if (*piece == JsonEventStream::Piece::kBlock) {
      const size_t rest = block.read(stream.text(), take);
      if (rest != ChromeEventBlock::kAllRead) stream.split_block(rest);
    } else if (*piece == JsonEventStream::Piece::kEvent) {
      ChromeEvent event;
      count_defects(read_chrome_event(stream.text(), event), report);
      take(event);
    }
  }
  report.bytes += stream.bytes_read();
  for (const auto& [reason, count] : stream.dropped()) {
    report.dropped[reason] += count;
  }
  for (const auto& [reason, count] : stream.repaired()) {
    report.repaired[reason] += count;
  }
  return stream.has_events();
}

std::string_view timeline_argument(const ChromeEvent& event,
                                   std::string_view key) {
  JsonScanner arguments(event.arguments);
  while (arguments.next()) {
    if (arguments.key() == key) return arguments.value();
  }
  return {};
}

std::string_view unquoted(std::string_view value) {
  const bool quoted =
      value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

uint32_t add_timeline_rank(TraceSpool& spool, uint32_t rank) {
  RankInfo info;
  info.rank = rank;
  info.clock_domain.clear();
  return spool.add_rank(std::move(info));
}

void refuse_if_empty(const TraceSpool& spool, FileReport& report) {
  if (spool.event_count() > 0) return;
  report.refused = "no event in it is one that a trace keeps";
}

bool starts_as_json(std::string_view head) {
  const std::string_view text = without_blanks(without_mark(head));
  return text.starts_with('[') || text.starts_with('{');
}

bool read_span(const ChromeEvent& event, FileReport& report,
               TimelineSpan& span) {
  const auto start = parse_microseconds(event.start);
  const auto duration = parse_microseconds(event.duration);
  if (!start || !duration || *start > kLargestTimeNs - *duration) {
    ++report.dropped[start ? "no usable duration" : "no usable time"];
    return false;
  }
  if (*duration < 0) {
    ++report.dropped["end before start"];
    return false;
  }
  span = {*start, *start + *duration};
  return true;
}

void count_ignored(const ChromeEvent& event, FileReport& report) {
  switch (event.phase) {
    case 'M':
      ++report.ignored["metadata row"];
      return;
    case 'i':
    case 'I':
      ++report.ignored["instant event"];
      return;
    case 's':
    case 't':
    case 'f':
      ++report.ignored["flow arrow"];
      return;
    case 'C':
      ++report.ignored["counter"];
      return;
    default:
      ++report.dropped["event without a known phase"];
  }
}

int64_t elements_of_shape(std::string_view shape) {
  if (shape.size() < 2) return -1;
  shape = shape.substr(1, shape.size() - 2);
  int64_t elements = 1;
  while (!shape.empty()) {
    const size_t comma = std::min(shape.find(','), shape.size());
    std::string_view one = shape.substr(0, comma);
    shape.remove_prefix(std::min(comma + 1, shape.size()));
    const size_t first = one.find_first_not_of(' ');
    if (first == one.npos) continue;
    one = one.substr(first, one.find_last_not_of(' ') - first + 1);
    const auto size = parse_integer(one);
    if (!size || *size < 0 ||
        __builtin_mul_overflow(elements, *size, &elements)) {
      return -1;
    }
  }
  return elements;
}

}  // namespace reprise

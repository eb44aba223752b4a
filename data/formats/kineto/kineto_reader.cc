#include "data/formats/kineto/kineto_reader.h"

#include <simdjson.h>

#include "data/formats/kineto/kineto_import.h"
#include "data/io/chrome_event.h"
#include "data/io/head_text.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

bool has_any(std::string_view text,
             std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (has(text, part)) return true;
  }
  return false;
}

/// Marks of formats that are Chrome JSON too but have readers of their own.
bool is_another_format(std::string_view head) {
  return has_any(head,
                 {"NEGOTIATE_", "start_time_since_epoch_in_micros", "PUSH_PULL",
                  "byteps", "host0.rank", "\"Comm.", "ncclFloat", "\"nodes\""});
}

/// Marks that only PyTorch's profiler leaves.
bool is_torch(std::string_view head) {
  return has_any(
      head, {"\"schemaVersion\"", "\"deviceProperties\"", "\"distributedInfo\"",
             "\"cpu_op\"", "\"Operator\"", "\"kernel\"", "\"Kernel\"",
             "\"cuda_runtime\"", "\"Runtime\"", "\"user_annotation\"",
             "\"python_function\"", "\"PyTorch Profiler\""});
}

void count_defects(uint8_t defects, std::string_view text, FileReport& report) {
  if (defects & kUnescapedQuote) ++report.repaired["unescaped quote"];
  if (defects & kControlCharacter) ++report.repaired["control character"];
  if (defects & kStrayComma) ++report.repaired["stray comma"];
  if (defects & kBareWord) ++report.repaired["value that is no JSON"];
  if (!simdjson::validate_utf8(text)) ++report.repaired["bytes not UTF-8"];
}

/// Reads one piece of the stream.
void take_piece(JsonEventStream& stream, JsonEventStream::Piece piece,
                ChromeEventBlock& block, KinetoImport& import,
                FileReport& report) {
  switch (piece) {
    case JsonEventStream::Piece::kMember:
      return import.add_member(stream.key(), stream.text());
    case JsonEventStream::Piece::kEvent: {
      ChromeEvent event;
      count_defects(read_chrome_event(stream.text(), event), stream.text(),
                    report);
      return import.add(event);
    }
    case JsonEventStream::Piece::kBlock: {
      const size_t rest = block.read(
          stream.text(), [&](const ChromeEvent& event) { import.add(event); });
      if (rest != ChromeEventBlock::kAllRead) stream.split_block(rest);
      return;
    }
    case JsonEventStream::Piece::kEnd:
      return;
  }
}

}  // namespace

bool KinetoReader::recognizes(const InputFile& input) const {
  const std::string_view head = without_blanks(without_mark(input.head));
  const bool is_object = head.starts_with('{');
  const bool events = is_object ? has(head, "\"traceEvents\"")
                                : head.starts_with('[') && has(head, "\"ph\"");
  if (is_object && !events) {
    // A long list of groups or devices may stand before the events.
    return has_any(head, {"\"deviceProperties\"", "\"distributedInfo\""}) &&
           has(head, "\"schemaVersion\"");
  }
  if (!events) return false;
  if (is_torch(head)) return !has(head, "NEGOTIATE_");
  return !is_another_format(head) && (is_object || has(head, "\"dur\""));
}

Status KinetoReader::read(InputFile& input, TraceSpool& spool,
                          FileReport& report) const {
  JsonEventStream stream(*input.source, options_.events);
  ChromeEventBlock block;
  KinetoImport import(spool, report,
                      {.python_functions = options_.keep_python_functions,
                       .shapes = options_.keep_shapes});
  for (;;) {
    const Result<JsonEventStream::Piece> piece = stream.next();
    if (!piece) return pass(piece.error());
    if (*piece == JsonEventStream::Piece::kEnd) break;
    take_piece(stream, *piece, block, import, report);
  }
  for (const auto& [reason, count] : stream.dropped()) {
    report.dropped[reason] += count;
  }
  for (const auto& [reason, count] : stream.repaired()) {
    report.repaired[reason] += count;
  }
  import.finish(stream.bare_array());
  if (report.events == 0) {
    report.refused = stream.has_events()
                         ? "no event in it is one that a trace keeps"
                         : "it has no traceEvents: record one with "
                           "torch.profiler.profile(), and export_chrome_trace";
  }
  return {};
}

const TraceReader& kineto_reader() {
  static const KinetoReader reader;
  return reader;
}

const TraceReader& kineto_reader_with_shapes() {
  static const KinetoReader reader(
      {.keep_python_functions = true, .keep_shapes = true, .events = {}});
  return reader;
}

}  // namespace reprise

// Fuzzes the readers of traces, shards and event columns; a trace that is
// accepted must also be drawn.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/draw/chrome_export.h"
#include "data/trace/columns.h"
#include "data/trace/trace.h"
#include "profiler/shard.h"

namespace {

/// Behind a file's checksums, where mutations rarely come.
void decode_columns(std::string_view bytes) {
  using reprise::ColumnBytes, reprise::ColumnEncoding, reprise::ColumnSpec,
      reprise::Event;
  for (const auto encoding : {ColumnEncoding::kPlain, ColumnEncoding::kDelta,
                              ColumnEncoding::kRuns}) {
    for (const ColumnSpec<Event>& column : reprise::event_columns()) {
      std::vector<Event> events(reprise::count_values(bytes));
      const ColumnBytes one{encoding, bytes};
      (void)reprise::decode_segment<Event>(
          std::span(&column, 1), std::span(&one, 1), std::span(events));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with("COLUMN")) {
    decode_columns(std::string_view(bytes).substr(6));
    return 0;
  }
  if (bytes.starts_with("RPRSHARD")) {
    (void)reprise::parse_shard(bytes, "fuzzed");
    return 0;
  }
  const reprise::Result<reprise::Trace> trace =
      reprise::parse_trace(std::move(bytes), "fuzzed");
  if (trace) {
    REPRISE_CHECK(!reprise::timeline_of(*trace).json().empty());
  } else {
    REPRISE_CHECK(!trace.error().message.empty());
  }
  return 0;
}

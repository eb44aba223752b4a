// Fuzzes the readers of traces, shards and event columns; a trace that is
// accepted must also be drawn.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/trace/chrome_export.h"
#include "data/trace/columns.h"
#include "data/trace/trace.h"
#include "profiler/shard.h"

namespace {

/// Behind a file's checksums, where mutations rarely come.
void decode_columns(std::string_view bytes) {
  std::vector<reprise::Event> events(reprise::count_values(bytes));
  for (const reprise::ColumnSpec& column : reprise::event_columns()) {
    (void)reprise::decode_column(column, column.encoding, bytes, events);
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

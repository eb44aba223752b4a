// Any bytes to one reader of traces: what it accepts must make a trace, what it
// refuses must say why. REPRISE_READER and REPRISE_READER_HEADER name it.
#include <cstddef>
#include <cstdint>
#include <string>

#include REPRISE_READER_HEADER
#include "data/import/import_report.h"
#include "tests/fuzz/check_trace.h"
#include "tests/testing/read_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise;
  ReadInput input = read_input(
      REPRISE_READER(), {reinterpret_cast<const char*>(data), size}, "fuzzed");
  REPRISE_CHECK(!import_text({&input.report, 1}).empty());
  if (!input.status) {
    REPRISE_CHECK(!input.status.error().message.empty());
    if (input.spool.event_count() == 0) return 0;
  }
  if (input.report.refused.empty()) check_trace(input.gather());
  return 0;
}

#include "tests/fuzz/check_import.h"

#include <utility>

#include "data/import/import_report.h"
#include "tests/fuzz/check_trace.h"
#include "tests/testing/read_input.h"

namespace reprise {

void check_import(const TraceReader& reader, std::string bytes) {
  ReadInput input = read_input(reader, std::move(bytes), "fuzzed");
  REPRISE_CHECK(!import_text({&input.report, 1}).empty());
  if (!input.status) {
    REPRISE_CHECK(!input.status.error().message.empty());
    if (input.spool.event_count() == 0) return;
  }
  if (input.report.refused.empty()) check_trace(input.gather());
}

}  // namespace reprise

#include "data/formats/nccl_profiler/nccl_profiler_reader.h"

#include "data/formats/nccl_profiler/nccl_profiler_import.h"
#include "data/io/head_text.h"

namespace reprise {
namespace {

bool is_lines(std::string_view head) {
  return head.starts_with('{') && has(head, "\"type\"") &&
         (has(head, "\"ProfilerLifecycle\"") ||
          (has(head, "\"recordType\"") && has(head, "ncclProfile")));
}

/// Categories as the plugin writes them; Chrome traces of others have "X".
bool is_events(std::string_view head) {
  if (!head.starts_with('[') && !head.starts_with("{\"name\"")) return false;
  return has(head, "\"ph\": \"b\"") &&
         (has(head, "\"cat\": \"GROUP") || has(head, "\"cat\": \"COLL") ||
          has(head, "\"cat\": \"P2P") || has(head, "\"cat\": \"PROXY\"")) &&
         !has(head, "\"ph\": \"X\"");
}

class NcclProfilerReader final : public TraceReader {
 public:
  std::string_view kind() const override { return "nccl-profiler"; }

  bool recognizes(const InputFile& input) const override {
    const std::string_view head = without_blanks(input.head);
    return is_lines(head) || is_events(head);
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    const bool lines = !is_events(without_blanks(input.head));
    const Status read = lines ? read_nccl_profiler_lines(input, spool, report)
                              : read_nccl_profiler_events(input, spool, report);
    if (!read) return pass(read.error());
    if (spool.event_count() == 0) {
      report.refused = "a record of NCCL's profiler without a readable call";
    }
    return {};
  }
};

}  // namespace

const TraceReader& nccl_profiler_reader() {
  static const NcclProfilerReader reader;
  return reader;
}

}  // namespace reprise

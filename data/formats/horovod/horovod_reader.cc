#include "data/formats/horovod/horovod_reader.h"

#include "data/formats/horovod/horovod_events.h"
#include "data/formats/horovod/horovod_tensors.h"
#include "data/io/head_text.h"

namespace reprise {
namespace {

class HorovodReader final : public TraceReader {
 public:
  std::string_view kind() const override { return "horovod"; }

  bool recognizes(const InputFile& input) const override {
    const std::string_view head = input.head;
    if (!starts_as_json(head) || has(head, "\"deviceProperties\"")) {
      return false;
    }
    return has(head, "\"NEGOTIATE_") ||
           has(head, "start_time_since_epoch_in_micros") ||
           has(head, "\"CYCLE_START\"") || has(head, "\"horovod_allreduce.") ||
           has(head, "\"WAIT_FOR_DATA\"") ||
           has(head, "\"MEMCPY_IN_FUSION_BUFFER\"");
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    // No other rank writes a timeline.
    HorovodTensors tensors(spool, report, add_timeline_rank(spool, 0));
    const Result<bool> read =
        read_timeline(*input.source, report,
                      [&](const ChromeEvent& event) { tensors.take(event); });
    if (!read) return pass(read.error());
    tensors.finish();
    if (tensors.world_size() > 0) {
      spool.set_environment("world_size", std::to_string(tensors.world_size()));
    } else {
      report.missing.push_back(
          "No negotiation says how many ranks there were.");
    }
    report.missing.push_back(
        "A Horovod timeline shows communication alone, of rank 0 alone; "
        "tensors that were fused are one transfer, on the row of the first.");
    refuse_if_empty(spool, report);
    return {};
  }
};

}  // namespace

const TraceReader& horovod_reader() {
  static const HorovodReader reader;
  return reader;
}

}  // namespace reprise

#include "data/formats/horovod_reader.h"

#include "data/formats/horovod_events.h"
#include "data/formats/horovod_tensors.h"

namespace reprise {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

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
    RankInfo rank;
    rank.rank = 0;  // No other rank writes a timeline.
    rank.clock_domain.clear();
    HorovodTensors tensors(spool, report, spool.add_rank(std::move(rank)));
    const Result<bool> read =
        read_timeline(*input.source, report,
                      [&](const KinetoEvent& event) { tensors.take(event); });
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
        "tensors that were fused show the same transfer each.");
    if (spool.event_count() == 0) {
      report.refused = "no event in it is one that a trace keeps";
    }
    return {};
  }
};

}  // namespace

const TraceReader& horovod_reader() {
  static const HorovodReader reader;
  return reader;
}

}  // namespace reprise

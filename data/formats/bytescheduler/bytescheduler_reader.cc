#include "data/formats/bytescheduler/bytescheduler_reader.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/collective/collective_names.h"
#include "data/formats/horovod/horovod_events.h"
#include "data/io/decimal.h"
#include "data/io/head_text.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

constexpr std::string_view kCommunication = "COMMUNICATION", kQueue = "QUEUE";
/// Partitions of one tensor under way at once.
constexpr size_t kMostOpen = 4096;

/// The operation of "PUSH_PULLCOMMUNICATION": what goes to servers and comes
/// back summed is an all-reduce.
CollectiveKind kind_of(std::string_view name) {
  name.remove_suffix(kCommunication.size());
  if (name == "PUSH_PULL") return CollectiveKind::kAllReduce;
  if (name == "PUSH") return CollectiveKind::kSend;
  if (name == "PULL") return CollectiveKind::kReceive;
  return collective_named(name);
}

class Timeline {
 public:
  Timeline(TraceSpool& spool, FileReport& report)
      : spool_(spool),
        report_(report),
        rank_(add_timeline_rank(spool, kUnknownRank)) {}

  void take(const ChromeEvent& event) {
    if (event.phase == 'M') {
      if (event.name == "\"process_name\"") name_tensor(event);
      return count_ignored(event, report_);
    }
    if (event.phase != 'B' && event.phase != 'E') {
      return count_ignored(event, report_);
    }
    const auto time = parse_microseconds(event.start);
    if (!time) {
      ++report_.dropped["no usable time"];
      return;
    }
    key_.assign(event.process);
    Tensor& tensor = tensors_[key_];
    key_.assign(event.name);
    std::vector<int64_t>& open = tensor.open[key_];
    if (event.phase == 'E') return end(tensor, open, event.name, *time);
    if (open.size() < kMostOpen) {
      open.push_back(*time);
    } else {
      ++report_.dropped["too many of one tensor at once"];
    }
  }

  void finish() {
    for (const auto& [process, tensor] : tensors_) {
      for (const auto& [name, open] : tensor.open) {
        if (open.empty()) continue;
        report_.dropped["begin without an end"] +=
            static_cast<int64_t>(open.size());
      }
    }
  }

 private:
  struct Tensor {
    std::string name;
    uint32_t queue = UINT32_MAX, communication = UINT32_MAX;
    /// Starts of what is under way, by name; the first to begin ends first.
    std::map<std::string, std::vector<int64_t>> open;
  };

  void name_tensor(const ChromeEvent& event) {
    Tensor& tensor = tensors_[std::string(event.process)];
    tensor.name = json_unescaped(timeline_argument(event, "name"));
  }

  uint32_t stream(const Tensor& tensor, uint32_t& place, const char* what) {
    if (place == UINT32_MAX) {
      place = spool_.add_stream({.rank = rank_,
                                 .name = tensor.name + what,
                                 .kind = StreamKind::kTensor});
    }
    return place;
  }

  void end(Tensor& tensor, std::vector<int64_t>& open, std::string_view token,
           int64_t end_ns) {
    if (open.empty() || end_ns < open.front()) {
      ++report_
            .dropped[open.empty() ? "end without a begin" : "end before start"];
      if (!open.empty()) open.erase(open.begin());
      return;
    }
    const std::string name = json_unescaped(token);
    Event event;
    event.rank = rank_;
    event.name = spool_.intern(name);
    event.start_ns = event.enqueue_ns = open.front();
    event.end_ns = end_ns;
    open.erase(open.begin());
    if (name.ends_with(kCommunication)) {
      event.stream = stream(tensor, tensor.communication, "");
      // INITCOMMUNICATION sets a tensor up; nobody waits for it in a step.
      const CollectiveKind kind = kind_of(name);
      event.kind = EventKind::kOther;
      if (kind != CollectiveKind::kUnknown) {
        event.kind = EventKind::kCollective;
        // What servers are sent and asked for meets no other rank's.
        event.detail =
            spool_.add_collective({.kind = kind,
                                   .communicator = "bytescheduler",
                                   .group_size = is_message(kind) ? 1 : -1});
        ++report_.collectives;
      }
    } else {
      event.stream = stream(tensor, tensor.queue,
                            name.ends_with(kQueue) ? " queue" : " other");
      event.kind = EventKind::kAnnotation;
    }
    spool_.add(event);
  }

  TraceSpool& spool_;
  FileReport& report_;
  const uint32_t rank_;
  std::map<std::string, Tensor> tensors_;  // By pid.
  std::string key_;
};

class ByteSchedulerReader final : public TraceReader {
 public:
  std::string_view kind() const override { return "bytescheduler"; }

  bool recognizes(const InputFile& input) const override {
    const std::string_view head = input.head;
    return starts_as_json(head) &&
           (has(head, "COMMUNICATION\"") || has(head, "\"PUSH_PULLQUEUE\""));
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    Timeline timeline(spool, report);
    const Result<bool> read =
        read_timeline(*input.source, report,
                      [&](const ChromeEvent& event) { timeline.take(event); });
    if (!read) return pass(read.error());
    timeline.finish();
    report.missing.push_back(
        "A ByteScheduler timeline shows communication alone, without sizes.");
    refuse_if_empty(spool, report);
    return {};
  }
};

}  // namespace

const TraceReader& bytescheduler_reader() {
  static const ByteSchedulerReader reader;
  return reader;
}

}  // namespace reprise

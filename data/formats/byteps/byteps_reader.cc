#include "data/formats/byteps/byteps_reader.h"

#include <map>
#include <string>
#include <utility>

#include "data/formats/horovod/horovod_events.h"
#include "data/formats/spool_tables.h"
#include "data/io/head_text.h"
#include "data/io/json_scan.h"
#include "data/trace/epoch.h"

namespace reprise {
namespace {

struct Stage {
  EventKind kind = EventKind::kAnnotation;
  CollectiveKind collective = CollectiveKind::kUnknown;
};

/// What a partition does, by the last part of its events' names.
Stage stage_of(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (last.starts_with("PUSH"))
    return {EventKind::kCollective, CollectiveKind::kSend};
  if (last.starts_with("PULL"))
    return {EventKind::kCollective, CollectiveKind::kReceive};
  if (last == "BROADCAST")
    return {EventKind::kCollective, CollectiveKind::kBroadcast};
  if (last.ends_with("REDUCE"))
    return {EventKind::kCollective, CollectiveKind::kReduce};
  if (last.starts_with("COPY")) return {EventKind::kCopy};
  const bool works = last.ends_with("COMPRESS");  // DECOMPRESS too.
  return {works ? EventKind::kOther : EventKind::kAnnotation};
}

class Timeline {
 public:
  Timeline(TraceSpool& spool, FileReport& report)
      : spool_(spool),
        report_(report),
        rank_(add_timeline_rank(spool, kUnknownRank)) {}

  void take(const ChromeEvent& source) {
    if (source.phase != 'X') return count_ignored(source, report_);
    TimelineSpan span;
    if (!read_span(source, report_, span)) return;
    const std::string name = json_unescaped(source.name);
    const Stage stage = stage_of(name);
    Event event;
    event.rank = rank_;
    event.stream = stream(source);
    event.kind = stage.kind;
    event.name = spool_.intern(name);
    event.start_ns = event.enqueue_ns = span.start_ns;
    event.end_ns = span.end_ns;
    if (stage.kind == EventKind::kCollective) {
      // Partitions go to servers and come from them: no other rank meets this.
      const bool serves = is_message(stage.collective);
      event.detail = spool_.add_collective({.kind = stage.collective,
                                            .communicator = "byteps",
                                            .group_size = serves ? 1 : -1});
      ++report_.collectives;
    }
    if (span.start_ns >= kEpochNs) spool_.rank(rank_).clock_domain = "epoch";
    spool_.add(event);
  }

 private:
  /// One a tensor ("total") and one for each of its partitions.
  uint32_t stream(const ChromeEvent& source) {
    return find_or_add(
        streams_, {std::string(source.process), std::string(source.thread)},
        [&] {
          std::string name = json_unescaped(source.process);
          const std::string row = json_unescaped(source.thread);
          if (row != "total" && !row.empty()) name += " partition " + row;
          return spool_.add_stream({.rank = rank_,
                                    .name = std::move(name),
                                    .kind = StreamKind::kTensor});
        });
  }

  TraceSpool& spool_;
  FileReport& report_;
  const uint32_t rank_;
  std::map<std::pair<std::string, std::string>, uint32_t> streams_;
};

class BytePsReader final : public TraceReader {
 public:
  std::string_view kind() const override { return "byteps"; }

  bool recognizes(const InputFile& input) const override {
    const std::string_view head = input.head;
    return starts_as_json(head) &&
           (has(head, "\"Comm.byteps.") || has(head, "\"Comm.BytePSPushPull") ||
            has(head, "BytePSPushPull.") || has(head, "byteps_push_pull."));
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    Timeline timeline(spool, report);
    const Result<bool> read =
        read_timeline(*input.source, report,
                      [&](const ChromeEvent& event) { timeline.take(event); });
    if (!read) return pass(read.error());
    report.missing.push_back(
        "A BytePS timeline shows communication alone, without sizes.");
    refuse_if_empty(spool, report);
    return {};
  }
};

}  // namespace

const TraceReader& byteps_reader() {
  static const BytePsReader reader;
  return reader;
}

}  // namespace reprise

#include "data/formats/nccl_inspector/nccl_inspector_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "data/collective/collective_names.h"
#include "data/formats/json_objects.h"
#include "data/formats/nccl_profiler/nccl_profiler_calls.h"
#include "data/formats/nccl_profiler/nccl_profiler_ranks.h"
#include "data/formats/ranks.h"
#include "data/io/decimal.h"
#include "data/io/head_text.h"
#include "data/io/json_scan.h"
#include "data/io/json_text.h"

namespace reprise {
namespace {

/// First start and last end of what a kernel did on its channels.
struct KernelTimes {
  std::optional<int64_t> start_ns, end_ns;

  void take(std::string_view channel) {
    const auto start =
        parse_microseconds(json_member(channel, "kernel_start_ts"));
    const auto end = parse_microseconds(json_member(channel, "kernel_stop_ts"));
    // A time that was not recorded is 0.
    if (!start || !end || *start <= 0 || *end < *start) return;
    start_ns = std::min(start_ns.value_or(*start), *start);
    end_ns = std::max(end_ns.value_or(*end), *end);
  }
};

/// The members of a record; what is absent is empty.
struct Record {
  std::string_view header, metadata, call, proxy, statistics;
  bool point_to_point = false;
  bool broken = true;
};

Record members_of(std::string_view text) {
  Record record;
  JsonScanner members(text);
  while (members.next()) {
    const std::string_view key = members.key(), value = members.value();
    if (key == "header") record.header = value;
    if (key == "metadata") record.metadata = value;
    if (key == "proxy_trace") record.proxy = value;
    if (key == "dump_stats") record.statistics = value;
    if (key == "coll_perf" || key == "p2p_perf") {
      record.call = value;
      record.point_to_point = key == "p2p_perf";
    }
  }
  record.broken = members.broken();
  return record;
}

/// The fields of a call, whose names start with "coll" or "p2p".
struct Call {
  CollectiveKind kind = CollectiveKind::kUnknown;
  int64_t sequence = -1, bytes = 0, peer = -1;
  std::optional<int64_t> duration_ns, enqueue_ns;
  std::string algorithm, protocol, timing_source;
  KernelTimes kernel;

  /// As a JSON object, by the words that NCCL's example plugin is read to;
  /// empty if nothing is known.
  std::string attributes() const {
    std::string text;
    for (const auto& [name, value] :
         {std::pair("algorithm", &algorithm), std::pair("protocol", &protocol),
          std::pair("timing_source", &timing_source)}) {
      if (value->empty()) continue;
      text += fmt::format("{}\"{}\":{}", text.empty() ? "{" : ",", name,
                          json_quoted(*value));
    }
    return text.empty() ? text : text + "}";
  }
};

void take_trace(std::string_view value, std::string_view prefix, Call& call) {
  JsonScanner members(value);
  while (members.next()) {
    if (members.key() == fmt::format("{}_start_ts", prefix)) {
      call.enqueue_ns = parse_microseconds(members.value());
    } else if (members.key() == "kernel_events") {
      JsonScanner channels(members.value());
      while (channels.next()) call.kernel.take(channels.value());
    }
  }
}

/// A field whose name goes on with `key` behind the prefix.
void take_field(std::string_view key, std::string_view value, Call& call) {
  if (key.empty()) call.kind = collective_named(json_unescaped(value));
  if (key == "_sn") call.sequence = number_within(value, INT64_MAX, -1);
  if (key == "_peer") call.peer = number_within(value, kLargestRank, -1);
  if (key == "_msg_size_bytes")
    call.bytes = number_within(value, kLargestCount, 0);
  if (key == "_exec_time_us") call.duration_ns = parse_microseconds(value);
  if (key == "_algo") call.algorithm = json_unescaped(value);
  if (key == "_proto") call.protocol = json_unescaped(value);
  if (key == "_timing_source") call.timing_source = json_unescaped(value);
}

Call read_call(const Record& record) {
  const std::string_view prefix = record.point_to_point ? "p2p" : "coll";
  Call call;
  JsonScanner members(record.call);
  while (members.next()) {
    const std::string_view value = members.value();
    std::string_view key = members.key();
    if (key == "event_trace_ts") take_trace(value, prefix, call);
    if (key == "events") {  // Since 2.30 each channel is an event of its own.
      JsonScanner events(value);
      while (events.next()) {
        call.kernel.take(json_member(events.value(), "event_trace_ts"));
      }
    }
    if (!key.starts_with(prefix)) continue;
    key.remove_prefix(prefix.size());
    take_field(key, value, call);
  }
  return call;
}

class InspectorImport {
 public:
  InspectorImport(TraceSpool& spool, FileReport& report)
      : spool_(spool),
        report_(report),
        ranks_(spool),
        times_(spool, "nccl-inspector") {}

  void take(std::string_view text);
  void finish();

 private:
  struct RankState {
    uint32_t stream = 0;
    bool timed = false;
    int64_t next_ns = 0;  // Of a rank without times.
  };

  void take_context(Record& record);
  uint32_t rank_of(const Record& record, bool timed);
  bool place(const Call& call, RankState& state, Event& event);
  CollectiveInfo info_of(const Record& record, const Call& call);
  void add(const Record& record, const Call& call);

  TraceSpool& spool_;
  FileReport& report_;
  NcclRanks ranks_;
  CollectiveCostPoints times_;
  std::vector<RankState> states_;  // By the spool's ranks.
  std::string header_, metadata_;  // Of the last dump's mark.
  bool untimed_ = false;
  int64_t largest_group_ = -1;  // So far.
};

uint32_t InspectorImport::rank_of(const Record& record, bool timed) {
  bool added = false;
  const uint32_t local = ranks_.local(
      json_unescaped(json_member(record.header, "id")),
      *parse_integer(json_member(record.header, "rank")),
      number_within(json_member(record.header, "n_ranks"), kLargestRank, -1),
      &added);
  if (added) {
    RankInfo& rank = spool_.rank(local);
    rank.host = json_unescaped(json_member(record.metadata, "hostname"));
    rank.process =
        parse_integer(json_member(record.metadata, "pid")).value_or(0);
    rank.clock_domain = timed ? "epoch" : "none";
    states_.resize(local + 1);
    states_[local] = {spool_.add_stream({.rank = local,
                                         .name = "communication",
                                         .kind = StreamKind::kDeviceStream,
                                         .process = rank.process}),
                      timed, 0};
  }
  return local;
}

/// Gives the event its times; false when they do not fit.
bool InspectorImport::place(const Call& call, RankState& state, Event& event) {
  if (state.timed) {
    event.start_ns = event.enqueue_ns = *call.kernel.start_ns;
    event.end_ns = *call.kernel.end_ns;
    if (call.enqueue_ns && *call.enqueue_ns > 0) {
      event.enqueue_ns = std::min(*call.enqueue_ns, event.start_ns);
    }
    return true;
  }
  if (*call.duration_ns > kLargestTimeNs - state.next_ns) return false;
  event.start_ns = event.enqueue_ns = state.next_ns;
  event.end_ns = state.next_ns += *call.duration_ns;
  untimed_ = true;
  return true;
}

CollectiveInfo InspectorImport::info_of(const Record& record,
                                        const Call& call) {
  CollectiveInfo info;
  info.kind = call.kind;
  info.communicator = json_unescaped(json_member(record.header, "id"));
  info.group_size =
      number_within(json_member(record.header, "n_ranks"), kLargestRank, -1);
  // A rank of the communicator; of the job only in the largest one.
  largest_group_ = std::max(largest_group_, info.group_size);
  if (info.group_size == largest_group_)
    info.peer = static_cast<int32_t>(call.peer);
  return info;
}

void InspectorImport::add(const Record& record, const Call& call) {
  const CollectiveInfo info = info_of(record, call);
  const int64_t bytes =
      whole_buffer_bytes(info.kind, call.bytes, info.group_size);
  times_.add(info, bytes, call.sequence, *call.duration_ns);
  const bool timed = call.kernel.start_ns.has_value();
  const uint32_t local = rank_of(record, timed);
  if (states_[local].timed && !timed) {
    ++report_.ignored["call without times: a cost point alone"];
    return;
  }
  Event event{.rank = local,
              .stream = states_[local].stream,
              .kind = EventKind::kCollective,
              .name = spool_.intern(info.kind == CollectiveKind::kUnknown
                                        ? "unknown"
                                        : name_of(info.kind)),
              .bytes = bytes,
              .sequence = call.sequence};
  if (!place(call, states_[local], event)) {
    ++report_.dropped["time out of range"];
    return;
  }
  event.detail = spool_.add_collective(info);
  if (const std::string told = call.attributes(); !told.empty()) {
    event.attributes = static_cast<int32_t>(index_of(spool_.intern(told)));
  }
  spool_.add(event);
  ++report_.collectives;
}

/// Since v4.3 whose calls they are stands once, in the mark before a dump of
/// them; before, each call says so itself.
void InspectorImport::take_context(Record& record) {
  if (!record.statistics.empty()) {
    header_ = record.header;
    metadata_ = record.metadata;
  } else if (record.header.empty()) {
    record.header = header_;
    record.metadata = metadata_;
  }
}

void InspectorImport::take(std::string_view text) {
  Record record = members_of(text);
  if (record.broken) {
    ++report_.dropped["record that is no JSON"];
    return;
  }
  if (report_.dialect.empty()) {
    report_.dialect = json_unescaped(
        json_member(record.metadata, "inspector_output_format_version"));
  }
  take_context(record);
  if (record.call.empty()) {
    ++report_.ignored[record.proxy.empty() ? "statistics of the plugin"
                                           : "record of a network proxy"];
    return;
  }
  const Call call = read_call(record);
  const auto rank = parse_integer(json_member(record.header, "rank"));
  if (!rank || *rank < 0 || *rank >= kLargestRank) {
    ++report_.dropped["call without a rank"];
  } else if (!call.duration_ns || *call.duration_ns < 0) {
    ++report_.dropped["call without an execution time"];
  } else {
    add(record, call);
  }
}

void InspectorImport::finish() {
  ranks_.finish(report_);
  times_.finish();
  if (untimed_) {
    report_.missing.push_back(
        "Calls have durations and no times: they are laid out in the file's "
        "order. NCCL_INSPECTOR_DUMP_VERBOSE=1 records times.");
  }
}

class NcclInspectorReader final : public TraceReader {
 public:
  std::string_view kind() const override { return "nccl-inspector"; }

  bool recognizes(const InputFile& input) const override {
    const std::string_view head = without_blanks(input.head);
    return head.starts_with('{') && has(head, "\"header\"") &&
           (has(head, "\"coll_perf\"") || has(head, "\"p2p_perf\"") ||
            has(head, "\"inspector_output_format_version\""));
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    JsonObjects records(*input.source);
    InspectorImport import(spool, report);
    Status read = records.read(
        report, [&](std::string_view record) { import.take(record); });
    if (!read) return read;
    import.finish();
    if (spool.event_count() == 0) {
      report.refused = "an Inspector log without a readable call";
    }
    return {};
  }
};

}  // namespace

const TraceReader& nccl_inspector_reader() {
  static const NcclInspectorReader reader;
  return reader;
}

}  // namespace reprise

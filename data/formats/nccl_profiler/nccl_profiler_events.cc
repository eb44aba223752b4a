// Chrome events of NVIDIA's example plugin: one file a rank of a communicator,
// begin and end by category and id. An operation's channels and proxies stand
// between its begin and its end in the file.
#include <algorithm>
#include <string>
#include <utility>

#include "data/formats/json_objects.h"
#include "data/formats/nccl_profiler/nccl_profiler_import.h"
#include "data/formats/ranks.h"
#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Begins that wait for their end; the plugin's pools are smaller.
constexpr size_t kMostBegunEvents = 1 << 16;

struct Record {
  std::string category, phase, name;
  std::string_view arguments;
  int64_t id = -1, process = 0, thread = 0;
  std::optional<int64_t> time_ns;
};

bool read_record(std::string_view text, Record& record) {
  JsonScanner members(text);
  while (members.next()) {
    const std::string_view key = members.key(), value = members.value();
    if (key == "cat") record.category = json_unescaped(value);
    if (key == "ph") record.phase = json_unescaped(value);
    if (key == "name") record.name = json_unescaped(value);
    if (key == "args") record.arguments = value;
    if (key == "id") record.id = number_within(value, INT64_MAX, -1);
    if (key == "pid") record.process = number_within(value, INT64_MAX, 0);
    if (key == "tid") record.thread = number_within(value, INT64_MAX, 0);
    if (key == "ts") record.time_ns = parse_microseconds(value);
  }
  return !members.broken();
}

class EventsImport {
 public:
  EventsImport(TraceSpool& spool, FileReport& report)
      : spool_(spool), report_(report), import_(spool, report) {
    rank_ = add_unknown_rank(spool_, "capture");
  }

  void take(std::string_view text);
  void finish();

 private:
  using Key = std::pair<std::string, int64_t>;  // Category and id.

  void begin(const Record& record);
  void end(const Record& record);
  void close(const Record& begun, const NcclSpan& times);
  void note_rank(const NcclOperation& operation);
  static bool is_operation(const std::string& category) {
    return category == "COLL" || category == "P2P" || category == "CE_COLL";
  }
  static bool is_network(const std::string& category) {
    return category == "PROXY" || category.starts_with("NET");
  }

  TraceSpool& spool_;
  FileReport& report_;
  NcclProfilerImport import_;
  uint32_t rank_ = 0;
  std::map<Key, Record> begun_;
  std::optional<Key> within_;  // The operation whose records come now.
  NcclOperation operation_;
  int64_t highest_rank_ = -1;
};

/// A rank's number never is higher in a part of the job than in all of it.
void EventsImport::note_rank(const NcclOperation& operation) {
  if (operation.info.communicator.empty() || highest_rank_ < 0) return;
  spool_.rank(rank_).rank = static_cast<uint32_t>(highest_rank_);
}

void EventsImport::begin(const Record& record) {
  const Key key(record.category, record.id);
  if (begun_.size() >= kMostBegunEvents) {
    begun_.erase(begun_.begin());
    ++report_.dropped["begin without an end"];
  }
  Record begun = record;
  begun.arguments = {};  // Of a text that is gone by then.
  if (!begun_.insert_or_assign(key, std::move(begun)).second) {
    ++report_.dropped["begin without an end"];
  }
  if (!is_operation(record.category)) return;
  within_ = key;
  operation_ = {};
  operation_.rank = rank_;
  operation_.name = record.name;
  operation_.process = record.process;
  operation_.thread = record.thread;
  operation_.info.communicator =
      json_unescaped(json_member(record.arguments, "CommHash"));
  read_operation(
      [&](std::string_view field) {
        return json_member(record.arguments, field);
      },
      operation_);
  highest_rank_ = std::max(highest_rank_,
                           number_within(json_member(record.arguments, "Rank"),
                                         kLargestRank - 1, -1));
  note_rank(operation_);
}

void EventsImport::close(const Record& begun, const NcclSpan& times) {
  if (begun.category == "GPU") {
    if (within_) operation_.channels.extend(times);
    ++report_.ignored["channel of a kernel"];
  } else if (begun.category == "GROUP") {
    ++report_.ignored["NCCL's own group"];
  } else if (begun.category == "GROUP_API") {
    import_.add_host(rank_, begun.process, begun.thread, EventKind::kAnnotation,
                     "ncclGroup", times);
  } else if (begun.category == "COLL_API" || begun.category == "P2P_API") {
    import_.add_host(rank_, begun.process, begun.thread, EventKind::kHostOp,
                     "nccl" + begun.name, times);
  } else if (begun.category == "KERNEL_LAUNCH") {
    import_.add_host(rank_, begun.process, begun.thread, EventKind::kRuntime,
                     "KernelLaunch", times);
  } else {
    ++report_.ignored["record of another kind"];
  }
}

void EventsImport::end(const Record& record) {
  const auto found = begun_.find(Key(record.category, record.id));
  if (found == begun_.end()) {
    ++report_.dropped["end without a begin"];
    return;
  }
  const Key key = found->first;
  const Record begun = std::move(found->second);
  begun_.erase(found);
  NcclSpan times;
  // A time that was not set is 0.
  if (begun.time_ns && record.time_ns && *begun.time_ns > 0 &&
      *begun.time_ns <= *record.time_ns) {
    times = {begun.time_ns, *record.time_ns};
  }
  if (!is_operation(record.category)) {
    close(begun, times);
  } else if (within_ == key) {
    operation_.launch = times;
    import_.add_alone(operation_);
    within_.reset();
  } else {
    ++report_.dropped["operation within another"];
  }
}

void EventsImport::take(std::string_view text) {
  Record record;
  if (!read_record(text, record)) {
    ++report_.dropped["record that is no JSON"];
  } else if (record.category.empty() && record.phase.empty()) {
    ++report_.ignored["end of the array"];  // "{}".
  } else if (is_network(record.category)) {
    if (within_) operation_.proxies = true;
    ++report_.ignored["record of a network proxy"];
  } else if (record.phase == "b") {
    begin(record);
  } else if (record.phase == "e") {
    end(record);
  } else {
    ++report_.ignored["record of another kind"];
  }
}

void EventsImport::finish() {
  if (!begun_.empty()) {
    report_.dropped["begin without an end"] +=
        static_cast<int64_t>(begun_.size());
  }
  import_.finish();
}

}  // namespace

Status read_nccl_profiler_events(InputFile& input, TraceSpool& spool,
                                 FileReport& report) {
  report.dialect = "chrome events";
  JsonObjects records(*input.source);
  EventsImport import(spool, report);
  const Status read = records.read(
      report, [&](std::string_view record) { import.take(record); });
  if (!read) return read;
  import.finish();
  return {};
}

}  // namespace reprise

// Lines of pha-Z/nccl's minimal profiler: records name their parents by the
// addresses of event objects, which a pool reuses, so a link means the last
// record of that address.
#include <algorithm>
#include <string>
#include <vector>

#include "data/formats/json_objects.h"
#include "data/formats/nccl_profiler/nccl_profiler_import.h"
#include "data/formats/ranks.h"
#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Operations that wait for their kernel; pools are smaller.
constexpr size_t kMostOpenLines = 1 << 16;

struct Line {
  std::string kind, type, name, uuid, communicator, address, parent, stream;
  std::string_view details;
  int64_t rank = -1, process = 0, thread = 0;
  int64_t correlation = -1, device = -1;
  NcclSpan times;
};

void take_time(std::string_view object, std::optional<int64_t>& time,
               Line& line) {
  JsonScanner members(object);
  while (members.next()) {
    if (members.key() == "ts") time = parse_microseconds(members.value());
    if (members.key() == "pid")
      line.process = number_within(members.value(), INT64_MAX, 0);
    if (members.key() == "tid")
      line.thread = number_within(members.value(), INT64_MAX, 0);
  }
}

constexpr std::pair<std::string_view, std::string Line::*> kTexts[] = {
    {"recordType", &Line::kind},  {"type", &Line::type},
    {"name", &Line::name},        {"func", &Line::name},
    {"gpuUuid", &Line::uuid},     {"commId", &Line::communicator},
    {"parentObj", &Line::parent}, {"eventAddr", &Line::address},
    {"stream", &Line::stream},
};

/// False for what is no JSON.
bool read_line(std::string_view text, Line& line) {
  JsonScanner members(text);
  std::optional<int64_t> start, stop;
  while (members.next()) {
    const std::string_view key = members.key(), value = members.value();
    for (const auto& [name, field] : kTexts) {
      if (key == name) line.*field = json_unescaped(value);
    }
    if (key == "rank") line.rank = number_within(value, kLargestRank - 1, -1);
    if (key == "start") take_time(value, start, line);
    if (key == "stop") take_time(value, stop, line);
    if (key == "extCorrId")
      line.correlation = number_within(value, INT64_MAX, -1);
    if (key == "deviceId") line.device = number_within(value, kLargestRank, -1);
    if (key == "details") line.details = value;
  }
  if (start && stop && *start <= *stop) line.times = {start, *stop};
  return !members.broken();
}

/// "_Z39ncclDevKernel…" without its mangling: the name alone.
std::string plain_name(const std::string& mangled) {
  if (!mangled.starts_with("_Z")) return mangled;
  const size_t begin = mangled.find_first_not_of("0123456789", 2);
  if (begin == std::string::npos || begin == 2) return mangled;
  const auto length =
      parse_integer(std::string_view(mangled).substr(2, begin - 2));
  return length ? mangled.substr(begin, static_cast<size_t>(*length)) : mangled;
}

class LinesImport {
 public:
  LinesImport(TraceSpool& spool, FileReport& report)
      : spool_(spool), report_(report), import_(spool, report) {}

  void take(std::string_view text);
  void finish();

 private:
  struct Rank {
    uint32_t local = 0;
    int64_t group_size = -1;  // Of the largest communicator so far.
  };
  struct Open {
    NcclOperation operation;
    int64_t correlation = -1;
  };

  uint32_t rank_of(const Line& line);
  void take_lifecycle(const Line& line);
  void take_event(const Line& line);
  void take_operation(const Line& line);
  void take_kernel(const Line& line);
  void close(const std::string& address);

  TraceSpool& spool_;
  FileReport& report_;
  NcclProfilerImport import_;
  std::map<std::pair<std::string, int64_t>, Rank> ranks_;  // Device, process.
  std::map<std::string, int64_t> group_sizes_;             // Of communicators.
  std::map<std::string, std::string> group_of_call_;       // By address.
  std::map<std::pair<uint32_t, std::string>, int64_t> launches_;
  std::map<std::string, Open> open_;  // By address.
  std::map<int64_t, std::vector<std::string>> by_correlation_;
};

/// A device of a process is a rank; its number is that in its largest
/// communicator.
uint32_t LinesImport::rank_of(const Line& line) {
  const auto [place, added] = ranks_.try_emplace({line.uuid, line.process});
  Rank& rank = place->second;
  if (added) {
    rank.local =
        add_unknown_rank(spool_, RankInfo().clock_domain, line.process);
  }
  const auto size = group_sizes_.find(line.communicator);
  const int64_t group_size = size == group_sizes_.end() ? 0 : size->second;
  if (line.rank >= 0 && group_size > rank.group_size) {
    rank.group_size = group_size;
    spool_.rank(rank.local).rank = static_cast<uint32_t>(line.rank);
  }
  return rank.local;
}

void LinesImport::take_lifecycle(const Line& line) {
  const std::string_view size = json_member(line.details, "nranks");
  if (!size.empty()) {
    group_sizes_[line.communicator] = number_within(size, kLargestRank, -1);
  }
  if (!line.uuid.empty()) rank_of(line);
  ++report_.ignored["profiler's own record"];
}

/// The operation at the address is complete as far as it was recorded.
void LinesImport::close(const std::string& address) {
  const auto place = open_.find(address);
  if (place == open_.end()) return;
  import_.add_alone(place->second.operation);
  by_correlation_.erase(place->second.correlation);
  open_.erase(place);
}

void LinesImport::take_operation(const Line& line) {
  close(line.address);
  while (open_.size() >= kMostOpenLines)
    close(std::string(open_.begin()->first));
  Open open;
  NcclOperation& operation = open.operation;
  operation.rank = rank_of(line);
  operation.name = json_unescaped(json_member(line.details, "func"));
  operation.process = line.process;
  operation.thread = line.thread;
  operation.launch = line.times;
  operation.info.communicator = line.communicator;
  const auto size = group_sizes_.find(line.communicator);
  if (size != group_sizes_.end()) operation.info.group_size = size->second;
  read_operation(
      [&](std::string_view field) { return json_member(line.details, field); },
      operation);
  const auto group = group_of_call_.find(line.parent);
  if (group != group_of_call_.end()) {
    const auto launch = launches_.find({operation.rank, group->second});
    if (launch != launches_.end()) open.correlation = launch->second;
  }
  if (open.correlation >= 0) {
    by_correlation_[open.correlation].push_back(line.address);
  }
  open_.insert_or_assign(line.address, std::move(open));
}

/// A kernel of CUPTI's, which has the times of the operations that it ran.
void LinesImport::take_kernel(const Line& line) {
  const auto found = by_correlation_.find(line.correlation);
  if (found == by_correlation_.end()) {
    ++report_.dropped["kernel without its launch"];
    return;
  }
  if (!line.times.start_ns) {
    ++report_.dropped["time not recorded"];
    return;
  }
  const std::vector<std::string> addresses = std::move(found->second);
  by_correlation_.erase(found);
  std::vector<NcclOperation> operations;
  for (const std::string& address : addresses) {
    const auto place = open_.find(address);
    if (place == open_.end()) continue;
    operations.push_back(std::move(place->second.operation));
    open_.erase(place);
  }
  if (operations.empty()) return;
  for (size_t i = 1; i < operations.size(); ++i) {
    int64_t& bytes = operations[0].bytes;
    if (__builtin_add_overflow(bytes, operations[i].bytes, &bytes)) bytes = 0;
    ++report_.ignored["further operation of one kernel"];
  }
  import_.add_kernel(
      operations[0],
      {plain_name(line.name), line.times, static_cast<int32_t>(line.device),
       "stream " + line.stream, line.correlation},
      operations.size() == 1);
}

void LinesImport::take_event(const Line& line) {
  if (line.type == "ncclProfileColl" || line.type == "ncclProfileP2p") {
    take_operation(line);
  } else if (line.type == "ncclProfileCollApi" ||
             line.type == "ncclProfileP2pApi") {
    group_of_call_[line.address] = line.parent;
    import_.add_host(
        rank_of(line), line.process, line.thread, EventKind::kHostOp,
        "nccl" + json_unescaped(json_member(line.details, "func")), line.times);
  } else if (line.type == "ncclProfileGroupApi") {
    import_.add_host(rank_of(line), line.process, line.thread,
                     EventKind::kAnnotation, "ncclGroup", line.times);
  } else if (line.type == "ncclProfileKernelLaunch") {
    const uint32_t rank = rank_of(line);
    launches_[{rank, line.parent}] = line.correlation;
    import_.add_host(rank, line.process, line.thread, EventKind::kRuntime,
                     "KernelLaunch", line.times, line.correlation);
  } else if (line.type == "ncclProfileKernelCh") {
    const auto open = open_.find(line.parent);
    if (open != open_.end()) open->second.operation.channels.extend(line.times);
    ++report_.ignored["channel of a kernel"];
  } else {
    ++report_.ignored[line.type == "ncclProfileGroup"
                          ? "NCCL's own group"
                          : "record of a network proxy"];
  }
}

void LinesImport::take(std::string_view text) {
  Line line;
  if (!read_line(text, line)) {
    ++report_.dropped["record that is no JSON"];
  } else if (line.type == "ProfilerLifecycle") {
    take_lifecycle(line);
  } else if (line.kind == "event") {
    take_event(line);
  } else if (line.kind == "cuptiActivity" && line.type == "KERNEL") {
    take_kernel(line);
  } else {
    ++report_.ignored[line.kind == "state" ? "state of a record"
                                           : "record of another kind"];
  }
}

void LinesImport::finish() {
  while (!open_.empty()) close(std::string(open_.begin()->first));
  import_.finish();
}

}  // namespace

Status read_nccl_profiler_lines(InputFile& input, TraceSpool& spool,
                                FileReport& report) {
  report.dialect = "lines";
  JsonObjects records(*input.source);
  LinesImport import(spool, report);
  const Status read = records.read(
      report, [&](std::string_view record) { import.take(record); });
  if (!read) return read;
  import.finish();
  return {};
}

}  // namespace reprise

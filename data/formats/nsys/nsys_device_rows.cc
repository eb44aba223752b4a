// Device work of an Nsight Systems export: kernels, graphs, copies, sets, and
// recorded waits.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <vector>

#include "data/formats/nccl_names.h"
#include "data/formats/nsys/nsys_import.h"
#include "data/formats/synchronization_name.h"

namespace reprise {
namespace {

/// Names of CUpti_ActivityMemcpyKind, from 1; 11 to 13 are migrations of
/// managed memory.
constexpr std::array<std::string_view, 13> kCopyNames = {
    "Memcpy HtoD",   "Memcpy DtoH", "Memcpy HtoA",    "Memcpy AtoH",
    "Memcpy AtoA",   "Memcpy AtoD", "Memcpy DtoA",    "Memcpy DtoD",
    "Memcpy HtoH",   "Memcpy PtoP", "Migration HtoD", "Migration DtoH",
    "Migration DtoD"};

using enum NsysColumn;

/// What all device work has; false when the row cannot be used.
bool read_common(NsysImport& import, const NsysRows& rows, Event& event) {
  if (!import.read_times(rows, event)) return false;
  const auto pid = rows.integer(kPid);
  const auto device = rows.integer(kDevice);
  const auto rank = pid && device
                        ? import.ranks.rank_of(process_of(*pid), *device)
                        : std::nullopt;
  if (!rank) {
    import.drop("device work without a process or device");
    return false;
  }
  event.rank = *rank;
  event.stream =
      import.ranks.device_stream(*rank, *device, rows.integer_or(kStream, 0));
  event.correlation = std::max<int64_t>(-1, rows.integer_or(kCorrelation, -1));
  const int64_t node = rows.integer_or(kGraphNode, -1);
  event.graph_node = node > 0 ? node : -1;
  return true;
}

/// The rows of a table of device work; what a table lacks reads as empty.
NsysRows open_common(NsysImport& import, std::string_view table) {
  return import.database.rows(
      table,
      {kStart, kEnd, kPid, kDevice, kStream, kCorrelation, kGraphNode,
       kDemangledName, kShortName, kMangledName, kGraph, kBytes, kCopyKind});
}

/// What a kernel's name says, once a name.
struct KernelName {
  StringId name{};
  bool collective = false;
  int32_t detail = -1;
};

class Kernels {
 public:
  explicit Kernels(NsysImport& import) : import_(import) {}

  void read() {
    NsysRows rows = open_common(import_, "CUPTI_ACTIVITY_KIND_KERNEL");
    while (rows.next()) {
      Event event;
      if (!read_common(import_, rows, event)) continue;
      const KernelName& name = name_of_row(rows);
      event.name = name.name;
      event.detail = name.detail;
      event.kind =
          name.collective ? EventKind::kCollective : EventKind::kCompute;
      ++import_.report.kernels;
      if (name.collective) ++import_.report.collectives;
      import_.add(event);
    }
    import_.finish(rows);
  }

 private:
  const KernelName& name_of_row(const NsysRows& rows) {
    std::optional<int64_t> id;
    for (const NsysColumn column : {kDemangledName, kShortName, kMangledName}) {
      if (!id) id = rows.integer(column);
    }
    const auto [at, is_new] = names_.try_emplace(id.value_or(-1));
    if (is_new) {
      KernelName& made = at->second;
      made.name = import_.string_of(id, "kernel");
      const std::string& text = import_.spool.text(made.name);
      const auto collective = describe_collective_kernel(text);
      made.collective = collective.has_value();
      if (collective) made.detail = import_.spool.add_collective(*collective);
    }
    return at->second;
  }

  NsysImport& import_;
  std::unordered_map<int64_t, KernelName> names_;
};

void read_graphs(NsysImport& import) {
  NsysRows rows = open_common(import, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE");
  int64_t graphs = 0;
  while (rows.next()) {
    Event event;
    if (!read_common(import, rows, event)) continue;
    event.kind = EventKind::kCompute;
    event.name = import.spool.intern(
        fmt::format("{}{}", kWholeGraph, rows.integer_or(kGraph, 0)));
    ++graphs;
    import.add(event);
  }
  import.finish(rows);
  if (graphs == 0) return;
  import.miss(fmt::format(
      "{} launches of CUDA graphs were traced whole, so that what ran inside, "
      "collectives too, counts as compute; profile with "
      "--cuda-graph-trace=node.",
      graphs));
}

void read_copies(NsysImport& import) {
  NsysRows rows = open_common(import, "CUPTI_ACTIVITY_KIND_MEMCPY");
  while (rows.next()) {
    Event event;
    if (!read_common(import, rows, event)) continue;
    event.kind = EventKind::kCopy;
    const int64_t kind = rows.integer_or(kCopyKind, 0);
    const bool known =
        kind >= 1 && kind <= static_cast<int64_t>(kCopyNames.size());
    event.name = import.spool.intern(
        known ? kCopyNames[static_cast<size_t>(kind - 1)] : "Memcpy");
    event.bytes = std::max<int64_t>(0, rows.integer_or(kBytes, 0));
    import.add(event);
  }
  import.finish(rows);
}

void read_sets(NsysImport& import) {
  NsysRows rows = open_common(import, "CUPTI_ACTIVITY_KIND_MEMSET");
  const StringId name = import.spool.intern("Memset");
  while (rows.next()) {
    Event event;
    if (!read_common(import, rows, event)) continue;
    event.kind = EventKind::kMemset;
    event.name = name;
    event.bytes = std::max<int64_t>(0, rows.integer_or(kBytes, 0));
    import.add(event);
  }
  import.finish(rows);
}

/// A recorded CUDA event: where and by which call.
struct RecordedEvent {
  NsysProcess process;
  int64_t event, synchronization;
  int64_t stream, correlation;
  auto key() const { return std::tuple(process, event, synchronization); }
};

/// CUPTI's "no such id" in 32 bits.
constexpr int64_t kNoId = 0xffffffff;

std::vector<RecordedEvent> recorded_events(NsysImport& import) {
  std::vector<RecordedEvent> events;
  NsysRows rows =
      import.database.rows("CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                           {kPid, kEvent, kEventSync, kStream, kCorrelation});
  while (rows.next()) {
    const auto pid = rows.integer(kPid);
    const auto event = rows.integer(kEvent);
    const auto synchronization = rows.integer(kEventSync);
    if (!pid || !event || !synchronization || *synchronization == kNoId) {
      continue;
    }
    events.push_back({process_of(*pid), *event, *synchronization,
                      rows.integer_or(kStream, -1),
                      rows.integer_or(kCorrelation, -1)});
  }
  import.finish(rows);
  std::stable_sort(events.begin(), events.end(),
                   [](const RecordedEvent& a, const RecordedEvent& b) {
                     return a.key() < b.key();
                   });
  return events;
}

class Synchronizations {
 public:
  explicit Synchronizations(NsysImport& import)
      : import_(import), events_(recorded_events(import)) {}

  void read() {
    NsysRows rows =
        import_.database.rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                              {kStart, kEnd, kPid, kContext, kStream,
                               kCorrelation, kSyncType, kEvent, kEventSync});
    while (rows.next()) read_row(rows);
    import_.finish(rows);
    if (unknown_events_ == 0) return;
    import_.miss(fmt::format(
        "{} waits name events whose recording is not in the file "
        "(CUPTI_ACTIVITY_KIND_CUDA_EVENT); what they waited for is inferred.",
        unknown_events_));
  }

 private:
  void read_row(const NsysRows& rows) {
    Event event;
    if (!import_.read_times(rows, event)) return;
    const auto pid = rows.integer(kPid);
    const NsysProcess process = pid ? process_of(*pid) : -1;
    // The device of these rows is 0 on every device; the context tells.
    const auto device =
        import_.ranks.device_of(process, rows.integer_or(kContext, -1));
    const auto rank =
        device ? import_.ranks.rank_of(process, *device) : std::nullopt;
    if (!rank) return import_.drop("synchronization of an unknown device");
    SynchronizationInfo info;
    info.kind = synchronization_of_cupti(rows.integer_or(kSyncType, 0));
    const int64_t stream = rows.integer_or(kStream, -1);
    info.stream = stream == kNoId || stream < 0 ? -1 : stream;
    find_recording(rows, process, info);
    event.rank = *rank;
    event.stream = import_.ranks.device_stream(*rank, *device, info.stream);
    event.kind = EventKind::kSynchronization;
    event.name = import_.spool.intern(synchronization_name(info.kind));
    const int64_t correlation = rows.integer_or(kCorrelation, -1);
    event.correlation = std::max<int64_t>(-1, correlation);
    event.detail = import_.spool.add_synchronization(info);
    import_.add(event);
  }

  void find_recording(const NsysRows& rows, NsysProcess process,
                      SynchronizationInfo& info) {
    if (info.kind != SynchronizationKind::kEvent &&
        info.kind != SynchronizationKind::kStreamWait) {
      return;
    }
    const auto key = std::tuple(process, rows.integer_or(kEvent, kNoId),
                                rows.integer_or(kEventSync, kNoId));
    const auto found = std::lower_bound(
        events_.begin(), events_.end(), key,
        [](const RecordedEvent& a, const auto& b) { return a.key() < b; });
    if (found == events_.end() || found->key() != key) {
      ++unknown_events_;
      return;
    }
    info.waited_stream = found->stream;
    info.waited_correlation = found->correlation;
  }

  NsysImport& import_;
  std::vector<RecordedEvent> events_;
  int64_t unknown_events_ = 0;
};

}  // namespace

void read_nsys_device_work(NsysImport& import) {
  Kernels(import).read();
  read_graphs(import);
  read_copies(import);
  read_sets(import);
}

void read_nsys_synchronizations(NsysImport& import) {
  Synchronizations(import).read();
}

}  // namespace reprise

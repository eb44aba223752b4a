#include "data/formats/nccl_profiler/nccl_profiler_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "data/collective/collective_names.h"
#include "data/formats/ranks.h"
#include "data/formats/spool_tables.h"
#include "data/io/json_scan.h"
#include "data/io/json_text.h"

namespace reprise {

void NcclSpan::extend(const NcclSpan& other) {
  if (!other.start_ns) return;
  end_ns = start_ns ? std::max(end_ns, other.end_ns) : other.end_ns;
  start_ns = std::min(start_ns.value_or(*other.start_ns), *other.start_ns);
}

void read_operation(
    const std::function<std::string_view(std::string_view field)>& field,
    NcclOperation& operation) {
  const auto any = [&](std::initializer_list<std::string_view> names) {
    std::string_view value;
    for (const std::string_view name : names) {
      if (value.empty()) value = field(name);
    }
    return value;
  };
  CollectiveInfo& info = operation.info;
  info.kind = collective_named(operation.name);
  info.type = element_type_named(
      json_unescaped(any({"dtype", "Datatype", "datatype"})));
  info.peer = static_cast<int32_t>(
      number_within(any({"peer", "Peer"}), kLargestRank, -1));
  const int64_t count =
      number_within(any({"count", "Count"}), kLargestCount, 0);
  operation.bytes = whole_buffer_bytes(
      info.kind, count * element_bytes(info.type), info.group_size);
  operation.sequence = number_within(any({"seq", "SeqNum"}), INT64_MAX, -1);
  for (const auto& [name, value] :
       {std::pair("algorithm", any({"algo", "Algorithm"})),
        std::pair("protocol", any({"proto", "Protocol"})),
        std::pair("channels",
                  any({"channels", "nChannels", "nMaxChannels"}))}) {
    if (value.empty()) continue;
    operation.attributes +=
        fmt::format("{}\"{}\":{}", operation.attributes.empty() ? "{" : ",",
                    name, json_quoted(json_unescaped(value)));
  }
  if (!operation.attributes.empty()) operation.attributes += '}';
}

uint32_t NcclProfilerImport::thread_of(uint32_t rank, int64_t process,
                                       int64_t thread) {
  return find_or_add(threads_, {rank, process, thread}, [&] {
    return spool_.add_stream({.rank = rank,
                              .name = fmt::format("thread {}", thread),
                              .kind = StreamKind::kHostThread,
                              .process = process,
                              .number = thread});
  });
}

uint32_t NcclProfilerImport::stream_of(uint32_t rank, int32_t device,
                                       const std::string& name) {
  return find_or_add(streams_, {rank, device, name}, [&] {
    return spool_.add_stream({.rank = rank,
                              .name = name,
                              .kind = StreamKind::kDeviceStream,
                              .device = device});
  });
}

void NcclProfilerImport::add_host(uint32_t rank, int64_t process,
                                  int64_t thread, EventKind kind,
                                  std::string_view name, const NcclSpan& times,
                                  int64_t correlation) {
  if (!times.start_ns) {
    ++report_.dropped["time not recorded"];
    return;
  }
  spool_.add({.rank = rank,
              .stream = thread_of(rank, process, thread),
              .kind = kind,
              .name = spool_.intern(name),
              .enqueue_ns = *times.start_ns,
              .start_ns = *times.start_ns,
              .end_ns = times.end_ns,
              .correlation = correlation});
}

void NcclProfilerImport::add(const NcclOperation& operation, Event event) {
  event.bytes = operation.bytes;
  event.sequence = operation.sequence;
  event.detail = spool_.add_collective(operation.info);
  if (!operation.attributes.empty()) {
    event.attributes =
        static_cast<int32_t>(index_of(spool_.intern(operation.attributes)));
  }
  spool_.add(event);
  ++report_.collectives;
}

void NcclProfilerImport::add_kernel(const NcclOperation& operation,
                                    const OperationKernel& kernel,
                                    bool cost_point) {
  const int64_t start = *kernel.times.start_ns;
  const int64_t enqueue =
      std::min(operation.launch.start_ns.value_or(start), start);
  add(operation,
      {.rank = operation.rank,
       .stream = stream_of(operation.rank, kernel.device, kernel.stream),
       .kind = EventKind::kCollective,
       .name = spool_.intern(kernel.name),
       .enqueue_ns = enqueue,
       .start_ns = start,
       .end_ns = kernel.times.end_ns,
       .correlation = kernel.correlation});
  ++report_.kernels;
  if (cost_point) {
    times_.add(operation.info, operation.bytes, operation.sequence,
               kernel.times.end_ns - start);
  }
}

void NcclProfilerImport::add_alone(const NcclOperation& operation) {
  const bool has_channels = operation.channels.start_ns.has_value();
  const NcclSpan& times = has_channels ? operation.channels : operation.launch;
  if (!times.start_ns) {
    ++report_.dropped["time not recorded"];
  } else if (has_channels || operation.proxies) {
    add_kernel(
        operation,
        {.name = operation.name, .times = times, .stream = "communication"},
        true);
  } else {
    add(operation, {.rank = operation.rank,
                    .stream = thread_of(operation.rank, operation.process,
                                        operation.thread),
                    .kind = EventKind::kHostOp,
                    .name = spool_.intern(operation.name),
                    .enqueue_ns = *times.start_ns,
                    .start_ns = *times.start_ns,
                    .end_ns = times.end_ns});
    ++launches_alone_;
  }
}

void NcclProfilerImport::finish() {
  times_.finish();
  if (launches_alone_ > 0) {
    report_.missing.push_back(fmt::format(
        "Of {} operations only the launch on the host was recorded; the "
        "plugin's event mask must include kernel channels for their time.",
        launches_alone_));
  }
}

}  // namespace reprise

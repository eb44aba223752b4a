// Devices are read before hosts: they say which are ranks, and their
// correlation ids say whose a host's launch is. A device's lines are streams,
// or (of TPUs) programs and ops; lines that tell the same time otherwise
// ("TensorFlow Name Scope") are counted and left out. Times are picoseconds
// from the line's start. Source: tsl/profiler/protobuf/xplane.proto;
// xplane_schema.cc for the words.
#include "data/formats/xplane/xplane_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "data/formats/nccl_names.h"
#include "data/formats/spool_tables.h"
#include "data/formats/xplane/xplane_beside_lanes.h"
#include "data/formats/xplane/xplane_host_steps.h"
#include "data/formats/xplane/xplane_launch_lanes.h"
#include "data/formats/xplane/xplane_names.h"
#include "data/formats/xplane/xplane_operations.h"
#include "data/trace/epoch.h"

namespace reprise {
namespace {

constexpr std::string_view kDevicePrefix = "/device:";
constexpr std::string_view kBesideLine = "Async XLA Ops";
/// Threads beyond so many share one row: a file of garbage has millions.
constexpr size_t kMostThreads = 1 << 16;
/// A host has a few devices, and its profiler says little.
constexpr size_t kMostDevices = 4096;
constexpr size_t kMostSentences = 8;

}  // namespace

Status XplaneImport::run() {
  find_planes();
  if (devices_.empty() && hosts_.empty() && metadata_.empty()) {
    return fail(ErrorKind::kParse, "not one readable plane of an XLA profile");
  }
  add_ranks();
  if (rank_devices_.empty()) {
    report_.refused =
        "a profile without events: neither a device nor a host did anything";
    return {};
  }
  for (const std::string_view plane : metadata_) {
    modules_.read(decode_xplane(plane), spool_, report_);
  }
  for (const Device& device : devices_) read_device(device);
  calls_.finish();
  for (const std::string_view bytes : hosts_) {
    read_host(decode_xplane(bytes));
  }
  finish();
  return {};
}

void XplaneImport::find_planes() {
  ProtoCursor cursor(bytes_);
  while (const ProtoField* field = cursor.next()) {
    switch (field->number) {
      case 1:
        add_plane(field->bytes);
        break;
      case 2:
        if (report_.missing.size() >= kMostSentences) break;
        report_.missing.push_back(
            fmt::format("XLA's profiler reports: {}", field->as_string()));
        break;
      case 4:
        if (host_name_.empty()) host_name_ = field->as_string();
        break;
      default:
        break;
    }
  }
  if (!cursor.damaged()) return;
  ++report_.dropped["rest of a damaged file"];
  report_.missing.push_back(fmt::format(
      "The file is damaged or cut ({}); the planes before are imported.",
      cursor.damage()));
}

void XplaneImport::add_plane(std::string_view bytes) {
  const std::string_view name = xplane_name(bytes);
  if (name.starts_with(kDevicePrefix) && devices_.size() >= kMostDevices) {
    ++report_.dropped["plane of one device too many"];
  } else if (name.starts_with(kDevicePrefix)) {
    Device device{.bytes = bytes, .name = name.substr(kDevicePrefix.size())};
    look_at(device);
    devices_.push_back(device);
  } else if (name == "/host:metadata") {
    metadata_.push_back(bytes);
  } else if (name == "Task Environment") {
    read_environment(decode_xplane(bytes));
  } else if (name.starts_with("/host:")) {
    hosts_.push_back(bytes);
  } else {
    ++report_.ignored["plane of no device or host"];
  }
}

void XplaneImport::read_environment(const Xplane& plane) {
  for (const std::string_view bytes : plane.stats) {
    const XplaneStatValue value = plane.stat(bytes);
    if (value.stat == XplaneStat::kProfileStart && value.number >= kEpochNs) {
      started_ns_ = value.number;
    }
  }
}

/// Whether the device ran anything, and kernels.
void XplaneImport::look_at(Device& device) {
  const Xplane plane = decode_xplane(device.bytes);
  XplaneRow row;
  FileReport uncounted;
  bool operations = false;
  for (const std::string_view bytes : plane.lines) {
    const XplaneLine line = decode_xplane_line(bytes);
    if (line.events == 0) continue;
    operations = operations || line.name == "XLA Ops";
    device.beside = device.beside || line.name == kBesideLine;
    if (!line.name.starts_with("Stream")) continue;
    device.streams = true;
    XplaneEvents events(line);
    for (std::string_view one; !device.kernels && events.next(one);) {
      device.kernels = read_xplane_row(plane, line, one, row, uncounted) &&
                       xplane_work_kind(row) == EventKind::kCompute;
    }
  }
  if (!device.streams) device.kernels = operations;
}

void XplaneImport::add_ranks() {
  for (Device& device : devices_) {
    if (!device.kernels) continue;
    const auto chip = std::find(rank_devices_.begin(), rank_devices_.end(),
                                xplane_chip(device.name));
    device.rank = static_cast<uint32_t>(chip - rank_devices_.begin());
    if (chip == rank_devices_.end()) add_rank(&device);
  }
  if (!rank_devices_.empty()) return;
  const auto any =
      std::find_if(devices_.begin(), devices_.end(),
                   [](const Device& device) { return device.streams; });
  if (any != devices_.end()) {
    add_rank(&*any);
    report_.missing.emplace_back("No kernels are in the file, only copies.");
  } else if (std::any_of(hosts_.begin(), hosts_.end(), xplane_has_events)) {
    add_host_ranks();
  }
}

void XplaneImport::add_host_ranks() {
  cpu_devices_ = CpuDevices(hosts_);
  for (size_t rank = 0; rank < cpu_devices_.size(); ++rank) add_rank(nullptr);
  if (!cpu_devices_.empty()) {
    pool_tasks_ = PoolTasks(hosts_, cpu_devices_);
    return;
  }
  add_rank(nullptr);
  report_.missing.emplace_back(
      "No device did anything: only what the host's threads did is known.");
}

void XplaneImport::add_rank(const Device* device) {
  RankInfo info;
  info.rank = kUnknownRank;
  info.host = host_name_;
  info.device = "cpu";
  rank_devices_.emplace_back();
  if (device != nullptr) {
    rank_devices_.back() = xplane_chip(device->name);
    info.device =
        xplane_device_label(decode_xplane(device->bytes), rank_devices_.back());
  }
  spool_.add_rank(std::move(info));
}

XplaneImport::LineKind XplaneImport::kind_of(const Device& device,
                                             std::string_view line) {
  if (line.starts_with("Stream")) return LineKind::kWork;
  if (line == "Steps") return LineKind::kSteps;
  if (line == "XLA Modules") return LineKind::kAnnotation;
  if (line != "XLA Ops" && line != kBesideLine) return LineKind::kDerived;
  if (device.streams) return LineKind::kAnnotation;
  return line == kBesideLine ? LineKind::kBeside : LineKind::kWork;
}

void XplaneImport::read_device(const Device& device) {
  const Xplane plane = decode_xplane(device.bytes);
  if (plane.damaged) ++report_.dropped["rest of a damaged plane"];
  for (const std::string_view bytes : plane.lines) {
    const XplaneLine line = decode_xplane_line(bytes);
    if (line.damaged) ++report_.dropped["rest of a damaged line"];
    if (line.events > 0) read_device_line(device, plane, line);
  }
  order_.finish(device.rank, spool_);
}

void XplaneImport::read_device_line(const Device& device, const Xplane& plane,
                                    const XplaneLine& line) {
  const LineKind kind = kind_of(device, line.name);
  if (kind == LineKind::kDerived) {
    report_.ignored["event of a derived line"] += line.events;
    return;
  }
  const std::string name(line.name);
  const bool one_stream = kind != LineKind::kSteps && kind != LineKind::kBeside;
  const uint32_t stream = one_stream ? add_stream(device, name, name) : 0;
  BesideLanes lanes;
  XplaneRow row;
  XplaneEvents events(line);
  for (std::string_view bytes; events.next(bytes);) {
    if (!read_xplane_row(plane, line, bytes, row, report_)) continue;
    row.event.rank = device.rank;
    row.event.stream = stream;
    if (kind == LineKind::kBeside) {
      row.event.stream = lanes.stream_of(row, [&](const std::string& lane) {
        return add_stream(device, name, fmt::format("{}: {}", name, lane));
      });
    }
    if (kind == LineKind::kSteps) {
      add_step(device.rank, row);
    } else if (kind == LineKind::kWork || kind == LineKind::kBeside) {
      add_work(device, kind, row);
    } else {
      row.event.kind = EventKind::kAnnotation;
      row.event.correlation = -1;
      add(row);
    }
  }
}

uint32_t XplaneImport::add_stream(const Device& device, std::string_view line,
                                  std::string name) {
  if (device.name != rank_devices_[device.rank]) {
    name += fmt::format(" of {}", device.name);
  }
  return spool_.add_stream({.rank = device.rank,
                            .name = std::move(name),
                            .kind = StreamKind::kDeviceStream,
                            .process = 0,
                            .device = xplane_ordinal(device.name),
                            .number = xplane_stream(line)});
}

void XplaneImport::add_work(const Device& device, LineKind line,
                            XplaneRow& row) {
  XplaneOperation work{.kind = xplane_work_kind(row)};
  if (!device.streams)
    work = xplane_operation(row, line == LineKind::kBeside, device.beside);
  row.event.kind = work.kind;
  if (work.kind != EventKind::kCompute)
    row.event.bytes = xplane_moved_bytes(row);
  else if (work.whole)
    describe_collective(row);
  report_.kernels += row.event.kind == EventKind::kCompute ||
                     row.event.kind == EventKind::kCollective;
  report_.collectives += row.event.kind == EventKind::kCollective;
  if (device.streams)
    order_.add_kernel(row);
  else if (device.beside)
    order_.add_operation(row, line == LineKind::kBeside);
  const std::string attributes = xplane_attributes(row.stats);
  if (!attributes.empty()) {
    row.event.attributes =
        static_cast<int32_t>(index_of(spool_.intern(attributes)));
  }
  if (rank_devices_.size() > 1 && row.event.correlation >= 0) {
    calls_.add(row.event.correlation, device.rank);
  }
  add(row);
}

/// NCCL's kernels, and operations of devices that a program names so.
void XplaneImport::describe_collective(XplaneRow& row) {
  const bool kernel = is_nccl_kernel(std::string(row.name));
  const bool has_op = row.stats.has(XplaneStat::kHloOp);
  const std::string_view op =
      has_op ? row.stats.text(XplaneStat::kHloOp) : row.name;
  const auto kind = collective_of_hlo_name(has_op ? op : xplane_opcode(row));
  const XplaneCollective* known =
      modules_.find(row.stats.text(XplaneStat::kHloModule),
                    row.stats.number(XplaneStat::kProgram, -1), op);
  // A fusion may be named after a collective, and its kernel is none; and a
  // collective after what JAX calls it ("psum.3").
  const bool operation = known != nullptr || kind;
  if (!kernel && (!operation || row.stats.has(XplaneStat::kKernelDetails)))
    return;
  row.event.kind = EventKind::kCollective;
  CollectiveInfo info;
  if (kernel) info = describe_nccl_kernel(std::string(row.name));
  if (kind && *kind != CollectiveKind::kUnknown) info.kind = *kind;
  if (known != nullptr) {
    info = known->info;
    row.event.bytes = known->bytes;
  }
  row.event.detail = spool_.add_collective(info);
}

void XplaneImport::add_step(uint32_t rank, const XplaneRow& row) {
  int32_t step = xplane_step(row.name);
  if (step < 0 || steps_.contains({rank, step})) {
    const auto last = steps_.upper_bound({rank, INT32_MAX - 1});
    const bool any =
        last != steps_.begin() && std::prev(last)->first.first == rank;
    step = any ? std::prev(last)->first.second + 1 : 0;
  }
  steps_[{rank, step}] = {.rank = rank,
                          .step = step,
                          .start_ns = row.event.start_ns,
                          .end_ns = row.event.end_ns,
                          .warmup = false};
}

void XplaneImport::read_host(const Xplane& plane) {
  if (plane.damaged) ++report_.dropped["rest of a damaged plane"];
  std::vector<XplaneLine> lines;
  lines.reserve(plane.lines.size());
  for (const std::string_view bytes : plane.lines) {
    lines.push_back(decode_xplane_line(bytes));
  }
  join_launch_lanes(plane, lines);
  for (const XplaneLine& line : lines) read_host_line(plane, line);
}

void XplaneImport::read_host_line(const Xplane& plane, const XplaneLine& line) {
  if (line.damaged) ++report_.dropped["rest of a damaged line"];
  std::vector<uint32_t> cpus;
  if (!cpu_devices_.empty()) cpus = cpu_devices_.places(plane, line);
  const XplaneCalls::Owner owner =
      calls_.owner_of(plane, line, static_cast<uint32_t>(rank_devices_.size()));
  PoolTaskWalk tasks(pool_tasks_);
  std::vector<PoolEvent> found;
  XplaneRow row;
  XplaneEvents events(line);
  size_t place = 0;
  for (std::string_view bytes; events.next(bytes); ++place) {
    if (!read_xplane_row(plane, line, bytes, row, report_)) continue;
    found.clear();
    const bool mark = tasks.take(row, found);
    for (const PoolEvent& one : found) add_pool_event(line, one);
    if (mark) continue;
    std::optional<uint32_t> rank = calls_.rank_of(row.event.correlation);
    if (!cpus.empty()) rank = cpus[place];
    add_host_event(line, rank ? XplaneCalls::Owner{*rank, *rank + 1} : owner,
                   row);
  }
}

void XplaneImport::add_pool_event(const XplaneLine& line,
                                  const PoolEvent& found) {
  const auto& [name, time, rank, id, after] = found;
  XplaneRow row;
  row.name = name;
  row.event.kind = EventKind::kHostOp;
  row.event.rank = rank;
  row.event.stream = host_thread(rank, line);
  row.event.start_ns = row.event.enqueue_ns = time.start_ns;
  row.event.end_ns = time.end_ns;
  row.event.external_id = id;
  add(row);
  if (after >= 0) spool_.add_dependency({rank, after, id});
}

void XplaneImport::add_host_event(const XplaneLine& line,
                                  XplaneCalls::Owner owner, XplaneRow& row) {
  Event& event = row.event;
  std::string waited;
  if (!cpu_devices_.empty() && is_python_wait(row.name)) {
    waited = fmt::format("Wait: {}", row.name.substr(1));  // As XLA names its.
    row.name = waited;
  }
  if (is_python_call(row.name)) {
    ++report_.ignored["call of a Python function"];
    return;
  }
  if (event.correlation < 0 && event.end_ns == event.start_ns) {
    ++report_.ignored["instant on a host thread"];
    return;
  }
  classify_host_event(row);
  for (event.rank = owner.first; event.rank < owner.last; ++event.rank) {
    event.stream = host_thread(event.rank, line);
    add(row);
  }
}

void XplaneImport::classify_host_event(XplaneRow& row) {
  Event& event = row.event;
  event.kind =
      event.correlation >= 0 ? EventKind::kRuntime : EventKind::kHostOp;
  const int64_t number = row.stats.number(XplaneStat::kStepNumber, -1);
  if (number >= 0 && number < INT32_MAX) {
    const auto step = static_cast<int32_t>(number);
    event.kind = EventKind::kAnnotation;
    host_steps_.add(
        row.name,
        {.step = step, .start_ns = event.start_ns, .end_ns = event.end_ns});
  } else if (!cpu_devices_.empty() && row.stats.has(XplaneStat::kHloOp)) {
    describe_collective(row);
    // Its operations may run on other threads.
    if (is_hlo_container(row.name)) event.kind = EventKind::kAnnotation;
    if (event.kind == EventKind::kCollective) ++report_.collectives;
  } else if (!cpu_devices_.empty() && row.name == "ThunkExecutor::Execute") {
    // It may hold operations of other devices.
    event.kind = EventKind::kAnnotation;
  }
}

uint32_t XplaneImport::host_thread(uint32_t rank, const XplaneLine& line) {
  const int64_t id = threads_.size() < kMostThreads ? line.id : -1;
  return find_or_add(threads_, {rank, id}, [&] {
    return spool_.add_stream({.rank = rank,
                              .name = std::string(line.name),
                              .kind = StreamKind::kHostThread,
                              .process = 0,
                              .device = -1,
                              .number = id});
  });
}

void XplaneImport::add(XplaneRow& row) {
  row.event.name = spool_.intern(row.name);
  from_epoch_ = from_epoch_ || row.event.start_ns >= kEpochNs;
  spool_.add(row.event);
}

void XplaneImport::finish() {
  const auto ranks = static_cast<uint32_t>(rank_devices_.size());
  if (steps_.empty()) {
    for (const auto& [step, mark] : host_steps_.of_training()) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        steps_[{rank, step}] = mark;
        steps_[{rank, step}].rank = rank;
      }
    }
  }
  for (const auto& [key, step] : steps_) spool_.add_step(step);
  report_.steps = static_cast<int64_t>(steps_.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const bool known = from_epoch_ || started_ns_ > 0;
    spool_.rank(rank).clock_domain = known ? "epoch" : "capture";
    if (!from_epoch_) spool_.set_time_base(rank, started_ns_);
  }
}

}  // namespace reprise

#include "tests/runtime/cuda/unit_truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/cuda/cubins.h"
#include "runtime/cuda/device_programs.h"

namespace reprise {
namespace {

constexpr int kArchitecture = 90;  ///< Of the fake device.

/// Work of one step in the order in which it started.
std::vector<const Event*> work_of(const Trace& device, uint32_t rank,
                                  int32_t step) {
  const auto mark = std::find_if(device.steps.begin(), device.steps.end(),
                                 [&](const StepMark& one) {
                                   return one.rank == rank && one.step == step;
                                 });
  if (mark == device.steps.end()) return {};
  std::set<int64_t> calls;
  for (const Event& event : device.events) {
    if (event.rank == rank && event.kind == EventKind::kRuntime &&
        mark->start_ns <= event.start_ns && event.start_ns < mark->end_ns) {
      calls.insert(event.correlation);
    }
  }
  std::vector<const Event*> work;
  for (const Event& event : device.events) {
    const bool is_work = event.kind == EventKind::kCompute ||
                         event.kind == EventKind::kCollective ||
                         event.kind == EventKind::kCopy ||
                         event.kind == EventKind::kMemset;
    if (is_work && event.rank == rank && calls.contains(event.correlation))
      work.push_back(&event);
  }
  std::stable_sort(
      work.begin(), work.end(),
      [](const Event* a, const Event* b) { return a->start_ns < b->start_ns; });
  return work;
}

std::string text_of(const DeviceOperations& operations, size_t place) {
  if (place >= operations.size()) return "nothing";
  return fmt::format("{}:{}", operations[place].unit, operations[place].name);
}

class StepOfSchedule {
 public:
  StepOfSchedule(const Schedule& schedule, const Cubins& cubins,
                 DeviceCollectives collectives)
      : schedule_(schedule),
        cubins_(cubins),
        packed_(pack_dots(schedule)),
        collectives_(collectives) {}

  DeviceStep run() {
    for (size_t i = 0; i < schedule_.units.size(); ++i) {
      unit_ = static_cast<int64_t>(i);
      add_unit(schedule_.units[i]);
    }
    return std::move(step_);
  }

 private:
  void add_unit(const Unit& unit) {
    switch (unit.kind) {
      case UnitKind::kKernel:
        return add_launches(static_cast<size_t>(unit.kernel), places_of(unit));
      case UnitKind::kLibrary:
        return add_dot();
      case UnitKind::kCopy:
        return add(step_.compute, "Memcpy DtoD");
      case UnitKind::kRoutine:
        return;  // None runs on a GPU yet.
      case UnitKind::kCollective:
        break;
    }
    if (collectives_ == DeviceCollectives::kNccl) {
      add(step_.communication,
          "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<"
          "4096ul>)");
    } else if (collectives_ == DeviceCollectives::kGloo) {
      add(step_.communication, "Memcpy DtoH");
      add(step_.communication, "Memcpy HtoD");
    }
  }
  void add_dot() {
    const auto found = packed_.operands.find(UnitId(unit_));
    if (found != packed_.operands.end()) {
      for (const PackedOperand& operand : found->second) {
        add_launches(
            schedule_.kernels.size() + static_cast<size_t>(operand.kernel),
            {{}, {}});
      }
    }
    add(step_.compute, "matrix_product");
  }
  std::vector<ArgumentPlace> places_of(const Unit& unit) const {
    std::vector<ArgumentPlace> places;
    for (const auto* locations : {&unit.reads, &unit.writes}) {
      for (const Location& at : *locations) {
        const Buffer& buffer = schedule_.buffers[index_of(at.buffer)];
        places.push_back({.address = static_cast<uint64_t>(buffer.arena_offset +
                                                           at.offset_bytes),
                          .size_bytes = static_cast<uint64_t>(at.size_bytes)});
      }
    }
    return places;
  }
  void add_launches(size_t kernel, const std::vector<ArgumentPlace>& places) {
    const CubinKernel& cubin = cubins_.kernels[kernel];
    for (const LaunchedBlocks& blocks : launched_blocks(cubin, places))
      add(step_.compute, cubin.launches[blocks.launch].entry);
  }
  void add(DeviceOperations& to, const std::string& name) const {
    to.push_back({unit_, name});
  }

  const Schedule& schedule_;
  const Cubins& cubins_;
  const PackedDots packed_;
  const DeviceCollectives collectives_;
  int64_t unit_ = 0;
  DeviceStep step_;
};

}  // namespace

Result<DeviceStep> scheduled_step(const LoweredProgram& program,
                                  DeviceCollectives collectives,
                                  const std::string& kernel_cache) {
  const Result<Cubins> cubins = compile_cubins(
      device_programs(program.module, program.schedule).kernels, kArchitecture,
      {.cache_directory = kernel_cache,
       .nvrtc_search = {.only = REPRISE_FAKE_NVRTC}});
  if (!cubins) return pass(cubins.error());
  DeviceStep step =
      StepOfSchedule(program.schedule, *cubins, collectives).run();
  for (const ManifestParameter& parameter : program.manifest.parameters) {
    if (parameter.role == ParameterRole::kBatch)
      step.feeds.push_back({-1, "Memcpy HtoD"});
  }
  return step;
}

std::vector<std::string> compare_records(const Trace& device, uint32_t rank,
                                         int32_t step,
                                         const StreamNumbers& streams,
                                         const DeviceStep& scheduled) {
  std::map<int64_t, DeviceOperations> recorded;
  for (const Event* event : work_of(device, rank, step)) {
    recorded[device.streams[event->stream].number].push_back(
        {event->external_id, device.text(event->name)});
  }
  std::vector<std::string> differences;
  const std::array expected = {
      std::tuple("compute", streams.compute, &scheduled.compute),
      std::tuple("communication", streams.communication,
                 &scheduled.communication),
      std::tuple("feeds", streams.feeds, &scheduled.feeds)};
  for (const auto& [name, number, operations] : expected) {
    const DeviceOperations found = std::move(recorded[number]);
    recorded.erase(number);
    for (size_t i = 0; i < std::max(found.size(), operations->size()); ++i) {
      const std::string is = text_of(found, i), must = text_of(*operations, i);
      if (is == must) continue;
      differences.push_back(
          fmt::format("rank {}, step {}, {}: number {} is {}, not {}", rank,
                      step, name, i, is, must));
    }
  }
  for (const auto& [number, operations] : recorded) {
    differences.push_back(fmt::format(
        "rank {}, step {}: {} operations on stream {}, where none should be",
        rank, step, operations.size(), number));
  }
  return differences;
}

namespace {

struct UnitTimes {
  int64_t operations = 0;
  int64_t start_ns = std::numeric_limits<int64_t>::max(), end_ns = 0;
};

/// What is wrong with a unit's events; `last_start_ns` is that of the unit
/// before it on its stream.
std::string judge(const std::vector<const Event*>& events, const Unit& unit,
                  const UnitTimes& times, int64_t operations,
                  const Trace& trainer, int64_t& last_start_ns) {
  if (operations == 0) return events.empty() ? "" : "is there";
  if (events.size() != 1)
    return fmt::format("is there {} times", events.size());
  const Event& event = *events[0];
  const std::string counted =
      fmt::format("{{\"device_operations\":{}}}", operations);
  const EventKind kind = unit.kind == UnitKind::kCollective
                             ? EventKind::kCollective
                             : EventKind::kCompute;
  if (trainer.text(event.name) != unit.name)
    return "is called " + trainer.text(event.name);
  if (event.kind != kind) return "is of another kind";
  if (event.attributes < 0 ||
      trainer.strings[static_cast<size_t>(event.attributes)] != counted) {
    return "has not " + counted;
  }
  if (event.start_ns != times.start_ns || event.end_ns != times.end_ns)
    return "is not as long as its operations";
  if (event.start_ns < last_start_ns) return "starts before the unit before it";
  if (event.enqueue_ns > event.start_ns) return "starts before it is enqueued";
  last_start_ns = event.start_ns;
  return "";
}

}  // namespace

std::vector<std::string> compare_units(const Trace& trainer,
                                       const Trace& device, uint32_t rank,
                                       int32_t step, const Schedule& schedule,
                                       const DeviceStep& scheduled) {
  std::vector<int64_t> operations(schedule.units.size());
  for (const auto* stream : {&scheduled.compute, &scheduled.communication}) {
    for (const DeviceOperation& one : *stream)
      ++operations[static_cast<size_t>(one.unit)];
  }
  std::vector<UnitTimes> times(schedule.units.size());
  for (const Event* event : work_of(device, rank, step)) {
    if (event->external_id < 0 || event->external_id >= std::ssize(times))
      continue;
    UnitTimes& unit = times[static_cast<size_t>(event->external_id)];
    unit.start_ns = std::min(unit.start_ns, event->start_ns);
    unit.end_ns = std::max(unit.end_ns, event->end_ns);
  }
  std::map<int32_t, std::vector<const Event*>> events;
  for (const Event& event : trainer.events) {
    if (event.rank == rank && event.step == step && event.unit >= 0)
      events[event.unit].push_back(&event);
  }
  std::vector<std::string> differences;
  std::array<int64_t, 2> last_start_ns{};
  for (size_t i = 0; i < schedule.units.size(); ++i) {
    const Unit& unit = schedule.units[i];
    const std::string wrong =
        judge(events[static_cast<int32_t>(i)], unit, times[i], operations[i],
              trainer, last_start_ns[static_cast<size_t>(unit.stream)]);
    if (wrong.empty()) continue;
    differences.push_back(fmt::format("rank {}, step {}: unit {} ({}) {}", rank,
                                      step, i, unit.name, wrong));
  }
  return differences;
}

}  // namespace reprise

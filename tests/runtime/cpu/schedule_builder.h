// Schedules made by hand: buffers of one float each, all of them parameters,
// and units by a little language.
#pragma once

#include <cstdint>

#include "data/schedule/schedule.h"

namespace reprise {

/// out[0] = in[0] + 1, as a kernel of such a schedule.
inline void add_one(void* const* arguments, int64_t, int64_t) {
  *static_cast<float*>(arguments[1]) =
      *static_cast<const float*>(arguments[0]) + 1;
}

class ScheduleBuilder {
 public:
  explicit ScheduleBuilder(int buffers, size_t kernels = 1) {
    for (int i = 0; i < buffers; ++i) {
      schedule_.buffers.push_back({.kind = BufferKind::kParameter,
                                   .size_bytes = kBytes,
                                   .arena_offset = i * kBytes,
                                   .parameter = i});
      schedule_.parameter_buffers.push_back(static_cast<BufferId>(i));
    }
    schedule_.arena_bytes = buffers * kBytes;
    schedule_.kernels.resize(kernels);
    for (Kernel& kernel : schedule_.kernels) kernel.arguments.resize(2);
  }

  ScheduleBuilder& kernel(int from, int to, int32_t index = 0) {
    add("kernel", UnitKind::kKernel, from, to).kernel = index;
    return *this;
  }
  ScheduleBuilder& copy(int from, int to) {
    add("copy", UnitKind::kCopy, from, to);
    return *this;
  }
  ScheduleBuilder& all_reduce(int buffer) {
    Unit& unit = add("all-reduce", UnitKind::kCollective, buffer, buffer);
    unit.stream = Stream::kCommunication;
    unit.collective.elements = 1;
    unit.collective.bytes = 4;
    Location whole = location(buffer);
    whole.size_bytes = unit.collective.bytes;
    unit.collective.arrays = {{whole, whole}};
    return *this;
  }
  /// The unit added last waits for that one.
  ScheduleBuilder& after(uint32_t before) {
    schedule_.dependencies.push_back(
        {static_cast<UnitId>(before),
         static_cast<UnitId>(schedule_.units.size() - 1)});
    return *this;
  }
  const Schedule& schedule() const { return schedule_; }

 private:
  static constexpr int64_t kBytes = 64;

  static Location location(int buffer) {
    return {static_cast<BufferId>(buffer), 0, kBytes};
  }
  Unit& add(const char* name, UnitKind kind, int from, int to) {
    Unit& unit = schedule_.units.emplace_back();
    unit.name = name;
    unit.kind = kind;
    unit.reads = {location(from)};
    unit.writes = {location(to)};
    return unit;
  }
  Schedule schedule_;
};

}  // namespace reprise

#include "runtime/cpu/stream_waits.h"

#include <algorithm>

namespace reprise {
namespace {

UnitSequence walk_of(const Schedule& schedule, Stream stream) {
  UnitSequence walk;
  for (size_t i = 0; i < schedule.units.size(); ++i) {
    if (schedule.units[i].stream == stream)
      walk.units.push_back(static_cast<UnitId>(i));
  }
  walk.wait_for.assign(walk.units.size(), 0);
  walk.tell.assign(walk.units.size(), false);
  return walk;
}

// Drops waits that an earlier unit has made, and marks what the rest wait for.
void reduce(UnitSequence& waiting, UnitSequence& other) {
  uint32_t seen = 0;
  for (uint32_t& count : waiting.wait_for) {
    if (count <= seen) {
      count = 0;
      continue;
    }
    seen = count;
    other.tell[count - 1] = true;
  }
}

}  // namespace

StreamSequences make_stream_waits(const Schedule& schedule) {
  StreamSequences waits{
      .compute = walk_of(schedule, Stream::kCompute),
      .communication = walk_of(schedule, Stream::kCommunication)};
  std::vector<uint32_t> place(schedule.units.size());
  for (const UnitSequence* walk : {&waits.compute, &waits.communication}) {
    for (uint32_t i = 0; i < walk->units.size(); ++i)
      place[index_of(walk->units[i])] = i;
  }
  for (const Dependency& dependency : schedule.dependencies) {
    const Unit& before = schedule.units[index_of(dependency.before)];
    const Unit& after = schedule.units[index_of(dependency.after)];
    if (dependency.steps != 0 || before.stream == after.stream) continue;
    UnitSequence& walk =
        after.stream == Stream::kCompute ? waits.compute : waits.communication;
    uint32_t& count = walk.wait_for[place[index_of(dependency.after)]];
    count = std::max(count, place[index_of(dependency.before)] + 1);
  }
  reduce(waits.compute, waits.communication);
  reduce(waits.communication, waits.compute);
  return waits;
}

}  // namespace reprise

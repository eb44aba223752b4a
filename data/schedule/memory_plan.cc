#include "data/schedule/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "data/plan/unit_graph.h"

namespace reprise {
namespace {

constexpr int64_t kEndOfStep = INT64_MAX;

/// Places of units on the two streams.
struct StreamPlaces {
  std::vector<int64_t> place;  ///< [unit] on its own stream.
  /// [collective place] first computing place that waits for it.
  std::vector<int64_t> released;
  /// [collective place] last computing place that it waits for, or 0.
  std::vector<int64_t> awaited;
};

StreamPlaces find_places(const Schedule& schedule) {
  StreamPlaces places;
  int64_t computing = 0, communicating = 0;
  for (const Unit& unit : schedule.units) {
    places.place.push_back(unit.stream == Stream::kCompute ? computing++
                                                           : communicating++);
  }
  places.released.assign(static_cast<size_t>(communicating), kEndOfStep);
  places.awaited.assign(static_cast<size_t>(communicating), 0);
  for (const Dependency& dependency : schedule.dependencies) {
    const uint32_t before = index_of(dependency.before),
                   after = index_of(dependency.after);
    if (dependency.steps != 0 ||
        schedule.units[before].stream == schedule.units[after].stream) {
      continue;
    }
    if (schedule.units[after].stream == Stream::kCommunication) {
      int64_t& awaited =
          places.awaited[static_cast<size_t>(places.place[after])];
      awaited = std::max(awaited, places.place[before]);
      continue;
    }
    int64_t& released =
        places.released[static_cast<size_t>(places.place[before])];
    released = std::min(released, places.place[after]);
  }
  // Who waits for a later collective has waited for this one.
  for (size_t c = places.released.size(); c-- > 1;) {
    places.released[c - 1] =
        std::min(places.released[c - 1], places.released[c]);
  }
  // Nor does a later one start before an earlier one may.
  for (size_t c = 1; c < places.awaited.size(); ++c) {
    places.awaited[c] = std::max(places.awaited[c], places.awaited[c - 1]);
  }
  return places;
}

/// Free gaps below a growing end; best fit, neighbours merge.
class GrowingArena {
 public:
  int64_t allocate(int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      const auto [size, offset] = *fit;
      remove(offset, size);
      if (size > bytes) insert(offset + bytes, size - bytes);
      return offset;
    }
    // Grow, from the gap that touches the end if there is one.
    int64_t offset = end_;
    if (!gaps_.empty() &&
        gaps_.rbegin()->first + gaps_.rbegin()->second == end_) {
      offset = gaps_.rbegin()->first;
      remove(offset, end_ - offset);
    }
    end_ = offset + bytes;
    return offset;
  }

  void release(int64_t offset, int64_t bytes) {
    auto next = gaps_.lower_bound(offset);
    if (next != gaps_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        const int64_t size = previous->second;
        offset = previous->first;
        bytes += size;
        remove(offset, size);
        next = gaps_.lower_bound(offset);
      }
    }
    if (next != gaps_.end() && offset + bytes == next->first) {
      const int64_t size = next->second;
      remove(next->first, size);
      bytes += size;
    }
    insert(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  void insert(int64_t offset, int64_t bytes) {
    gaps_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  void remove(int64_t offset, int64_t bytes) {
    gaps_.erase(offset);
    by_size_.erase({bytes, offset});
  }

  std::map<int64_t, int64_t> gaps_;                ///< Offset -> bytes.
  std::set<std::pair<int64_t, int64_t>> by_size_;  ///< (bytes, offset).
  int64_t end_ = 0;
};

int64_t round_up(int64_t bytes, int64_t alignment) {
  return (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

/// Gives parameters and constants their own bytes; returns where temporaries
/// start.
int64_t place_persistent(Schedule* schedule, int64_t alignment) {
  int64_t end = 0;
  for (Buffer& buffer : schedule->buffers) {
    if (buffer.kind == BufferKind::kTemporary) continue;
    buffer.arena_offset = end;
    end += round_up(buffer.size_bytes, alignment);
  }
  return end;
}

}  // namespace

std::vector<LiveInterval> live_intervals(const Schedule& schedule) {
  const StreamPlaces places = find_places(schedule);
  std::vector<LiveInterval> live(schedule.buffers.size(), {kEndOfStep, -1});
  const auto use = [&](uint32_t u, const Location& location, bool writes) {
    LiveInterval& interval = live[index_of(location.buffer)];
    const int64_t place = places.place[u];
    if (schedule.units[u].stream == Stream::kCompute) {
      interval.begin = std::min(interval.begin, place);
      interval.end = std::max(interval.end, place);
      return;
    }
    // What a collective alone writes lives since the unit that it waits for,
    // which may still run beside collectives before it.
    if (writes) {
      interval.begin =
          std::min(interval.begin, places.awaited[static_cast<size_t>(place)]);
    }
    const int64_t released = places.released[static_cast<size_t>(place)];
    interval.end = std::max(interval.end,
                            released == kEndOfStep ? kEndOfStep : released - 1);
  };
  for (uint32_t u = 0; u < schedule.units.size(); ++u) {
    for (const Location& location : schedule.units[u].reads)
      use(u, location, false);
    for (const Location& location : schedule.units[u].writes)
      use(u, location, true);
  }
  for (const OutputBinding& output : schedule.outputs) {
    live[index_of(output.location.buffer)].end = kEndOfStep;
  }
  for (size_t b = 0; b < live.size(); ++b) {
    if (schedule.buffers[b].kind != BufferKind::kTemporary) live[b] = {0, -1};
  }
  return live;
}

void plan_memory(Schedule* schedule, int64_t alignment_bytes) {
  REPRISE_CHECK(alignment_bytes % kAlignmentBytes == 0);
  const std::vector<LiveInterval> live = live_intervals(*schedule);
  std::vector<uint32_t> by_begin;
  for (uint32_t b = 0; b < live.size(); ++b) {
    if (schedule->buffers[b].kind == BufferKind::kTemporary)
      by_begin.push_back(b);
  }
  std::stable_sort(
      by_begin.begin(), by_begin.end(),
      [&](uint32_t a, uint32_t b) { return live[a].begin < live[b].begin; });
  const int64_t base = place_persistent(schedule, alignment_bytes);
  GrowingArena arena;
  std::set<std::pair<int64_t, uint32_t>> by_end;
  const auto padded = [&](uint32_t b) {
    return round_up(schedule->buffers[b].size_bytes, alignment_bytes);
  };
  for (uint32_t b : by_begin) {
    while (!by_end.empty() && by_end.begin()->first < live[b].begin) {
      const uint32_t dead = by_end.begin()->second;
      arena.release(schedule->buffers[dead].arena_offset - base, padded(dead));
      by_end.erase(by_end.begin());
    }
    schedule->buffers[b].arena_offset = base + arena.allocate(padded(b));
    by_end.emplace(std::max(live[b].end, live[b].begin), b);
  }
  schedule->peak_temporary_bytes = arena.end();
  schedule->arena_bytes = base + arena.end();
}

}  // namespace reprise

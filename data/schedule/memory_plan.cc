#include "data/schedule/memory_plan.h"

#include <algorithm>
#include <utility>

#include "data/plan/unit_graph.h"
#include "data/schedule/takeovers.h"

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

int64_t round_up(int64_t bytes, int64_t alignment) {
  return (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

/// Gives constants, and parameters that lie here, their own bytes; returns
/// where temporaries start.
int64_t place_persistent(Schedule* schedule, int64_t alignment,
                         ParameterBytes parameters) {
  int64_t end = 0;
  for (Buffer& buffer : schedule->buffers) {
    if (buffer.kind == BufferKind::kTemporary) continue;
    buffer.arena_offset = end;
    if (buffer.kind == BufferKind::kConstant ||
        parameters == ParameterBytes::kHere)
      end += round_up(buffer.size_bytes, alignment);
  }
  return end;
}

struct ByteRange {
  int64_t begin = 0, end = 0;
  auto operator<=>(const ByteRange&) const = default;
};

/// Begin of the smallest gap below `end` that `taken`, which it sorts, leaves
/// for `bytes`; -1 where there is none.
int64_t smallest_gap(std::vector<ByteRange>* taken, int64_t bytes,
                     int64_t end) {
  std::sort(taken->begin(), taken->end());
  int64_t top = 0, best = -1, best_gap = 0;
  const auto close_gap = [&](int64_t begin) {
    const int64_t gap = begin - top;
    if (gap >= bytes && (best < 0 || gap < best_gap)) {
      best = top;
      best_gap = gap;
    }
  };
  for (const ByteRange& range : *taken) {
    close_gap(range.begin);
    top = std::max(top, range.end);
  }
  close_gap(end);
  return best;
}

/// Temporaries that share bytes one after the other, as one.
struct Chain {
  LiveInterval live;
  int64_t bytes = 0;
  std::vector<uint32_t> buffers;
};

std::vector<Chain> chains_of(const Schedule& schedule,
                             const std::vector<LiveInterval>& live,
                             const std::vector<uint32_t>& from,
                             int64_t alignment) {
  std::vector<uint32_t> by_begin;
  for (uint32_t b = 0; b < live.size(); ++b) {
    const bool used = live[b].end >= live[b].begin;
    if (used && schedule.buffers[b].kind == BufferKind::kTemporary)
      by_begin.push_back(b);
  }
  std::stable_sort(
      by_begin.begin(), by_begin.end(),
      [&](uint32_t a, uint32_t b) { return live[a].begin < live[b].begin; });
  std::vector<Chain> chains;
  std::vector<size_t> chain_of(live.size(), 0);
  for (const uint32_t b : by_begin) {
    const int64_t end = live[b].end;
    if (from[b] == Takeovers::kOwnBytes) {
      chain_of[b] = chains.size();
      chains.push_back(
          {.live = {live[b].begin, end},
           .bytes = round_up(schedule.buffers[b].size_bytes, alignment),
           .buffers = {b}});
      continue;
    }
    chain_of[b] = chain_of[from[b]];
    chains[chain_of[b]].live.end = end;
    chains[chain_of[b]].buffers.push_back(b);
  }
  return chains;
}

/// The bytes of parameters that temporaries may lie in while nobody needs them.
class LentBytes {
 public:
  LentBytes(const Schedule& schedule, const Takeovers& takeovers,
            int64_t alignment)
      : schedule_(schedule), takeovers_(takeovers), alignment_(alignment) {
    for (const BufferId id : schedule.parameter_buffers)
      parameters_.push_back({index_of(id), {}});
    std::stable_sort(parameters_.begin(), parameters_.end(),
                     [&](const Lender& a, const Lender& b) {
                       return bytes_of(a) < bytes_of(b);
                     });
  }

  /// The arena offset of the smallest parameter that can hold a chain, which
  /// then does; -1 where there is none.
  int64_t hold(const Chain& chain) {
    for (Lender& lender : parameters_) {
      if (bytes_of(lender) < chain.bytes ||
          !takeovers_.fits(chain.buffers.front(), chain.buffers.back(),
                           chain.live, lender.parameter))
        continue;
      const bool is_free = std::none_of(lender.held.begin(), lender.held.end(),
                                        [&](const LiveInterval& held) {
                                          return held.begin <= chain.live.end &&
                                                 chain.live.begin <= held.end;
                                        });
      if (!is_free) continue;
      lender.held.push_back(chain.live);
      return schedule_.buffers[lender.parameter].arena_offset;
    }
    return -1;
  }

 private:
  struct Lender {
    uint32_t parameter = 0;
    std::vector<LiveInterval> held;
  };
  int64_t bytes_of(const Lender& lender) const {
    return round_up(schedule_.buffers[lender.parameter].size_bytes, alignment_);
  }

  const Schedule& schedule_;
  const Takeovers& takeovers_;
  int64_t alignment_;
  std::vector<Lender> parameters_;  ///< From the smallest to the biggest.
};

/// Places chains, the biggest first, each in the smallest gap that those placed
/// before leave it, or above them.
class Packer {
 public:
  explicit Packer(std::vector<Chain> chains) : chains_(std::move(chains)) {
    std::stable_sort(
        chains_.begin(), chains_.end(),
        [](const Chain& a, const Chain& b) { return a.bytes > b.bytes; });
  }

  /// Returns the end of all. `lent`, if given, takes what it can.
  int64_t pack(int64_t base, LentBytes* lent, std::vector<Buffer>* buffers) {
    int64_t end = 0;
    for (const Chain& chain : chains_) {
      const int64_t held = lent != nullptr ? lent->hold(chain) : -1;
      if (held >= 0) {
        for (const uint32_t b : chain.buffers)
          (*buffers)[b].arena_offset = held;
        continue;
      }
      const int64_t offset = find_offset(chain);
      placed_.push_back({chain.live, {offset, offset + chain.bytes}});
      end = std::max(end, offset + chain.bytes);
      for (const uint32_t b : chain.buffers)
        (*buffers)[b].arena_offset = base + offset;
    }
    return end;
  }

 private:
  struct Placed {
    LiveInterval live;
    ByteRange bytes;
  };

  int64_t find_offset(const Chain& chain) {
    beside_.clear();
    for (const Placed& other : placed_) {
      if (other.live.begin <= chain.live.end &&
          chain.live.begin <= other.live.end)
        beside_.push_back(other.bytes);
    }
    return smallest_gap(&beside_, chain.bytes, INT64_MAX);
  }

  std::vector<Chain> chains_;
  std::vector<Placed> placed_;
  std::vector<ByteRange> beside_;
};

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
      interval.end = std::max(interval.end, interval.begin);
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

IdleBytes::IdleBytes(const Schedule& schedule)
    : schedule_(schedule), live_(live_intervals(schedule)) {}

int64_t IdleBytes::find(int64_t place, int64_t size_bytes) const {
  std::vector<ByteRange> taken;
  for (size_t b = 0; b < live_.size(); ++b) {
    const Buffer& buffer = schedule_.buffers[b];
    const bool idle = buffer.kind == BufferKind::kTemporary &&
                      (place < live_[b].begin || live_[b].end < place);
    if (idle) continue;
    const int64_t begin = buffer.arena_offset;
    taken.push_back(
        {begin, begin + round_up(buffer.size_bytes, kAlignmentBytes)});
  }
  return smallest_gap(&taken, round_up(size_bytes, kAlignmentBytes),
                      schedule_.arena_bytes);
}

void plan_memory(Schedule* schedule, int64_t alignment_bytes,
                 ParameterBytes parameters) {
  REPRISE_CHECK(alignment_bytes % kAlignmentBytes == 0);
  const int64_t base = place_persistent(schedule, alignment_bytes, parameters);
  const std::vector<LiveInterval> live = live_intervals(*schedule);
  const Takeovers takeovers(*schedule, live);
  LentBytes lent(*schedule, takeovers, alignment_bytes);
  const int64_t end =
      Packer(chains_of(*schedule, live, takeovers.from(), alignment_bytes))
          .pack(base, parameters == ParameterBytes::kHere ? &lent : nullptr,
                &schedule->buffers);
  schedule->peak_temporary_bytes = end;
  schedule->arena_bytes = base + end;
}

}  // namespace reprise

#include "data/schedule/takeovers.h"

#include <algorithm>

#include "data/kernel/kernel.h"
#include "data/schedule/called_program.h"

namespace reprise {

Takeovers::Takeovers(const Schedule& schedule,
                     const std::vector<LiveInterval>& live)
    : schedule_(schedule),
      live_(live),
      communicated_(live.size(), false),
      gaps_(live.size()),
      from_(live.size(), kOwnBytes),
      over_(live.size()),
      under_(live.size()) {
  for (const Unit& unit : schedule.units) {
    if (unit.stream != Stream::kCommunication) continue;
    for (const auto* list : {&unit.reads, &unit.writes}) {
      for (const Location& at : *list)
        communicated_[index_of(at.buffer)] = true;
    }
  }
  find_gaps();
  int64_t place = 0;
  for (const Unit& unit : schedule.units) {
    if (unit.stream != Stream::kCompute) continue;
    if (unit.kind == UnitKind::kKernel) add_kernel(unit, place);
    if (unit.kind == UnitKind::kRoutine) add_loop(unit, place);
    ++place;
  }
}

bool Takeovers::fits(uint32_t first, uint32_t last, const LiveInterval& live,
                     uint32_t parameter) const {
  const Gap& gap = gaps_[parameter];
  const auto has = [&](const std::vector<uint32_t>& list) {
    return std::find(list.begin(), list.end(), parameter) != list.end();
  };
  return (live.begin > gap.last_read ||
          (live.begin == gap.last_read && has(over_[first]))) &&
         (live.end < gap.first_write ||
          (live.end == gap.first_write && has(under_[last])));
}

void Takeovers::find_gaps() {
  std::vector<bool> lends(gaps_.size(), false);
  int64_t place = 0;
  for (const Unit& unit : schedule_.units) {
    if (unit.stream != Stream::kCompute) continue;
    for (const Location& at : unit.reads) {
      Gap& gap = gaps_[index_of(at.buffer)];
      if (gap.first_write == INT64_MAX) gap.last_read = place;
    }
    for (const Location& at : unit.writes) {
      Gap& gap = gaps_[index_of(at.buffer)];
      if (gap.first_write != INT64_MAX) continue;
      const Buffer& buffer = schedule_.buffers[index_of(at.buffer)];
      gap.first_write = place;
      lends[index_of(at.buffer)] = buffer.kind == BufferKind::kParameter &&
                                   at.size_bytes == buffer.size_bytes &&
                                   !communicated_[index_of(at.buffer)];
    }
    ++place;
  }
  for (size_t b = 0; b < gaps_.size(); ++b) {
    if (!lends[b]) gaps_[b] = {.last_read = 0, .first_write = 0};
  }
}

bool Takeovers::is_whole_temporary(const Location& at) const {
  const Buffer& buffer = schedule_.buffers[index_of(at.buffer)];
  return buffer.kind == BufferKind::kTemporary && at.size_bytes > 0 &&
         at.offset_bytes == 0 && at.size_bytes == buffer.size_bytes;
}

/// True if `old` ends and `value`, of as many bytes, begins at this place.
bool Takeovers::meet(const Location& old, const Location& value,
                     int64_t place) const {
  return old.buffer != value.buffer && old.size_bytes == value.size_bytes &&
         is_whole_temporary(old) && is_whole_temporary(value) &&
         !communicated_[index_of(old.buffer)] &&
         live_[index_of(old.buffer)].begin < place &&
         live_[index_of(old.buffer)].end == place &&
         live_[index_of(value.buffer)].begin == place;
}

/// True if a kernel reads all of `old` before it writes its result `write`
/// there, whatever argument reads it.
bool Takeovers::is_safe(const Unit& unit, const Location& old,
                        size_t write) const {
  const Kernel& kernel = schedule_.kernels[static_cast<size_t>(unit.kernel)];
  for (size_t r = 0; r < unit.reads.size(); ++r) {
    if (unit.reads[r].buffer == old.buffer &&
        !in_place_safe(kernel, r, unit.reads.size() + write))
      return false;
  }
  return true;
}

bool Takeovers::is_taken(BufferId buffer) const {
  return std::find(taken_.begin(), taken_.end(), buffer) != taken_.end();
}

void Takeovers::take(BufferId old, BufferId value) {
  from_[index_of(value)] = index_of(old);
  taken_.push_back(old);
}

void Takeovers::add_kernel(const Unit& unit, int64_t place) {
  taken_.clear();
  for (size_t w = 0; w < unit.writes.size(); ++w) {
    const Location& value = unit.writes[w];
    for (const Location& old : unit.reads) {
      if (meet(old, value, place) && !is_taken(old.buffer) &&
          is_safe(unit, old, w)) {
        take(old.buffer, value.buffer);
        break;
      }
    }
    for (const Location& old : unit.reads) {
      if (old.size_bytes == value.size_bytes) add_edge(unit, old, w, place);
    }
  }
}

/// Notes where a temporary may begin over a parameter, or end under it.
void Takeovers::add_edge(const Unit& unit, const Location& old, size_t write,
                         int64_t place) {
  const Location& value = unit.writes[write];
  const uint32_t from = index_of(old.buffer), to = index_of(value.buffer);
  const bool begins = gaps_[from].last_read == place &&
                      place < gaps_[from].first_write &&
                      is_whole_temporary(value) && live_[to].begin == place;
  const bool ends = gaps_[to].first_write == place &&
                    gaps_[to].last_read < place && is_whole_temporary(old) &&
                    live_[from].end == place && !communicated_[from];
  if ((begins || ends) && is_safe(unit, old, write)) {
    if (begins) over_[to].push_back(from);
    if (ends) under_[from].push_back(to);
  }
}

/// A loop's state is copied to its result first, array by array; what the body
/// never writes is read where the operand lies.
void Takeovers::add_loop(const Unit& unit, int64_t place) {
  if (!unit.routine.is_loop) return;
  taken_.clear();
  const Schedule& body = unit.routine.callees.back().program->schedule;
  const size_t count = std::min(unit.reads.size(), unit.writes.size());
  for (size_t k = 0; k < count; ++k) {
    const BufferId old = unit.reads[k].buffer;
    if (is_taken(old) || !meet(unit.reads[k], unit.writes[k], place)) continue;
    bool is_read_there = false;
    for (size_t other = 0; other < count; ++other) {
      is_read_there =
          is_read_there || (other != k && unit.reads[other].buffer == old &&
                            is_invariant(body, other));
    }
    if (!is_read_there) take(old, unit.writes[k].buffer);
  }
}

}  // namespace reprise

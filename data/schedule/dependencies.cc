#include "data/schedule/dependencies.h"

#include <algorithm>
#include <tuple>

namespace reprise {
namespace {

struct Access {
  uint32_t unit = 0;
  int64_t begin = 0, end = 0;

  bool overlaps(const Access& other) const {
    return begin < other.end && other.begin < end;
  }
  bool covers(const Access& other) const {
    return begin <= other.begin && other.end <= end;
  }
};

/// Accesses of one buffer that later ones may still have to wait for.
struct History {
  std::vector<Access> writes, reads;
  /// Parameters: for the step after.
  std::vector<Access> first_reads, first_writes;
};

Access access_of(uint32_t unit, const Location& location) {
  return {unit, location.offset_bytes,
          location.offset_bytes + location.size_bytes};
}

class Finder {
 public:
  Finder(const std::vector<Unit>& units, const std::vector<Buffer>& buffers)
      : units_(units), buffers_(buffers), histories_(buffers.size()) {}

  std::vector<Dependency> find() {
    for (uint32_t u = 0; u < units_.size(); ++u) {
      for (const Location& location : units_[u].reads) read(u, location);
      for (const Location& location : units_[u].writes) write(u, location);
    }
    for (size_t b = 0; b < buffers_.size(); ++b) {
      if (buffers_[b].kind == BufferKind::kParameter) cross_step(histories_[b]);
    }
    sort_dependencies(&found_);
    return std::move(found_);
  }

 private:
  void add(uint32_t before, uint32_t after, uint32_t steps) {
    if (before != after)
      found_.push_back({UnitId{before}, UnitId{after}, steps});
  }

  void read(uint32_t unit, const Location& location) {
    History& history = histories_[index_of(location.buffer)];
    const Access access = access_of(unit, location);
    bool written = false;
    for (const Access& write : history.writes) {
      if (!write.overlaps(access)) continue;
      add(write.unit, unit, 0);
      written = true;
    }
    history.reads.push_back(access);
    if (!written && is_parameter(location))
      history.first_reads.push_back(access);
  }

  void write(uint32_t unit, const Location& location) {
    History& history = histories_[index_of(location.buffer)];
    const Access access = access_of(unit, location);
    bool written = false;
    const auto wait = [&](const Access& earlier) {
      if (earlier.overlaps(access)) add(earlier.unit, unit, 0);
      return access.covers(earlier);
    };
    for (const Access& earlier : history.writes)
      written = written || earlier.overlaps(access);
    if (!written && is_parameter(location))
      history.first_writes.push_back(access);
    std::erase_if(history.writes, wait);
    std::erase_if(history.reads, wait);
    history.writes.push_back(access);
  }

  bool is_parameter(const Location& location) const {
    return buffers_[index_of(location.buffer)].kind == BufferKind::kParameter;
  }

  /// What the step leaves pending meets what the next one begins with.
  void cross_step(const History& history) {
    for (const Access& write : history.writes) {
      for (const Access& read : history.first_reads) {
        if (write.overlaps(read)) add(write.unit, read.unit, 1);
      }
    }
    for (const Access& first : history.first_writes) {
      for (const Access& read : history.reads) {
        if (read.overlaps(first)) add(read.unit, first.unit, 1);
      }
    }
  }

  const std::vector<Unit>& units_;
  const std::vector<Buffer>& buffers_;
  std::vector<History> histories_;
  std::vector<Dependency> found_;
};

}  // namespace

void sort_dependencies(std::vector<Dependency>* dependencies) {
  const auto key = [](const Dependency& d) {
    return std::tuple(index_of(d.after), index_of(d.before), d.steps, d.paces);
  };
  std::sort(dependencies->begin(), dependencies->end(),
            [&](const Dependency& a, const Dependency& b) {
              return key(a) < key(b);
            });
  // Of two alike the one stays that does not pace, which comes first.
  const auto alike = [](const Dependency& a, const Dependency& b) {
    return a.after == b.after && a.before == b.before && a.steps == b.steps;
  };
  dependencies->erase(
      std::unique(dependencies->begin(), dependencies->end(), alike),
      dependencies->end());
}

std::vector<Dependency> find_dependencies(const std::vector<Unit>& units,
                                          const std::vector<Buffer>& buffers) {
  return Finder(units, buffers).find();
}

std::vector<uint32_t> collectives_before(const Schedule& schedule) {
  const size_t count = schedule.units.size();
  std::vector<std::vector<uint32_t>> needs(count);
  for (const Dependency& edge : schedule.dependencies) {
    if (edge.steps > 0 || edge.paces) continue;
    needs[index_of(edge.after)].push_back(index_of(edge.before));
  }
  std::vector<uint32_t> before(count, 0);
  for (uint32_t unit = 0; unit < count; ++unit) {  // Topological.
    for (const uint32_t needed : needs[unit]) {
      const uint32_t own =
          schedule.units[needed].kind == UnitKind::kCollective ? 1 : 0;
      before[unit] = std::max(before[unit], before[needed] + own);
    }
  }
  return before;
}

}  // namespace reprise

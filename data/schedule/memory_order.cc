#include "data/schedule/memory_order.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace reprise {
namespace {

class MemoryOrder {
 public:
  explicit MemoryOrder(const Schedule& schedule)
      : schedule_(schedule),
        touched_(schedule.units.size()),
        users_(schedule.buffers.size()),
        uses_left_(schedule.buffers.size(), 0),
        is_held_(schedule.buffers.size(), false),
        successors_(schedule.units.size()),
        waits_for_(schedule.units.size(), 0),
        freed_(schedule.units.size(), 0) {
    find_users();
    find_edges();
  }

  std::vector<UnitRef> order() {
    for (uint32_t u = 0; u < waits_for_.size(); ++u) {
      if (waits_for_[u] == 0) make_ready(u);
    }
    std::vector<UnitRef> order;
    while (!ready_.empty()) {
      const uint32_t unit = ready_.begin()->second;
      ready_.erase(ready_.begin());
      waits_for_[unit] = kHasRun;
      run(unit);
      for (const uint32_t after : successors_[unit]) {
        if (--waits_for_[after] == 0) make_ready(after);
      }
      if (schedule_.units[unit].kind != UnitKind::kCopy)
        order.push_back(schedule_.units[unit].ref);
    }
    return order;
  }

 private:
  static constexpr int32_t kHasRun = -1;

  void find_users() {
    for (uint32_t u = 0; u < touched_.size(); ++u) {
      const Unit& unit = schedule_.units[u];
      std::vector<uint32_t>& touched = touched_[u];
      for (const auto* list : {&unit.reads, &unit.writes}) {
        for (const Location& at : *list) {
          const uint32_t b = index_of(at.buffer);
          if (schedule_.buffers[b].kind == BufferKind::kTemporary)
            touched.push_back(b);
        }
      }
      std::sort(touched.begin(), touched.end());
      touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
      for (const uint32_t b : touched) {
        users_[b].push_back(u);
        ++uses_left_[b];
      }
    }
    // Outputs are never freed.
    for (const OutputBinding& output : schedule_.outputs)
      ++uses_left_[index_of(output.location.buffer)];
  }

  void add_edge(uint32_t before, uint32_t after) {
    successors_[before].push_back(after);
    ++waits_for_[after];
  }

  void find_edges() {
    for (const Dependency& dependency : schedule_.dependencies) {
      if (dependency.steps == 0 && !dependency.paces)
        add_edge(index_of(dependency.before), index_of(dependency.after));
    }
    std::optional<uint32_t> last;
    for (uint32_t u = 0; u < schedule_.units.size(); ++u) {
      if (schedule_.units[u].kind != UnitKind::kCollective) continue;
      if (last) add_edge(*last, u);
      last = u;
    }
  }

  /// Bytes that running a unit now frees, less those that it begins to hold.
  int64_t freed_by(uint32_t unit) const {
    int64_t bytes = 0;
    for (const uint32_t b : touched_[unit]) {
      const int64_t size = schedule_.buffers[b].size_bytes;
      if (uses_left_[b] == 1) bytes += size;
      if (!is_held_[b]) bytes -= size;
    }
    return bytes;
  }

  void make_ready(uint32_t unit) {
    freed_[unit] = freed_by(unit);
    ready_.insert({-freed_[unit], unit});
  }

  void run(uint32_t unit) {
    for (const uint32_t b : touched_[unit]) {
      const bool changes = !is_held_[b] || uses_left_[b] == 2;
      is_held_[b] = true;
      --uses_left_[b];
      if (!changes) continue;
      for (const uint32_t user : users_[b]) {
        if (waits_for_[user] != 0) continue;
        ready_.erase({-freed_[user], user});
        make_ready(user);
      }
    }
  }

  const Schedule& schedule_;
  std::vector<std::vector<uint32_t>> touched_;     ///< [unit] Temporaries.
  std::vector<std::vector<uint32_t>> users_;       ///< [buffer] Units.
  std::vector<int32_t> uses_left_;                 ///< [buffer]
  std::vector<bool> is_held_;                      ///< [buffer]
  std::vector<std::vector<uint32_t>> successors_;  ///< [unit]
  std::vector<int32_t> waits_for_;  ///< [unit] Units, or kHasRun.
  std::vector<int64_t> freed_;      ///< [unit] As it stands in `ready_`.
  std::set<std::pair<int64_t, uint32_t>> ready_;  ///< (-freed, unit)
};

}  // namespace

std::vector<UnitRef> memory_order(const Schedule& schedule) {
  return MemoryOrder(schedule).order();
}

}  // namespace reprise

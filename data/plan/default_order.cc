// A list schedule in text order. What a collective sends comes as soon as it
// can be sent, but for gathers of what is there from the start, as of sharded
// weights: all of them would run at once, and their results lie in memory
// until each is read. They come two ahead of their readers, as in PyTorch's
// FSDP (limit_all_gathers). Cost: O((units + edges) log units).
#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include "data/plan/unit_graph.h"

namespace reprise {
namespace {

class DefaultOrder {
 public:
  DefaultOrder(const UnitGraph& graph,
               const std::vector<std::pair<uint32_t, uint32_t>>& extra)
      : graph_(graph),
        successors_(graph.units.size()),
        waits_(graph.units.size(), 0),
        follows_collective_(graph.units.size(), false) {
    for (uint32_t u = 0; u < graph.units.size(); ++u) {
      for (const uint32_t before : graph.units[u].predecessors) add(before, u);
      if (graph.units[u].chunk > 0) add(u - 1, u);
    }
    for (const auto& [before, after] : extra) add(before, after);
  }

  std::vector<uint32_t> run() {
    for (uint32_t u = 0; u < waits_.size(); ++u) {
      if (waits_[u] == 0) make_ready(u);
    }
    for (;;) {
      while (!gathers_.empty() && has_room(*gathers_.begin())) admit_gather();
      if (ready_.empty() && !gathers_.empty()) admit_gather();
      if (ready_.empty()) break;
      const uint32_t unit = ready_.top().second;
      ready_.pop();
      place(unit);
    }
    REPRISE_CHECK(order_.size() == graph_.units.size());
    return std::move(order_);
  }

 private:
  /// Collectives first, then the earliest in the text.
  using Key = std::pair<bool, uint32_t>;

  void add(uint32_t before, uint32_t after) {
    successors_[before].push_back(after);
    ++waits_[after];
  }

  bool communicates(uint32_t unit) const {
    return graph_.units[unit].role == OpRole::kCollective;
  }
  const PlannedCollective& collective(uint32_t unit) const {
    return graph_
        .collectives[static_cast<size_t>(graph_.units[unit].collective)];
  }

  void make_ready(uint32_t unit) {
    if (communicates(unit) && !follows_collective_[unit] &&
        collective(unit).kind == CollectiveKind::kAllGather) {
      gathers_.insert(unit);
    } else {
      ready_.emplace(!communicates(unit), unit);
    }
  }

  /// Whether what is gathered and not read yet is no more than two of the
  /// largest among it.
  bool has_room(uint32_t gather) const {
    int64_t most = collective(gather).bytes, all = most;
    for (const uint32_t other : unread_) {
      most = std::max(most, collective(other).bytes);
      all += collective(other).bytes;
    }
    return all <= 2 * most;
  }

  void admit_gather() {
    const uint32_t gather = *gathers_.begin();
    gathers_.erase(gathers_.begin());
    unread_.insert(gather);
    ready_.emplace(false, gather);
  }

  void place(uint32_t unit) {
    order_.push_back(unit);
    for (const uint32_t before : graph_.units[unit].predecessors)
      unread_.erase(before);
    for (const uint32_t after : successors_[unit]) {
      if (communicates(unit) || follows_collective_[unit])
        follows_collective_[after] = true;
      if (--waits_[after] == 0) make_ready(after);
    }
  }

  const UnitGraph& graph_;
  std::vector<std::vector<uint32_t>> successors_;
  std::vector<uint32_t> waits_;           ///< [unit] For how many.
  std::vector<bool> follows_collective_;  ///< [unit] At any distance.
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready_;
  std::set<uint32_t> gathers_;  ///< That wait for room.
  std::set<uint32_t> unread_;   ///< Gathers that are placed.
  std::vector<uint32_t> order_;
};

}  // namespace

std::vector<uint32_t> default_order(
    const UnitGraph& graph,
    const std::vector<std::pair<uint32_t, uint32_t>>& extra) {
  return DefaultOrder(graph, extra).run();
}

}  // namespace reprise

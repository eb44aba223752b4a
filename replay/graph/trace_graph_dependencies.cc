// Recorded dependencies (Chakra, PyTorch execution traces, dPRO): edges between
// events that carry an external id.
#include <algorithm>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

// Ids are looked up by number where that costs at most so many places an event.
constexpr uint64_t kSparsest = 8;

// The events of one rank by external id; the first one of an id counts.
class NodesById {
 public:
  NodesById(const GraphDraft& draft, uint32_t rank) {
    for (const uint32_t stream : draft.ranks[rank].recorded_streams) {
      for (const uint32_t index : draft.events_of(stream)) {
        const int64_t id = draft.trace.events[index].external_id;
        if (id < 0 || draft.first_node[index] == kNoNode) continue;
        sorted_.emplace_back(id, index);
      }
    }
    if (sorted_.empty()) return;
    std::sort(sorted_.begin(), sorted_.end());
    lowest_ = sorted_.front().first;
    const uint64_t range =
        static_cast<uint64_t>(sorted_.back().first - lowest_) + 1;
    if (range / kSparsest > sorted_.size()) return;
    direct_.assign(range, kNoNode);
    for (auto entry = sorted_.rbegin(); entry != sorted_.rend(); ++entry) {
      direct_[static_cast<size_t>(entry->first - lowest_)] = entry->second;
    }
  }

  // The event with an id, or kNoNode.
  uint32_t find(int64_t id) const {
    if (sorted_.empty() || id < lowest_ || id > sorted_.back().first) {
      return kNoNode;
    }
    if (!direct_.empty()) return direct_[static_cast<size_t>(id - lowest_)];
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(),
                                        std::pair(id, uint32_t{0}));
    return found->first == id ? found->second : kNoNode;
  }

 private:
  std::vector<std::pair<int64_t, uint32_t>> sorted_;  // Id, event.
  std::vector<uint32_t> direct_;
  int64_t lowest_ = 0;
};

// Steps of a row that serves several ranks overlap, where the recording says
// which one an event belongs to.
bool in_window(const GraphDraft& draft, const Event& event, int64_t start_ns) {
  if (event.step >= 0) return event.step == draft.window.step;
  const RankDraft& rank = draft.ranks[draft.place];
  return start_ns >= rank.start_ns && start_ns < rank.end_ns;
}

// From end to start; from start to start where recorded work overlaps.
void add_dependency(GraphDraft& draft, uint32_t before, uint32_t after,
                    bool timed) {
  const uint32_t to = draft.first_node[after];
  const uint32_t whole = draft.last_node[before];
  const uint32_t begun = draft.first_node[before];
  const int64_t start_ns = draft.nodes[to].start_ns;
  if (!timed || draft.nodes[whole].end_ns <= start_ns) {
    draft.add_edge(whole, to, EdgeKind::kDependency);
  } else if (draft.nodes[begun].start_ns <= start_ns && begun != to) {
    draft.add_edge(begun, to, EdgeKind::kDependency,
                   start_ns - draft.nodes[begun].start_ns, true);
  } else {
    ++draft.tally.contradicted;
  }
}

}  // namespace

void add_flat_stream(GraphDraft& draft, uint32_t stream) {
  const uint32_t rank = draft.rank_place[stream];
  RankDraft& window = draft.ranks[rank];
  const uint32_t first = static_cast<uint32_t>(draft.nodes.size());
  for (const uint32_t index : draft.events_of(stream)) {
    const Event& event = draft.trace.events[index];
    if (event.kind == EventKind::kAnnotation ||
        event.kind == EventKind::kOverhead) {
      continue;
    }
    const int64_t start_ns = draft.time[index].start_ns;
    if (!draft.window.all() && !in_window(draft, event, start_ns)) continue;
    draft.first_node[index] = draft.last_node[index] =
        static_cast<uint32_t>(draft.nodes.size());
    draft.nodes.push_back({.start_ns = start_ns,
                           .end_ns = draft.time[index].end_ns,
                           .event = index,
                           .rank = rank,
                           .collective = draft.collective_of(index)});
  }
  const uint32_t last = static_cast<uint32_t>(draft.nodes.size());
  if (last > first) window.flat.push_back({stream, first, last});
}

void add_dependencies(GraphDraft& draft) {
  const auto& all = draft.trace.dependencies;
  const uint32_t rank = draft.trace.ranks[draft.place].rank;
  const auto first = std::partition_point(
      all.begin(), all.end(),
      [&](const EventDependency& one) { return one.rank < rank; });
  const auto last = std::partition_point(
      first, all.end(),
      [&](const EventDependency& one) { return one.rank == rank; });
  if (first != last) {
    const NodesById by_id(draft, draft.place);
    for (auto one = first; one != last; ++one) {
      const uint32_t before = by_id.find(one->before);
      const uint32_t after = by_id.find(one->after);
      if (before == kNoNode || after == kNoNode) {
        // Of one step those of the others are not there.
        draft.tally.dangling += draft.window.all();
      } else {
        add_dependency(draft, before, after, draft.ranks[draft.place].timed);
      }
    }
  }
}

void order_free_nodes(GraphDraft& draft) {
  const RankDraft& rank = draft.ranks[draft.place];
  if (!rank.timed || rank.flat.empty()) return;
  std::vector<bool> bound(draft.nodes.size(), false);
  for (const DraftEdge& edge : draft.edges) bound[edge.to] = true;
  for (const StreamNodes& row : rank.flat) {
    uint32_t last = kNoNode;  // Of those that ended, the one that ended last.
    uint32_t running = row.first;
    for (uint32_t node = row.first; node < row.last; ++node) {
      for (; running < node &&
             draft.nodes[running].end_ns <= draft.nodes[node].start_ns;
           ++running) {
        if (last == kNoNode ||
            draft.nodes[running].end_ns >= draft.nodes[last].end_ns) {
          last = running;
        }
      }
      if (bound[node] || last == kNoNode) continue;
      draft.add_edge(last, node, EdgeKind::kStream);
    }
  }
}

}  // namespace reprise

// Which collective works wait for, where calls tell that they wait and not for
// what: a prefetched gather ends long before it is used, so that times do not
// tell it from the next one. A stream's collectives of one name are taken to be
// awaited by one other stream, each once and in their order, where all of them
// can be, no work began before its own had ended, and more works began just
// when their own had than when work of another stream had.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

/// A stream and a name.
using CollectiveRow = std::pair<uint32_t, StringId>;

class TurnFinder {
 public:
  TurnFinder(const GraphDraft& draft, uint32_t rank,
             std::span<const AwaitingWork> works)
      : draft_(draft),
        window_(draft.ranks[rank]),
        works_(works),
        latency_ns_(window_.wait_latency_ns.value_or(kAssumedWaitLatency)) {
    for (const StreamNodes& stream : window_.streams) {
      for (uint32_t node = stream.first; node < stream.last; ++node) {
        const Event& event = draft.trace.events[draft.nodes[node].event];
        if (draft.nodes[node].collective >= 0)
          collectives_[{event.stream, event.name}].push_back(node);
      }
    }
    for (auto& [row, nodes] : collectives_) {
      std::sort(nodes.begin(), nodes.end(),
                [&](uint32_t a, uint32_t b) { return is_before(a, b); });
    }
    for (const AwaitingWork& work : works)
      waiting_[stream_of(work.node)].push_back(work);
    for (auto& [stream, list] : waiting_) {
      std::sort(list.begin(), list.end(),
                [](const AwaitingWork& a, const AwaitingWork& b) {
                  return std::pair(a.called_ns, a.node) <
                         std::pair(b.called_ns, b.node);
                });
    }
  }

  std::vector<WaitInTurn> run() {
    std::vector<WaitInTurn> found;
    for (auto& [stream, works] : waiting_) {
      for (auto turns = likeliest(stream, works); !turns.empty();
           turns = likeliest(stream, works)) {
        found.insert(found.end(), turns.begin(), turns.end());
        settle(turns, works);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  using Turns = std::vector<WaitInTurn>;

  Turns likeliest(uint32_t stream, const std::vector<AwaitingWork>& works) {
    Turns best;
    int64_t most = 0;
    for (const auto& [row, nodes] : collectives_) {
      if (row.first == stream || nodes.size() > works.size()) continue;
      Turns turns = turns_of(works, nodes);
      const int64_t bound = bound_by(turns);
      if (bound <= most) continue;
      most = bound;
      best = std::move(turns);
    }
    return best;
  }

  /// Each work takes the first collective that was issued before it waited, and
  /// that none before it took. None where one began before its own ended, or
  /// collectives are left.
  Turns turns_of(const std::vector<AwaitingWork>& works,
                 const std::vector<uint32_t>& nodes) const {
    Turns turns;
    auto next = nodes.begin();
    for (const AwaitingWork& work : works) {
      if (next == nodes.end()) break;
      const DraftNode& own = draft_.nodes[*next];
      if (own.issued_ns > work.called_ns) continue;
      if (own.end_ns > draft_.nodes[work.node].start_ns + kClockTolerance)
        return {};
      turns.push_back({work.node, *next++});
    }
    if (next != nodes.end()) turns.clear();
    return turns;
  }

  /// How many works began just when their own collective ended, less those that
  /// did when something else had.
  int64_t bound_by(const Turns& turns) {
    if (turns.empty()) return 0;
    if (!bound_) bound_ = bound_works();
    int64_t bound = 0;
    for (const WaitInTurn& turn : turns) {
      const int64_t lag_ns =
          draft_.nodes[turn.node].start_ns - draft_.nodes[turn.awaited].end_ns;
      if (lag_ns <= latency_ns_) {
        ++bound;
      } else {
        bound -= std::binary_search(bound_->begin(), bound_->end(), turn.node);
      }
    }
    return bound;
  }

  bool is_before(uint32_t a, uint32_t b) const {
    return std::pair(draft_.nodes[a].issued_ns, a) <
           std::pair(draft_.nodes[b].issued_ns, b);
  }

  /// Works that began just when what another stream was given before had ended.
  std::vector<uint32_t> bound_works() const {
    std::vector<std::pair<int64_t, uint32_t>> ends;  // When; node.
    for (const StreamNodes& stream : window_.streams) {
      for (uint32_t node = stream.first; node < stream.last; ++node)
        ends.emplace_back(draft_.nodes[node].end_ns, node);
    }
    std::sort(ends.begin(), ends.end());
    std::vector<uint32_t> bound;
    for (const AwaitingWork& work : works_) {
      const int64_t start_ns = draft_.nodes[work.node].start_ns;
      auto at = std::lower_bound(ends.begin(), ends.end(),
                                 std::pair(start_ns - latency_ns_, 0U));
      const auto another = [&](const std::pair<int64_t, uint32_t>& end) {
        return draft_.nodes[end.second].issued_ns < work.called_ns &&
               stream_of(end.second) != stream_of(work.node);
      };
      while (at != ends.end() && at->first <= start_ns && !another(*at)) ++at;
      if (at != ends.end() && at->first <= start_ns) bound.push_back(work.node);
    }
    std::sort(bound.begin(), bound.end());
    return bound;
  }

  uint32_t stream_of(uint32_t node) const {
    return draft_.trace.events[draft_.nodes[node].event].stream;
  }

  /// A call makes a work wait for one stream.
  static void settle(const std::vector<WaitInTurn>& waits,
                     std::vector<AwaitingWork>& works) {
    auto wait = waits.begin();
    for (AwaitingWork& work : works) {
      if (wait == waits.end() || wait->node != work.node) continue;
      --work.calls;
      ++wait;
    }
    std::erase_if(works,
                  [](const AwaitingWork& work) { return work.calls == 0; });
  }

  const GraphDraft& draft_;
  const RankDraft& window_;
  std::span<const AwaitingWork> works_;
  int64_t latency_ns_;
  std::optional<std::vector<uint32_t>> bound_;  // Once asked for.
  std::map<CollectiveRow, std::vector<uint32_t>> collectives_;  // As issued.
  std::map<uint32_t, std::vector<AwaitingWork>> waiting_;  // Stream; as called.
};

}  // namespace

std::vector<WaitInTurn> waits_in_turn(const GraphDraft& draft, uint32_t rank,
                                      std::span<const AwaitingWork> works) {
  if (works.empty()) return {};
  return TurnFinder(draft, rank, works).run();
}

}  // namespace reprise

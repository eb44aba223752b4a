// Host threads that wait for each other: a thread that falls idle while another
// works and wakes when that one falls idle has waited for it (a backward pass
// on autograd's thread, a queue between threads).
#include <algorithm>
#include <optional>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

// The other thread must have been busy for this part of the pause: with work,
// or with waits that are explained.
constexpr int64_t kBusyPart = 2;

// One thread's stretches with how long it was busy up to each of them.
class Thread {
 public:
  Thread(const GraphDraft& draft, const StreamNodes& nodes)
      : draft_(draft), nodes_(nodes), waited_ns_(nodes.size(), 0) {
    count_busy();
  }

  // Counts the known waits as time that it was busy.
  void count_busy() {
    busy_ns_.assign(nodes_.size() + 1, 0);
    for (uint32_t place = 0; place < nodes_.size(); ++place) {
      const DraftNode& node = draft_.nodes[nodes_.first + place];
      busy_ns_[place + 1] = busy_ns_[place] + waited_ns_[place] +
                            node.named_ns + (node.end_ns - node.start_ns);
    }
  }

  // What the thread did before a node was to wait, and for what is known.
  // Before a collective it had nothing to do.
  void waited(uint32_t node, int64_t time_ns) {
    if (!is_collective(node)) waited_ns_[node - nodes_.first] = time_ns;
  }

  const StreamNodes& nodes() const { return nodes_; }

  // The first place that starts at or after a time.
  uint32_t place_at(int64_t time_ns) const {
    uint32_t low = 0, high = nodes_.size();
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (draft_.nodes[nodes_.first + middle].start_ns < time_ns) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // The node after which the thread was idle at `until_ns`, having fallen idle
  // after `from_ns` and been busy for most of the time between; else kNoNode.
  // One that reduces wakes who waits for that, and may have more to reduce.
  uint32_t fell_idle(int64_t from_ns, int64_t until_ns) const {
    const uint32_t last = last_ended(until_ns);
    if (last == kNoNode) return kNoNode;
    const uint32_t next = last - nodes_.first + 1;
    const int64_t end_ns = draft_.nodes[last].end_ns;
    if (end_ns < from_ns) return kNoNode;
    const bool idle = is_collective(last) || is_idle_between(last, until_ns);
    const bool busy =
        busy_ns(from_ns, next) >= (until_ns - from_ns) / kBusyPart;
    return idle && busy ? last : kNoNode;
  }

  // How long it was busy from a time on, up to the end of the node before place
  // `next`; what began before that time (a collective on a thread of its own)
  // counts from it.
  int64_t busy_ns(int64_t from_ns, uint32_t next) const {
    const uint32_t first = std::min(place_at(from_ns), next);
    const int64_t begun_ns =
        first == 0 ? 0
                   : draft_.nodes[nodes_.first + first - 1].end_ns - from_ns;
    return busy_ns_[next] - busy_ns_[first] + std::max<int64_t>(0, begun_ns);
  }

  // The last node that had ended by a time.
  uint32_t last_ended(int64_t time_ns) const {
    for (uint32_t place = place_at(time_ns); place > 0; --place) {
      const uint32_t node = nodes_.first + place - 1;
      if (draft_.nodes[node].end_ns <= time_ns) return node;
    }
    return kNoNode;
  }

  // The node that runs at a time, or kNoNode.
  uint32_t running(int64_t time_ns) const {
    const uint32_t next = place_at(time_ns + 1);
    if (next == 0) return kNoNode;
    const uint32_t node = nodes_.first + next - 1;
    return draft_.nodes[node].end_ns > time_ns ? node : kNoNode;
  }

 private:
  bool is_collective(uint32_t node) const {
    return draft_.trace.events[draft_.nodes[node].event].kind ==
           EventKind::kCollective;
  }

  // Of a node that has ended: whether the thread's next one waits for
  // `until_ns` and longer than it would by itself.
  bool is_idle_between(uint32_t node, int64_t until_ns) const {
    if (node + 1 == nodes_.first + nodes_.size()) return true;
    const int64_t next_ns = draft_.nodes[node + 1].start_ns;
    return next_ns >= until_ns &&
           next_ns - draft_.nodes[node].end_ns >= kShortestHostWait;
  }

  const GraphDraft& draft_;
  const StreamNodes& nodes_;
  std::vector<int64_t> waited_ns_;  // Right before each place.
  std::vector<int64_t> busy_ns_;    // Up to each place.
};

class Handoffs {
 public:
  Handoffs(GraphDraft& draft, uint32_t rank)
      : draft_(draft), window_(draft.ranks[rank]) {
    for (const StreamNodes& nodes : window_.threads) {
      if (threads_.size() == kMostSearched) break;
      threads_.emplace_back(draft, nodes);
    }
    for (const DraftEdge& edge : draft.edges) {
      if (edge.kind == EdgeKind::kDependency) recorded_.push_back(edge.to);
    }
    std::sort(recorded_.begin(), recorded_.end());
  }

  // Twice: who waited in a pause was busy in it, too.
  void run(int64_t origin_ns) {
    walk(origin_ns, [](Thread& thread, const DraftEdge& cause, int64_t ns) {
      thread.waited(cause.to, ns);
    });
    for (Thread& thread : threads_) thread.count_busy();
    walk(origin_ns, [&](Thread& thread, const DraftEdge& cause, int64_t) {
      // A message that the thread itself posted lets it go on already.
      if (stream_of(cause.from) != thread.nodes().stream)
        draft_.edges.push_back(cause);
    });
  }

 private:
  // Calls `visit` with each pause whose cause is known.
  template <typename Visit>
  void walk(int64_t origin_ns, const Visit& visit) {
    for (Thread& thread : threads_) {
      int64_t idle_from_ns = origin_ns;
      const StreamNodes& nodes = thread.nodes();
      if (nodes.is_messages) continue;  // Who posted them is known.
      for (uint32_t node = nodes.first; node < nodes.last; ++node) {
        const int64_t paused_ns = draft_.nodes[node].start_ns - idle_from_ns;
        if (paused_ns > 0) {
          if (const auto cause = cause_of(thread, node, idle_from_ns))
            visit(thread, *cause, paused_ns);
        }
        idle_from_ns = draft_.nodes[node].end_ns;
      }
    }
  }

  using Cause = std::optional<DraftEdge>;

  static Cause after(uint32_t source, uint32_t node) {
    if (source == kNoNode) return std::nullopt;
    return DraftEdge{.from = source, .to = node, .kind = EdgeKind::kHandoff};
  }

  Cause cause_of(const Thread& thread, uint32_t node, int64_t idle_from_ns) {
    const DraftNode& woken = draft_.nodes[node];
    const EventKind kind = draft_.trace.events[woken.event].kind;
    const bool collective = kind == EventKind::kCollective;
    const bool is_short = woken.start_ns - idle_from_ns < kShortestHostWait;
    if ((is_short && !collective) || woken.cut || waited_as_recorded(node))
      return std::nullopt;
    if (collective) {
      if (const Cause call = call_of(thread, node)) return call;
    }
    const uint32_t awaited = awaited_by(thread, node, idle_from_ns);
    if (awaited != kNoNode) return after(awaited, node);
    uint32_t best = kNoNode;
    for (const Thread& other : threads_) {
      if (!may_hand(other, thread)) continue;
      const uint32_t source =
          collective ? other.last_ended(woken.start_ns)
                     : other.fell_idle(idle_from_ns, woken.start_ns);
      if (source == kNoNode || draft_.nodes[source].end_ns < idle_from_ns) {
        continue;
      }
      if (best == kNoNode ||
          draft_.nodes[source].end_ns > draft_.nodes[best].end_ns) {
        best = source;
      }
    }
    return after(best, node);
  }

  uint32_t stream_of(uint32_t node) const {
    return draft_.trace.events[draft_.nodes[node].event].stream;
  }

  // What a thread waited for needs no guess where a dependency tells it.
  bool waited_as_recorded(uint32_t node) const {
    return std::binary_search(recorded_.begin(), recorded_.end(), node);
  }

  bool may_hand(const Thread& from, const Thread& to) const {
    return &from != &to &&
           draft_.same_process(from.nodes().stream, to.nodes().stream);
  }

  // What is known as a wait ended with its collective, or what else another
  // thread did last.
  uint32_t awaited_by(const Thread& thread, uint32_t node,
                      int64_t idle_from_ns) const {
    const auto wait =
        std::lower_bound(window_.awaited.begin(), window_.awaited.end(),
                         std::pair(node, uint32_t{0}));
    if (wait == window_.awaited.end() || wait->first != node) return kNoNode;
    if (wait->second != OperatorWait::kNoCollective)
      return draft_.last_node[wait->second];
    const uint32_t source = last_work(thread, draft_.nodes[node].start_ns);
    const bool is_before =
        source != kNoNode && draft_.nodes[source].end_ns <= idle_from_ns;
    return is_before ? kNoNode : source;
  }

  // What other threads of the process had ended last by a time.
  uint32_t last_work(const Thread& thread, int64_t time_ns) const {
    uint32_t latest = kNoNode;
    for (const Thread& other : threads_) {
      if (!may_hand(other, thread)) continue;
      const uint32_t ended = other.last_ended(time_ns);
      if (ended != kNoNode &&
          (latest == kNoNode ||
           draft_.nodes[ended].end_ns > draft_.nodes[latest].end_ns)) {
        latest = ended;
      }
    }
    return latest;
  }

  // A collective that begins on a thread of its own while PyTorch's call of it
  // still runs follows from the start of that call.
  Cause call_of(const Thread& thread, uint32_t node) const {
    const int64_t start_ns = draft_.nodes[node].start_ns;
    for (const Thread& other : threads_) {
      if (!may_hand(other, thread)) continue;
      const uint32_t call = other.running(start_ns);
      if (call == kNoNode) continue;
      const DraftNode& caller = draft_.nodes[call];
      if (!draft_.trace.text(draft_.trace.events[caller.event].name)
               .starts_with("c10d::"))
        continue;
      Cause cause = after(call, node);
      cause->delay_ns = start_ns - caller.start_ns;
      cause->from_start = true;
      return cause;
    }
    return std::nullopt;
  }

  GraphDraft& draft_;
  RankDraft& window_;
  std::vector<Thread> threads_;
  std::vector<uint32_t> recorded_;  // Nodes with a dependency, ascending.
};

}  // namespace

void add_handoffs(GraphDraft& draft, uint32_t rank) {
  const RankDraft& window = draft.ranks[rank];
  if (window.threads.size() < 2) return;
  int64_t origin_ns = window.start_ns;
  if (draft.window.all()) {
    origin_ns = kLatest;
    for (const StreamNodes& nodes : window.threads) {
      origin_ns = std::min(origin_ns, draft.nodes[nodes.first].start_ns);
    }
  }
  Handoffs(draft, rank).run(origin_ns);
}

}  // namespace reprise

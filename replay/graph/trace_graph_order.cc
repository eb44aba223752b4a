#include "replay/graph/trace_graph_order.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace reprise {
namespace {

// Steps spent on opening cycles one by one, for each node and edge; a file made
// of cycles is then cut along recorded time at once.
constexpr size_t kSearchFactor = 16;

// Kahn's algorithm over nodes and meetings, both called blocks: a block is a
// node outside meetings, or a meeting under its first member.
class Kahn {
 public:
  Kahn(LooseGraph& graph, const Meetings& meetings)
      : graph_(graph),
        meetings_(meetings),
        nodes_(static_cast<uint32_t>(graph.size())),
        left_out_(graph.to.size(), false),
        ready_(graph.rank_first.size() - 1),
        budget_(kSearchFactor * (graph.size() + graph.to.size())) {
    open_.assign(nodes_, 0);
    order_.reserve(nodes_);
    for (const uint32_t to : graph_.to) ++open_[block(to)];
  }

  NodeOrder run() {
    NodeOrder result;
    for (uint32_t node = 0; node < nodes_; ++node) {
      for (uint32_t at = graph_.first_out[node];
           at < graph_.first_out[node + 1]; ++at) {
        if (block(node) == block(graph_.to[at])) leave_out(at);
      }
    }
    for (uint32_t node = 0; node < nodes_; ++node) {
      if (block(node) == node && open_[node] == 0) make_ready(node);
    }
    advance();
    while (order_.size() < nodes_) {
      if (!open_cycle()) cut_along_time();
      advance();
    }
    result.dropped = dropped_;
    result.order = std::move(order_);
    if (dropped_ > 0) remove_left_out();
    return result;
  }

 private:
  uint32_t block(uint32_t node) const {
    const int32_t meeting = meetings_.of_node[node];
    return meeting < 0 ? node : members_of(meeting).front();
  }
  const std::vector<uint32_t>& members_of(int32_t meeting) const {
    return meetings_.members[static_cast<size_t>(meeting)];
  }
  uint32_t turn(uint32_t edge) const {
    return graph_.turn.empty() ? edge : graph_.turn[edge];
  }
  uint32_t source(uint32_t edge) const {
    const auto& first = graph_.first_out;
    return static_cast<uint32_t>(
        std::upper_bound(first.begin(), first.end(), edge) - first.begin() - 1);
  }

  // A block without open edges waits for its rank's turn. Without times ties
  // are the rule, and go to who was found first: then all have one queue.
  void make_ready(uint32_t first) {
    const auto& ranks = graph_.rank_first;
    if (!graph_.timed) {
      ready_[0].push_back(first);
    } else if (first < ranks[rank_] || first >= ranks[rank_ + 1]) {
      ready_[graph_.place_of_rank(first)].push_back(first);
    } else {
      ready_[rank_].push_back(first);
    }
  }

  // Rank after rank, each as far as it gets without the others, so that nodes
  // which lie together in time and rank lie together in the graph.
  void advance() {
    for (size_t before = SIZE_MAX; before != order_.size();) {
      before = order_.size();
      for (rank_ = 0; rank_ < ready_.size(); ++rank_) {
        std::vector<uint32_t>& queue = ready_[rank_];
        for (size_t at = 0; at < queue.size(); ++at) place(queue[at]);
        queue.clear();
      }
      rank_ = 0;
    }
  }

  void place(uint32_t first) {
    const int32_t meeting = meetings_.of_node[first];
    if (meeting < 0) return place_node(first);
    for (const uint32_t node : members_of(meeting)) order_.push_back(node);
    for (const uint32_t node : members_of(meeting)) close_edges(node);
  }
  void place_node(uint32_t node) {
    order_.push_back(node);
    close_edges(node);
  }

  void close_edges(uint32_t node) {
    for (uint32_t at = graph_.first_out[node]; at < graph_.first_out[node + 1];
         ++at) {
      if (dropped_ > 0 && left_out_[at]) continue;
      const uint32_t target = block(graph_.to[at]);
      if (--open_[target] == 0) make_ready(target);
    }
  }

  void leave_out(uint32_t edge) {
    left_out_[edge] = true;
    ++dropped_;
    --open_[block(graph_.to[edge])];
  }

  // Edges into blocks that are not ordered yet, by block.
  void index_incoming() {
    std::vector<bool> placed(nodes_, false);
    for (const uint32_t node : order_) placed[node] = true;
    incoming_.clear();
    for (uint32_t node = 0; node < nodes_; ++node) {
      if (placed[node]) continue;
      for (uint32_t at = graph_.first_out[node];
           at < graph_.first_out[node + 1]; ++at) {
        if (!left_out_[at]) incoming_.emplace_back(block(graph_.to[at]), at);
      }
    }
    std::sort(incoming_.begin(), incoming_.end(), [&](auto& a, auto& b) {
      return std::pair(a.first, turn(a.second)) <
             std::pair(b.first, turn(b.second));
    });
    indexed_ = true;
  }

  // An edge that still keeps a block from its place.
  uint32_t some_incoming(uint32_t target) {
    auto at = std::lower_bound(incoming_.begin(), incoming_.end(),
                               std::pair(target, uint32_t{0}));
    while (budget_ > 0 &&
           (left_out_[at->second] || open_[block(source(at->second))] == 0)) {
      --budget_;
      ++at;
    }
    return at->second;
  }

  // Walks backwards from a stuck block until one comes again, and leaves out
  // the least trusted edge of that cycle. False: too much was spent on it.
  bool open_cycle() {
    if (!indexed_) {
      index_incoming();
      seen_.assign(nodes_, 0);
    }
    while (stuck_ < nodes_ && open_[stuck_] == 0) ++stuck_;
    ++walk_;
    std::vector<uint32_t> path;
    uint32_t at = static_cast<uint32_t>(stuck_);
    while (seen_[at] != walk_) {
      if (budget_ == 0) return false;
      --budget_;
      seen_[at] = walk_;
      const uint32_t edge = some_incoming(at);
      if (budget_ == 0) return false;
      path.push_back(edge);
      at = block(source(edge));
    }
    size_t begin = 0;  // What led into the cycle is not of it.
    while (block(graph_.to[path[begin]]) != at) ++begin;
    uint32_t worst = path[begin];
    for (size_t place = begin; place < path.size(); ++place) {
      if (less_trusted(path[place], worst)) worst = path[place];
    }
    drop(worst);
    return true;
  }

  bool less_trusted(uint32_t a, uint32_t b) const {
    if (graph_.edge_kind(a) != graph_.edge_kind(b)) {
      return graph_.edge_kind(a) > graph_.edge_kind(b);
    }
    const auto back_ns = [&](uint32_t edge) {
      return graph_.start_ns[source(edge)] - graph_.start_ns[graph_.to[edge]];
    };
    return back_ns(a) != back_ns(b) ? back_ns(a) > back_ns(b)
                                    : turn(a) < turn(b);
  }

  void drop(uint32_t edge) {
    leave_out(edge);
    const uint32_t target = block(graph_.to[edge]);
    if (open_[target] == 0) make_ready(target);
  }

  // Leaves out, among the blocks that remain, every edge that does not lead on
  // in recorded time: what is left cannot close a cycle.
  void cut_along_time() {
    const auto later = [&](uint32_t a, uint32_t b) {
      return std::pair(graph_.start_ns[a], a) >
             std::pair(graph_.start_ns[b], b);
    };
    if (!indexed_) index_incoming();
    for (const auto& [target, edge] : incoming_) {
      const uint32_t from = block(source(edge));
      if (left_out_[edge] || open_[from] == 0) continue;
      if (later(from, target)) drop(edge);
    }
  }

  void remove_left_out() {
    uint32_t kept = 0, next = 0;
    for (uint32_t node = 0; node < nodes_; ++node) {
      const uint32_t first = std::exchange(next, graph_.first_out[node + 1]);
      for (uint32_t edge = first; edge < next; ++edge) {
        if (left_out_[edge]) continue;
        graph_.to[kept] = graph_.to[edge];
        graph_.delay[kept] = graph_.delay[edge];
        if (!graph_.turn.empty()) graph_.turn[kept] = graph_.turn[edge];
        graph_.kind[kept++] = graph_.kind[edge];
      }
      graph_.first_out[node + 1] = kept;
    }
    graph_.to.resize(kept);
    graph_.delay.resize(kept);
    graph_.kind.resize(kept);
    if (!graph_.turn.empty()) graph_.turn.resize(kept);
  }

  LooseGraph& graph_;
  const Meetings& meetings_;
  const uint32_t nodes_;
  std::vector<uint32_t> open_;  // [block] edges from blocks without a place.
  std::vector<bool> left_out_;  // [edge]
  std::vector<std::vector<uint32_t>> ready_;  // [rank place] blocks.
  std::vector<uint32_t> order_;
  uint32_t rank_ = 0;  // Whose turn it is.
  int64_t dropped_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> incoming_;  // Block, edge.
  std::vector<uint32_t> seen_;                           // [block] last walk.
  uint32_t walk_ = 0;
  size_t stuck_ = 0;
  size_t budget_;
  bool indexed_ = false;
};

}  // namespace

NodeOrder order_nodes(LooseGraph& graph, const Meetings& meetings) {
  return Kahn(graph, meetings).run();
}

}  // namespace reprise

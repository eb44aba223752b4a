#include "replay/graph/trace_graph_order.h"

#include <algorithm>

namespace reprise {
namespace {

// Steps spent on opening cycles one by one, for each node and edge; a file made
// of cycles is then cut along recorded time at once.
constexpr size_t kSearchFactor = 16;

// Kahn's algorithm over nodes and meetings, both called blocks: a block is a
// node outside meetings, or a meeting under its first member.
class Kahn {
 public:
  Kahn(const std::vector<DraftNode>& nodes, const Meetings& meetings,
       std::vector<DraftEdge>& edges)
      : nodes_(nodes), meetings_(meetings), edges_(edges) {
    const size_t count = nodes.size();
    first_out_.assign(count + 1, 0);
    open_.assign(count, 0);
    left_out_.assign(edges.size(), false);
    for (const DraftEdge& edge : edges_) ++first_out_[edge.from + 1];
    for (size_t node = 0; node < count; ++node) {
      first_out_[node + 1] += first_out_[node];
    }
    out_.resize(edges_.size());
    std::vector<uint32_t> next(first_out_.begin(), first_out_.end() - 1);
    for (uint32_t edge = 0; edge < edges_.size(); ++edge) {
      out_[next[edges_[edge].from]++] = edge;
      ++open_[block(edges_[edge].to)];
    }
    budget_ = kSearchFactor * (count + edges_.size());
  }

  NodeOrder run() {
    NodeOrder result;
    for (uint32_t edge = 0; edge < edges_.size(); ++edge) {
      const bool within = block(edges_[edge].from) == block(edges_[edge].to);
      if (within) leave_out(edge);
    }
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      if (block(node) == node && open_[node] == 0) order_block(node);
    }
    advance();
    while (order_.size() < nodes_.size()) {
      if (!open_cycle()) cut_along_time();
      advance();
    }
    result.dropped = dropped_;
    result.order = std::move(order_);
    remove_left_out();
    return result;
  }

 private:
  uint32_t block(uint32_t node) const {
    const uint32_t meeting = meetings_.of_node[node];
    return meeting == kNoNode ? node : meetings_.members[meeting].front();
  }

  // Places a block without open edges at the end of the order.
  void order_block(uint32_t first) {
    const uint32_t meeting = meetings_.of_node[first];
    if (meeting == kNoNode) {
      order_.push_back(first);
    } else {
      const auto& members = meetings_.members[meeting];
      order_.insert(order_.end(), members.begin(), members.end());
    }
  }

  void advance() {
    for (; done_ < order_.size(); ++done_) {
      const uint32_t node = order_[done_];
      for (uint32_t at = first_out_[node]; at < first_out_[node + 1]; ++at) {
        if (!left_out_[out_[at]]) close(edges_[out_[at]].to);
      }
    }
  }

  void close(uint32_t to) {
    const uint32_t target = block(to);
    if (--open_[target] == 0) order_block(target);
  }

  void leave_out(uint32_t edge) {
    left_out_[edge] = true;
    ++dropped_;
    --open_[block(edges_[edge].to)];
  }

  // Edges into blocks that are not ordered yet, by block.
  void index_incoming() {
    std::vector<bool> placed(nodes_.size(), false);
    for (const uint32_t node : order_) placed[node] = true;
    incoming_.clear();
    for (uint32_t edge = 0; edge < edges_.size(); ++edge) {
      if (left_out_[edge] || placed[edges_[edge].from]) continue;
      incoming_.emplace_back(block(edges_[edge].to), edge);
    }
    std::sort(incoming_.begin(), incoming_.end());
    indexed_ = true;
  }

  // An edge that still keeps a block from its place.
  uint32_t some_incoming(uint32_t target) {
    auto at = std::lower_bound(incoming_.begin(), incoming_.end(),
                               std::pair(target, uint32_t{0}));
    while (budget_ > 0 && (left_out_[at->second] ||
                           open_[block(edges_[at->second].from)] == 0)) {
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
      seen_.assign(nodes_.size(), 0);
    }
    while (stuck_ < nodes_.size() && open_[stuck_] == 0) ++stuck_;
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
      at = block(edges_[edge].from);
    }
    size_t begin = 0;  // What led into the cycle is not of it.
    while (block(edges_[path[begin]].to) != at) ++begin;
    uint32_t worst = path[begin];
    for (size_t place = begin; place < path.size(); ++place) {
      if (less_trusted(path[place], worst)) worst = path[place];
    }
    drop(worst);
    return true;
  }

  bool less_trusted(uint32_t left, uint32_t right) const {
    const DraftEdge &a = edges_[left], &b = edges_[right];
    if (a.kind != b.kind) return a.kind > b.kind;
    const int64_t back_a = nodes_[a.from].start_ns - nodes_[a.to].start_ns;
    const int64_t back_b = nodes_[b.from].start_ns - nodes_[b.to].start_ns;
    return back_a != back_b ? back_a > back_b : left < right;
  }

  void drop(uint32_t edge) {
    leave_out(edge);
    const uint32_t target = block(edges_[edge].to);
    if (open_[target] == 0) order_block(target);
  }

  // Leaves out, among the blocks that remain, every edge that does not lead on
  // in recorded time: what is left cannot close a cycle.
  void cut_along_time() {
    const auto later = [&](uint32_t a, uint32_t b) {
      return nodes_[a].start_ns != nodes_[b].start_ns
                 ? nodes_[a].start_ns > nodes_[b].start_ns
                 : a > b;
    };
    if (!indexed_) index_incoming();
    for (const auto& [target, edge] : incoming_) {
      const uint32_t source = block(edges_[edge].from);
      if (left_out_[edge] || open_[source] == 0) continue;
      if (later(source, target)) drop(edge);
    }
  }

  void remove_left_out() {
    size_t kept = 0;
    for (size_t edge = 0; edge < edges_.size(); ++edge) {
      if (!left_out_[edge]) edges_[kept++] = edges_[edge];
    }
    edges_.resize(kept);
  }

  const std::vector<DraftNode>& nodes_;
  const Meetings& meetings_;
  std::vector<DraftEdge>& edges_;
  std::vector<uint32_t> first_out_, out_;
  std::vector<uint32_t> open_;  // [block] edges from blocks without a place.
  std::vector<bool> left_out_;  // [edge]
  std::vector<uint32_t> order_;
  size_t done_ = 0;
  int64_t dropped_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> incoming_;  // Block, edge.
  std::vector<uint32_t> seen_;                           // [block] last walk.
  uint32_t walk_ = 0;
  size_t stuck_ = 0, budget_ = 0;
  bool indexed_ = false;
};

}  // namespace

NodeOrder order_nodes(const std::vector<DraftNode>& nodes,
                      const Meetings& meetings, std::vector<DraftEdge>& edges) {
  return Kahn(nodes, meetings, edges).run();
}

}  // namespace reprise

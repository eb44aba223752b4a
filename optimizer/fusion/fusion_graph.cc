// Adjacency lists of the groups, edited in place as they merge: both die, a new
// node takes over their neighbours. Whether a merge stays convex is a search of
// the nodes behind one of the two.
#include "optimizer/fusion/fusion_graph.h"

#include <algorithm>
#include <iterator>

namespace reprise {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

std::vector<uint32_t> united(const std::vector<uint32_t>& a,
                             const std::vector<uint32_t>& b) {
  std::vector<uint32_t> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(),
                 std::back_inserter(all));
  return all;
}

void replace_neighbours(std::vector<uint32_t>& list, uint32_t a, uint32_t b,
                        uint32_t merged) {
  std::erase_if(list, [&](uint32_t node) { return node == a || node == b; });
  list.push_back(merged);  // The newest id is the largest: still ascending.
}

void insert_sorted(std::vector<uint32_t>& list, uint32_t node) {
  const auto place = std::lower_bound(list.begin(), list.end(), node);
  if (place == list.end() || *place != node) list.insert(place, node);
}

}  // namespace

FusionGraph::FusionGraph(const OpGraph& graph) : graph_(&graph) {
  add_nodes();
  connect();
  visited_.assign(nodes_.size(), 0);
}

void FusionGraph::add_nodes() {
  node_of_.assign(graph_->role.size(), kNone);
  for (uint32_t i = 0; i < graph_->role.size(); ++i) {
    const InstructionId op{i};
    if (!graph_->is_op(op)) continue;
    node_of_[i] = static_cast<uint32_t>(nodes_.size());
    FusionNode node;
    node.ops = {op};
    node.is_kernel = graph_->role_of(op) == OpRole::kKernel;
    node.is_dot = graph_->role_of(op) == OpRole::kDot;
    nodes_.push_back(std::move(node));
  }
}

void FusionGraph::connect_input(uint32_t id, InstructionId value) {
  FusionNode& node = nodes_[id];
  const InstructionId producer = graph_->producer[index_of(value)];
  const uint32_t before =
      producer == kNoInstruction ? kNone : node_of_[index_of(producer)];
  if (before == kNone) return;
  FusionNode& source = nodes_[before];
  if (graph_->is_output[index_of(value)] || !node.is_kernel) {
    source.read_outside = true;
  }
  if (graph_->role_of(node.ops.front()) == OpRole::kCollective) {
    source.feeds_collective = true;
  }
  insert_sorted(node.before, before);
  insert_sorted(source.after, id);
  for (size_t w = 0; w < node.waits_for.size(); ++w) {
    node.waits_for[w] |= source.waits_for[w];
  }
}

void FusionGraph::connect() {
  std::vector<uint32_t> collective_of(graph_->role.size(), kNone);
  uint32_t collectives = 0;
  for (uint32_t i = 0; i < graph_->role.size(); ++i) {
    if (graph_->role[i] == OpRole::kCollective)
      collective_of[i] = collectives++;
  }
  for (uint32_t id = 0; id < nodes_.size(); ++id) {
    FusionNode& node = nodes_[id];
    node.waits_for.assign((collectives + 63) / 64, 0);
    const InstructionId op = node.ops.front();
    for (const InstructionId value : graph_->inputs[index_of(op)]) {
      connect_input(id, value);
    }
    const uint32_t own = collective_of[index_of(op)];
    if (own != kNone) node.waits_for[own / 64] |= uint64_t{1} << (own % 64);
  }
  for (const InstructionId value : graph_->outputs) {
    const InstructionId producer = graph_->producer[index_of(value)];
    if (producer == kNoInstruction || node_of_[index_of(producer)] == kNone)
      continue;
    nodes_[node_of_[index_of(producer)]].read_outside = true;
  }
}

bool FusionGraph::reaches(uint32_t from, uint32_t to) const {
  // A path of at least one node between the two: direct edges do not count.
  ++mark_;
  std::vector<uint32_t> stack;
  const auto visit = [&](uint32_t node) {
    if (visited_[node] == mark_) return;
    visited_[node] = mark_;
    stack.push_back(node);
  };
  for (const uint32_t next : nodes_[from].after) {
    if (next != to) visit(next);
  }
  while (!stack.empty()) {
    const uint32_t node = stack.back();
    stack.pop_back();
    for (const uint32_t next : nodes_[node].after) {
      if (next == to) return true;
      visit(next);
    }
  }
  return false;
}

bool FusionGraph::is_convex(uint32_t a, uint32_t b) const {
  return !reaches(a, b) && !reaches(b, a);
}

uint32_t FusionGraph::merge(uint32_t a, uint32_t b) {
  const auto id = static_cast<uint32_t>(nodes_.size());
  FusionNode merged;
  std::merge(nodes_[a].ops.begin(), nodes_[a].ops.end(), nodes_[b].ops.begin(),
             nodes_[b].ops.end(), std::back_inserter(merged.ops));
  merged.is_kernel = nodes_[a].is_kernel && nodes_[b].is_kernel;
  merged.is_dot = nodes_[a].is_dot || nodes_[b].is_dot;
  merged.before = united(nodes_[a].before, nodes_[b].before);
  merged.after = united(nodes_[a].after, nodes_[b].after);
  std::erase_if(merged.before,
                [&](uint32_t node) { return node == a || node == b; });
  std::erase_if(merged.after,
                [&](uint32_t node) { return node == a || node == b; });
  merged.waits_for = nodes_[a].waits_for;
  for (size_t w = 0; w < merged.waits_for.size(); ++w) {
    merged.waits_for[w] |= nodes_[b].waits_for[w];
  }
  merged.feeds_collective =
      nodes_[a].feeds_collective || nodes_[b].feeds_collective;
  merged.read_outside = nodes_[a].read_outside || nodes_[b].read_outside;
  for (const uint32_t node : merged.before)
    replace_neighbours(nodes_[node].after, a, b, id);
  for (const uint32_t node : merged.after)
    replace_neighbours(nodes_[node].before, a, b, id);
  for (const InstructionId op : merged.ops) node_of_[index_of(op)] = id;
  nodes_[a].alive = nodes_[b].alive = false;
  nodes_.push_back(std::move(merged));
  visited_.push_back(0);
  return id;
}

std::vector<InstructionId> FusionGraph::outputs_of(
    const std::vector<InstructionId>& ops) const {
  std::vector<InstructionId> outputs;
  for (const InstructionId op : ops) {
    const InstructionId value = graph_->value_of[index_of(op)];
    const auto& readers = graph_->readers[index_of(value)];
    const bool needed =
        graph_->is_output[index_of(value)] ||
        std::any_of(readers.begin(), readers.end(), [&](InstructionId reader) {
          return !std::binary_search(ops.begin(), ops.end(), reader);
        });
    if (needed) outputs.push_back(value);
  }
  return outputs;
}

std::vector<uint32_t> FusionGraph::siblings(uint32_t id) const {
  std::vector<uint32_t> found;
  const FusionNode& node = nodes_[id];
  for (const InstructionId op : node.ops) {
    for (const InstructionId value : graph_->inputs[index_of(op)]) {
      if (std::binary_search(node.ops.begin(), node.ops.end(), value)) continue;
      if (graph_->at(value).shape.dimensions.empty())
        continue;  // Sharing a scalar saves nothing.
      for (const InstructionId reader : graph_->readers[index_of(value)]) {
        const uint32_t other = node_of_[index_of(reader)];
        if (other == kNone || other == id || !nodes_[other].is_kernel) continue;
        found.push_back(other);
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace reprise

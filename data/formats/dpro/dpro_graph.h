// The data-flow graph of one rank of a dPRO trace: operators under dPRO's
// standard names ("FW.x", "BW.x", "Comm.3", "UPDATE_.x"), and which of them
// depend on which.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/formats/dpro/dpro_gml.h"

namespace reprise {

constexpr uint32_t kNoDproNode = UINT32_MAX;

class DproGraph {
 public:
  DproGraph() = default;
  /// Takes labels with a category as they are, and sorts framework's names
  /// into categories as dPRO does: what follows a gradient's communication, or
  /// assigns, is an update; gradients and all that follows them is backward.
  explicit DproGraph(const GmlGraph& gml);

  size_t size() const { return names_.size(); }
  /// The standard name of a node.
  const std::string& name(uint32_t node) const { return names_[node]; }
  /// The node of an operator as the framework or dPRO names it, or kNoDproNode.
  uint32_t find(std::string_view operation) const;
  /// Edges as (from, to), sorted; those of one node stand together.
  const std::vector<std::pair<uint32_t, uint32_t>>& edges() const {
    return edges_;
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::vector<std::string> names_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
  /// By standard name, and by the name without category.
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> nodes_;
};

/// "Comm.1+2" of "DistributedOptimizer/HorovodAllreduce.1_2" …; the name itself
/// if it has a category; "" if it names no communication.
std::string dpro_communication_name(std::string_view label);

/// Tensor ids of "1+2", ascending; empty if it is no list of ids.
std::vector<uint32_t> dpro_tensor_ids(std::string_view ids);

}  // namespace reprise

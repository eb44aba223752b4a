// Dependencies between nodes that a file lists in any order: a spool gets
// those whose both ends exist, the others are counted.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/formats/reader.h"

namespace reprise {

class NodeDependencies {
 public:
  NodeDependencies(TraceSpool& spool, uint32_t rank)
      : spool_(spool), rank_(rank) {}

  /// A node of the file; false when its id is taken.
  bool add_node(int64_t id) { return ids_.insert(id).second; }
  /// `after` is a node that was added.
  void add(int64_t before, int64_t after);
  /// When all nodes are known: what still hangs is counted as dropped.
  void finish(FileReport& report);

 private:
  TraceSpool& spool_;
  uint32_t rank_;
  std::unordered_set<int64_t> ids_;
  std::vector<std::pair<int64_t, int64_t>> open_;  // (before, after).
  int64_t selfish_ = 0;
};

}  // namespace reprise

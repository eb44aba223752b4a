// Cutting and copying the statements of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

using StatementBlock = std::vector<KernelStatement>;

/// Statements without those that nothing needs; every store is needed.
StatementBlock pruned(const Kernel& kernel, const StatementBlock& block);

/// An edited copy of statements. Stores are numbered in textual order.
struct StatementEdit {
  std::map<size_t, StatementBlock> stores;  ///< Replaced; by default kept.
  bool drop_other_stores = false;
  std::set<int32_t> dropped_lets;
  /// Their bodies are run once, in their place.
  std::set<int32_t> opened_loops;

  StatementBlock apply(const StatementBlock& block);

 private:
  size_t next_ = 0;
};

/// The loops of a nest: one inside the other down to a block that resets
/// accumulators (`lanes`) or holds no loop.
struct StatementNest {
  std::vector<int32_t> path;
  const StatementBlock* inner = nullptr;
  bool lanes = false;
  bool regular = true;  ///< Nothing but one loop at each level of the path.
};

StatementNest nest_of(const StatementBlock& body);

/// Runs of top-level statements between which no value passes.
std::vector<StatementBlock> segments_of(const Kernel& kernel);

}  // namespace reprise

// What the cutting of a kernel into launches asks of it: which loops a value
// depends on, which iterations a store keeps apart, and what may share memory.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

using LoopSet = std::set<int32_t>;

/// A store and the loops around it, outermost first.
struct StorePlace {
  const KernelStatement* statement = nullptr;
  std::vector<int32_t> loops;
};

class KernelFacts {
 public:
  /// Of one run of statements over the tables of `kernel`, a stage of
  /// `original`. All must outlive this.
  KernelFacts(const Kernel& original, const Kernel& kernel,
              const std::vector<KernelStatement>& body);

  /// In textual order.
  const std::vector<StorePlace>& stores() const { return stores_; }
  bool has_lanes() const { return has_lanes_; }

  const LoopSet& loops_of_value(int32_t value) const;
  LoopSet loops_of_index(int32_t expression) const;
  LoopSet loops_of_store(const KernelStatement& store) const;
  /// Value, guard and runtime values in the index.
  std::vector<int32_t> inputs_of(const KernelStatement& store) const;

  /// Loops whose iterations the store must see in order, since two may write
  /// one element.
  LoopSet ordered_loops(const StorePlace& place) const;
  /// Loops that a plain store does not depend on: one iteration is enough.
  LoopSet redundant_loops(const StorePlace& place) const;

  /// By value: true if it needs a reduction by lanes or what one left behind.
  std::vector<bool> reduced_values() const;
  /// By value: true if it needs a reduction by lanes, or memory that a store
  /// other than to `target` may have overwritten when these statements are
  /// done.
  std::vector<bool> lost_values(int32_t target) const;
  /// True if an output that these statements store may be in the memory of
  /// `argument`.
  bool is_overwritten(int32_t argument, int32_t except_target) const;

 private:
  void visit(const std::vector<KernelStatement>& block,
             std::vector<int32_t>& path);
  void add_index_loops(int32_t expression, LoopSet& loops) const;
  void add_index_values(int32_t expression, std::vector<int32_t>& values) const;
  void spread(std::vector<bool>& marked) const;
  bool keeps_apart(int32_t loop, int32_t index) const;

  const Kernel& original_;
  const Kernel& kernel_;
  std::vector<LoopSet> value_loops_;
  std::vector<StorePlace> stores_;
  bool has_lanes_ = false;
};

}  // namespace reprise

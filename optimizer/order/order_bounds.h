// Lower bounds on the makespan of an ordering instance. All are valid for every
// order, so (plan - bound) / bound certifies a plan.
#pragma once

#include <cstdint>
#include <span>

#include "optimizer/order/order_graph.h"

namespace reprise {

/// One op on one machine: may start at `head`, needs `tail` after its end.
struct MachineJob {
  int64_t head = 0, duration = 0, tail = 0;
};

/// Optimum of one machine with preemption (Jackson's rule: among released jobs
/// run the one of longest tail), which no non-preemptive order can beat. Cost:
/// O(n log n). Source: J. Carlier, "The one-machine sequencing problem", EJOR
/// 11, 1982.
int64_t jackson_preemptive_bound(std::span<const MachineJob> jobs);

/// max(critical path, Jackson's bound of every stream with heads and tails of
/// the graph).
int64_t jackson_bound(const OrderGraph& graph);
/// The same under stronger heads and tails than the graph's.
int64_t jackson_bound(const OrderGraph& graph,
                      const std::vector<int64_t>& heads,
                      const std::vector<int64_t>& tails);

/// Jackson's bound with stronger heads and tails: an op starts no earlier than
/// each stream can run all of its predecessors there, and ends likewise. Cost:
/// O(ops^2 log ops) time, ops^2 bits.
int64_t set_bound(const OrderGraph& graph);

struct DestructiveOptions {
  bool shaving = true;  ///< Try both directions of every undecided pair.
  /// Propagations before giving up; keeps it deterministic.
  uint64_t work_limit = 40000;
};

/// Largest T such that "makespan < T" is refuted: pairs that cannot stand in
/// one direction under T are fixed in the other, heads and tails grow by the
/// sets that must come before or after, until a stream's Jackson bound exceeds
/// T. Never below `jackson_bound`, never above `upper_bound` (a known
/// makespan). Cost: O(ops^2) memory and O(ops^2 log ops) a propagation; meant
/// for <= 300 ops, shaving for <= 60. Source: P. Martin, D. Shmoys, IPCO 1996
/// (shaving); J. Carlier, E. Pinson, 1989 (selections).
int64_t destructive_bound(const OrderGraph& graph, int64_t upper_bound,
                          const DestructiveOptions& options = {});

/// The best bound that is affordable for the size: Jackson's, pairs up to 300
/// ops, shaving up to 60.
int64_t order_lower_bound(const OrderGraph& graph, int64_t upper_bound);

}  // namespace reprise

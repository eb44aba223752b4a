// Tensor fusion as an exact dynamic program.
//
// Model: gradients in ready order, each ready at r_i with b_i bytes and u_i of
// compute that waits for it (its update). A bucket is a run of consecutive
// gradients of one key; it starts when its last member is ready and the one
// before has ended, and takes price(sum of its bytes). Updates run one after
// another, in bucket order, from `compute_free` on. Minimise the time when both
// streams are done. Contention is not in the model: ready times come from a
// replayed timeline, and the program is solved again on the timeline that its
// answer gives.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace reprise {

struct ReadyGradient {
  int64_t ready_ns = 0;
  int64_t bytes = 0;      ///< Alignment included.
  int64_t update_ns = 0;  ///< Compute that waits for it.
  /// Type, group and reduction: equal ones may share a bucket.
  uint32_t key = 0;
};

struct BucketProgram {
  std::vector<ReadyGradient> gradients;  ///< Ascending ready_ns.
  int64_t compute_free_ns = 0;           ///< When updates may begin.
  std::function<int64_t(int64_t bytes, uint32_t key)> price_ns;
};

struct BucketSolution {
  /// Ends of buckets (exclusive), ascending; the last = all.
  std::vector<size_t> borders;
  int64_t finish_ns = 0;
};

/// Exact for the model: keeps, for each border, every pair (communication free,
/// compute free) that no other beats in both. Fewest buckets among equals.
/// Cost: O(gradients^2) prices; of the pairs few are kept (<= 20 on 126
/// gradients), and few buckets are tried with all of them.
BucketSolution solve_buckets(const BucketProgram& program);

}  // namespace reprise

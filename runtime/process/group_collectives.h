// Collectives of a group that combine, or go the shorter way where they are
// small: made of flat transfers and of the functions that combine elements.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/schedule/schedule.h"
#include "runtime/process/flat_transfers.h"
#include "runtime/process/reduce_functions.h"

namespace reprise {

/// Gloo's own function where it has one, else ours; empty for a type that no
/// kernel stores.
ReduceBytes gloo_function(PrimitiveType type, Reduction reduction);

/// Of one thread; keeps the memory that it needs beside the data. All throw
/// gloo::IoException when a peer is lost or silent.
class GroupCollectives {
 public:
  /// Directly, by Gloo's ring or, of floats that round to 16 bits among more
  /// than two, combined in the order of ranks.
  void all_reduce(const TransferGroup& group, const CollectiveSpec& spec,
                  void* data);
  void all_gather(const TransferGroup& group, const void* input, void* output,
                  size_t size_bytes);
  void reduce_scatter(const TransferGroup& group, const CollectiveSpec& spec,
                      const void* input, void* output);
  /// Of several arrays at once, with the bits that each has alone. Leaves
  /// `arrays` changed.
  void reduce_scatter_arrays(const TransferGroup& group,
                             const CollectiveSpec& spec,
                             std::vector<TransferArray>& arrays);

 private:
  void give_to_all(const TransferGroup& group, const void* data, size_t bytes,
                   void* received);
  void all_reduce_directly(const TransferGroup& group, void* data,
                           size_t elements, size_t element_bytes,
                           const ReduceBytes& reduce);
  void all_reduce_in_order(const TransferGroup& group, void* data,
                           size_t elements, CombineFunction combine);

  std::vector<std::byte> scratch_;  ///< Of what is combined beside the data.
  std::vector<std::byte> copies_;   ///< Of what goes to all.
};

}  // namespace reprise

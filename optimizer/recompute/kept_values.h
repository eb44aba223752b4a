// Of the values that cross one moment of a step, which to keep in memory and
// which to compute again after it: a least cut, as in AOTAutograd's
// min_cut_rematerialization_partition (PyTorch, functorch).
#pragma once

#include <cstdint>
#include <vector>

namespace reprise {

/// A value that exists before the moment.
struct CrossingValue {
  int64_t bytes = 0;  ///< That keeping it takes; 0: it is kept in any case.
  /// Its op may run again, on `inputs`; if not, the value is kept or unused.
  bool recomputable = false;
  bool needed = false;           ///< After the moment.
  std::vector<uint32_t> inputs = {};  ///< Values of smaller index.
};

/// [value] Kept: of all choices in which each needed value is kept or follows
/// from kept ones, one of fewest bytes, and of these the one that computes
/// least again. Cost: a maximum flow over the values.
std::vector<bool> fewest_bytes_kept(const std::vector<CrossingValue>& values);

}  // namespace reprise

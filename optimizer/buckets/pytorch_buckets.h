// The one bucket rule of PyTorch's DistributedDataParallel, for programs and
// for recorded jobs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reprise {

/// What the rule sees of a gradient.
struct SizedGradient {
  int64_t bytes = 0;
  uint32_t key = 0;  ///< Type and device: a bucket holds one of them.
};

/// Places in a list of gradients.
using GradientGroup = std::vector<uint32_t>;

/// Gradients come in ready order. Each key has an open bucket and a sequence of
/// caps of its own: its bucket closes when its size reaches the cap, and the
/// next one has the next cap, the last again and again. Buckets come in the
/// order in which they close; those left open, at the end, by first gradient
/// (PyTorch: in the order of a hash table). Requires: caps not empty.
/// Source: PyTorch torch/csrc/distributed/c10d/reducer.cpp,
/// compute_bucket_assignment_by_size.
std::vector<GradientGroup> pytorch_buckets(
    std::span<const SizedGradient> gradients,
    std::span<const int64_t> caps_bytes);

}  // namespace reprise

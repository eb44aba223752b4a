// Which op decides the loops of a nest: the hero, as XLA's GPU emitters call
// it. Its elements are what the loops run over; all else that the nest computes
// finds its place from there (canonical_maps.h).
#pragma once

#include <cstdint>
#include <vector>

#include "data/kernel/group.h"
#include "data/kernel/nest.h"

namespace reprise {

/// What the loops of a nest run over: the elements of `anchor`.
struct Hero {
  InstructionId anchor{};
  /// Of each dimension, major first.
  std::vector<std::vector<int64_t>> factors;
  std::vector<bool> column;  ///< Of each dimension: reduced over lanes.
  /// The last dimension has no loop: its elements are written out, one after
  /// the other. So whole short rows are one iteration of a loop over rows, and
  /// what is reduced over a row and what is made of the result are vectors.
  bool written_out = false;
};

/// Lane reduces decide the loops first, the one over the most elements; then
/// in-memory reductions, then the largest output. `pending` are places in the
/// group's outputs. Errors: kUnsupported.
Result<Hero> choose_hero(const Group& group,
                         const std::vector<size_t>& pending);

/// False of the dimension that is written out.
bool has_loops(const Hero& hero, size_t dimension);

/// Splits a loop that some index expression of the nest divides, so that the
/// quotient and the remainder become loops of their own; true if one was split.
bool split_loop(const Nest& nest, Hero& hero);

}  // namespace reprise

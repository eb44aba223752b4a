// What slow steps hold more of than the others: the range, operator, kernel or
// collective whose time grows most.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/trace/trace_by_rank.h"

namespace reprise {

struct StepExcess {
  uint32_t rank = 0;  ///< Its number.
  std::string name;
  int64_t slow_ns = 0, other_ns = 0;  ///< Medians of a step's sums.
  /// Slow steps hold no more events of the name than the others: each is
  /// longer.
  bool as_often = false;
  /// How many times as long nearly all of the rank's kernels are, none of which
  /// is run more often: then these are the excess, and `name` is the one of
  /// them that grows most. 0: they are not.
  double kernels_longer = 0;
  int64_t excess_ns() const { return slow_ns - other_ns; }
};

/// Of the events of one name on one rank that a step begins or launches, by the
/// sum of their times: the name with the greatest excess of the median slow
/// step over the median of the others; of those with nearly as much, the one
/// that the others hold least of; but a rank's kernels, where nearly all of
/// them got longer by as much in all, as what waits for them is the same
/// excess. What fills nearly all of a slow step tells nothing. None where
/// nothing takes longer. **Cost** linear in the trace's events, and a sum for
/// each name and step of a rank.
std::optional<StepExcess> step_excess(const TraceByRank& trace,
                                      std::span<const int32_t> slow);

}  // namespace reprise

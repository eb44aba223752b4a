// Who is late: a collective's transfer begins when its last member arrives, so
// the member that arrives last makes all others wait.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/trace/trace.h"
#include "replay/collectives/collectives.h"

namespace reprise {

struct Straggler {
  uint32_t rank = 0;
  /// Collectives that two or more recorded ranks entered, this one too; no
  /// messages: who awaits one needs what its sender computes, as the stages of
  /// a pipeline do in turn, and nobody is late.
  int64_t collectives = 0;
  int64_t last = 0;  ///< Of them, those that it entered last.
  /// Over those: how much sooner they could have begun, had it come with the
  /// one before it.
  int64_t late_ns = 0;
  /// Of late_ns, what it waited itself, elsewhere, since both last met in the
  /// same group: as a rank does whose partner in another group is late.
  int64_t passed_on_ns = 0;
  int64_t waited_ns = 0;   ///< By it, for others, over all.
  int64_t imposed_ns = 0;  ///< By others, over those that it entered last.
};

/// A rank is last when it arrives after the one before it by more than their
/// clocks may be wrong; else nobody is. `times` are those of `collectives`, by
/// place; `chosen` are the places that count. Who is latest but for what was
/// passed on first, then the latest, then by rank; ranks without collectives
/// are left out.
std::vector<Straggler> find_stragglers(const Trace& trace,
                                       const CollectiveMatching& matching,
                                       std::span<const CollectiveTimes> times,
                                       std::span<const uint32_t> chosen);

}  // namespace reprise

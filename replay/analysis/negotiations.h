// Who is late by a Horovod timeline: rank 0 alone writes one, but each
// negotiation in it tells when every rank was ready.
#pragma once

#include <vector>

#include "data/trace/trace_by_rank.h"
#include "replay/analysis/stragglers.h"

namespace reprise {

/// As find_stragglers, of negotiations in place of collectives. Many tensors
/// negotiate at one time, so each time is that of a union: what a rank waits
/// for others counts once, however many tensors wait. Ready times are the
/// coordinator's, to about a cycle (a few milliseconds). None without
/// negotiations.
std::vector<Straggler> find_negotiated_stragglers(const RankEvents& events);

}  // namespace reprise

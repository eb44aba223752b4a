// Whether ranks of one trace may be of different runs. Such files join like
// others: their collectives are as many and as large.
#pragma once

#include <optional>
#include <string>

#include "data/trace/trace.h"
#include "replay/analysis/analysis.h"

namespace reprise {

/// The first sign of it, as a sentence: two ranks without a common step, that
/// shared no instant by clocks that count from the epoch, or with collectives
/// that no clock could bring together. Reads the ranks, clocks and steps of
/// `analysis`.
std::optional<std::string> ranks_apart(const Trace& trace,
                                       const Analysis& analysis);

}  // namespace reprise

// Times that count from 1970 apart from those of a capture's own clock.
#pragma once

#include <cstdint>

namespace reprise {

/// In 2001. Times of the epoch lie beyond it, those that count from the start
/// of a machine or of a capture far below.
constexpr int64_t kEpochNs = 1'000'000'000'000'000'000;

}  // namespace reprise

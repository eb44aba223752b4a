// Times as traces have them, for what tests write down.
#pragma once

#include <cstdint>

namespace reprise {

inline constexpr int64_t kUs = 1'000, kMs = 1'000'000;  ///< In nanoseconds.

}  // namespace reprise

// A loop over independent items on several threads, by oneTBB.
#pragma once

#include <cstddef>
#include <functional>

namespace reprise {

/// Calls work(i) for each i below `count`, in that order, on at most `threads`
/// threads, one a core, the caller's among them; returns when all calls have.
/// The first exception that a call throws ends the loop and is thrown here.
void parallel_for(size_t count, size_t threads,
                  const std::function<void(size_t)>& work);

}  // namespace reprise

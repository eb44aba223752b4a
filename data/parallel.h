// A loop over independent items on several threads of our own.
//
// Only the standard library starts and joins them, so that ThreadSanitizer sees
// what is ordered before what; the library of a scheduler hides that from it.
#pragma once

#include <cstddef>
#include <functional>

namespace reprise {

/// Calls work(i) for each i below `count`, in that order, on at most `threads`
/// threads, the caller's among them; returns when all calls have. Where the
/// system gives fewer threads, those do it. The first exception that a call
/// throws ends the loop and is thrown here. Starting a thread costs some 20
/// microseconds.
void parallel_for(size_t count, size_t threads,
                  const std::function<void(size_t)>& work);

}  // namespace reprise

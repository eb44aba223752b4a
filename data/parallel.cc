#include "data/parallel.h"

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>

#ifdef REPRISE_TELL_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace reprise {
namespace {

// libtbb hands tasks from thread to thread unseen by ThreadSanitizer, which
// would call all that they touch a race. So this file is compiled without it,
// and says what TBB orders: the caller before each thread, these before its
// return. Races between calls of `work` are still found.
#ifdef REPRISE_TELL_TSAN
void before(void* loop) { __tsan_release(loop); }
void after(void* loop) { __tsan_acquire(loop); }
#else
void before(void*) {}
void after(void*) {}
#endif

}  // namespace

void parallel_for(size_t count, size_t threads,
                  const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto take = [&](size_t) {
    after(&next);
    try {
      for (size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      before(&next);
      throw;
    }
    before(&next);
  };
  const auto cores = static_cast<size_t>(tbb::info::default_concurrency());
  threads = std::min({threads, count, cores});
  if (threads < 2) return take(0);
  before(&next);
  tbb::task_arena arena(static_cast<int>(threads));
  arena.execute([&] {
    tbb::parallel_for(size_t{0}, threads, take, tbb::simple_partitioner());
  });
  after(&next);
}

}  // namespace reprise

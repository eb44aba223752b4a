#include "data/parallel.h"

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <utility>

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

struct ThreadTeam::Arena : tbb::task_scheduler_observer {
  Arena(size_t threads, void (*enter)())
      : Arena(std::make_unique<tbb::task_arena>(std::min(
                  static_cast<int>(threads), tbb::info::default_concurrency())),
              threads, enter) {}
  Arena(std::unique_ptr<tbb::task_arena> made, size_t threads, void (*enter)())
      : task_scheduler_observer(*made),
        arena(std::move(made)),
        size(threads),
        on_entry(enter) {
    observe(true);
  }
  ~Arena() override { observe(false); }
  void on_scheduler_entry(bool is_worker) override {
    if (is_worker) on_entry();
  }

  std::unique_ptr<tbb::task_arena> arena;
  size_t size;
  void (*on_entry)();
};

ThreadTeam::ThreadTeam(size_t threads, void (*enter)())
    : arena_(std::make_unique<Arena>(std::max<size_t>(threads, 1), enter)) {}
ThreadTeam::~ThreadTeam() = default;

size_t ThreadTeam::size() const { return arena_->size; }

void ThreadTeam::run_calls(size_t count, const Call& call) {
  before(this);
  arena_->arena->execute([&] {
    tbb::parallel_for(
        size_t{0}, count,
        [&](size_t i) {
          after(this);
          call.function(call.what, i);
          before(this);
        },
        tbb::simple_partitioner());
  });
  after(this);
}

}  // namespace reprise

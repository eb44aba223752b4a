#include "profiler/nccl/event_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace reprise {
namespace {

std::vector<uint64_t> drained_ids(NcclEventPool& pool) {
  std::vector<uint64_t> ids;
  pool.drain([&](const NcclEvent& event) { ids.push_back(event.id); });
  return ids;
}

TEST(NcclEventPool, GivesEventsBackInTheOrderTheyEnded) {
  NcclEventPool pool;
  void *first, *second, *third;
  ASSERT_NE(pool.begin(&first), nullptr);
  ASSERT_NE(pool.begin(&second), nullptr);
  ASSERT_NE(pool.begin(&third), nullptr);
  EXPECT_EQ(pool.count_live(), 3U);
  for (void* handle : {second, third, first}) {
    pool.hand_over(pool.end(handle));
  }
  EXPECT_EQ(pool.count_live(), 0U);
  EXPECT_EQ(drained_ids(pool), (std::vector<uint64_t>{2, 3, 1}));
  EXPECT_TRUE(drained_ids(pool).empty());
}

TEST(NcclEventPool, EndsAnEventOnce) {
  NcclEventPool pool;
  void* handle;
  NcclEvent* event = pool.begin(&handle);
  EXPECT_EQ(pool.find(handle), event);
  EXPECT_EQ(pool.end(handle), event);
  EXPECT_EQ(pool.end(handle), nullptr);
  EXPECT_EQ(pool.find(handle), nullptr);
}

// A place is used again by another event, and the old handle is not its.
TEST(NcclEventPool, TellsAnEndedEventFromTheOneInItsPlace) {
  NcclEventPool pool;
  void* old;
  NcclEvent* event = pool.begin(&old);
  pool.hand_over(pool.end(old));
  drained_ids(pool);
  void* fresh;
  ASSERT_EQ(pool.begin(&fresh), event);  // Freed last, used first.
  EXPECT_NE(fresh, old);
  EXPECT_EQ(pool.find(old), nullptr);
  EXPECT_EQ(pool.end(old), nullptr);
  EXPECT_EQ(pool.find(fresh), event);
  EXPECT_EQ(NcclEventPool::id_of(old), 1U);
  EXPECT_EQ(NcclEventPool::id_of(fresh), 2U);
}

TEST(NcclEventPool, TouchesNothingForWhatIsNoHandle) {
  NcclEventPool pool;
  int elsewhere = 0;
  for (void* handle :
       {static_cast<void*>(nullptr), reinterpret_cast<void*>(7),
        static_cast<void*>(&elsewhere), reinterpret_cast<void*>(UINT64_MAX)}) {
    EXPECT_EQ(pool.find(handle), nullptr);
    EXPECT_EQ(pool.end(handle), nullptr);
  }
}

TEST(NcclEventPool, TurnsAwayWhatHasNoPlace) {
  NcclEventPool pool;
  std::vector<void*> handles(NcclEventPool::kPlaces);
  for (void*& handle : handles) ASSERT_NE(pool.begin(&handle), nullptr);
  void* none = &none;
  EXPECT_EQ(pool.begin(&none), nullptr);
  EXPECT_EQ(none, nullptr);
  pool.hand_over(pool.end(handles[5]));
  EXPECT_EQ(pool.begin(&none), nullptr);  // Its place is free once drained.
  EXPECT_EQ(drained_ids(pool), std::vector<uint64_t>{6});
  EXPECT_NE(pool.begin(&none), nullptr);
}

TEST(NcclEventPool, LosesNothingBetweenThreads) {
  constexpr int kThreads = 4, kEvents = 20'000;
  NcclEventPool pool;
  std::vector<uint64_t> ids;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> begun{0};
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEvents; ++i) {
        void* handle;
        NcclEvent* event = pool.begin(&handle);
        if (event == nullptr) continue;
        ++begun;
        event->thread = thread;
        event->sequence = i;
        pool.hand_over(pool.end(handle));
      }
      --running;
    });
  }
  std::vector<int64_t> last(kThreads, -1);
  bool done = false;
  while (!done) {
    done = running == 0;
    pool.drain([&](const NcclEvent& event) {
      ids.push_back(event.id);
      // A thread's events come in its order, each as it was written.
      int64_t& before = last[static_cast<size_t>(event.thread)];
      EXPECT_LT(before, event.sequence);
      before = event.sequence;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ids.size(), begun.load());
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

}  // namespace
}  // namespace reprise

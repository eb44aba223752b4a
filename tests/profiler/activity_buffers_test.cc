#include "profiler/cupti/activity_buffers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace reprise::cupti {
namespace {

TEST(ActivityBuffers, GoBackInTheOrderOfTheirCompletion) {
  ActivityBuffers buffers;
  EXPECT_EQ(buffers.take_full(), nullptr);
  for (uint8_t number = 1; number <= 3; ++number) {
    uint8_t* bytes = buffers.request();
    ASSERT_NE(bytes, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 8, 0U);
    bytes[0] = number;
    buffers.complete(bytes, number);
  }
  ActivityBuffers::Full* full = buffers.take_full();
  for (uint8_t number = 1; number <= 3; ++number) {
    ASSERT_NE(full, nullptr);
    EXPECT_EQ(full->bytes[0], number);
    EXPECT_EQ(full->valid_bytes, number);
    full = full->next;
  }
  EXPECT_EQ(full, nullptr);
}

TEST(ActivityBuffers, AreZeroedForTheirNextUse) {
  ActivityBuffers buffers;
  uint8_t* first = buffers.request();
  std::memset(first, 0xff, 100);
  buffers.complete(first, 100);
  buffers.recycle(buffers.take_full());
  uint8_t* again = buffers.request();
  EXPECT_EQ(again, first);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(again[i], 0) << i;
}

TEST(ActivityBuffers, AreLimited) {
  ActivityBuffers buffers;
  std::set<uint8_t*> given;
  for (uint32_t i = 0; i < ActivityBuffers::kMaximumBuffers; ++i) {
    given.insert(buffers.request());
  }
  EXPECT_EQ(given.size(), ActivityBuffers::kMaximumBuffers);
  EXPECT_EQ(buffers.request(), nullptr);
  buffers.complete(*given.begin(), 0);
  buffers.recycle(buffers.take_full());
  EXPECT_EQ(buffers.request(), *given.begin());
}

TEST(ActivityBuffers, PassBetweenThreads) {
  constexpr int kThreads = 3, kBuffers = 200;
  ActivityBuffers buffers;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int number = 0; number < kBuffers; ++number) {
        uint8_t* bytes = buffers.request();
        while (bytes == nullptr) bytes = buffers.request();
        EXPECT_EQ(bytes[0], 0);
        bytes[0] = static_cast<uint8_t>(thread + 1);
        buffers.complete(bytes, 1);
      }
      --running;
    });
  }
  std::vector<int> taken(kThreads + 1, 0);
  for (bool is_last = false; !is_last;) {
    is_last = running.load() == 0;
    ActivityBuffers::Full* full = buffers.take_full();
    while (full != nullptr) {
      ActivityBuffers::Full* next = full->next;
      ++taken.at(full->bytes[0]);
      buffers.recycle(full);
      full = next;
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, (std::vector<int>{0, kBuffers, kBuffers, kBuffers}));
}

}  // namespace
}  // namespace reprise::cupti

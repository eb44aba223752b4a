#include "data/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace reprise {
namespace {

TEST(ParallelForTest, CallsEachIndexOnce) {
  for (const size_t threads : {0, 1, 3, 100}) {
    for (const size_t count : {0, 1, 50}) {
      std::vector<int> calls(count);
      parallel_for(count, threads, [&](size_t i) { ++calls[i]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1)) << threads << " threads";
    }
  }
}

TEST(ParallelForTest, OneThreadGoesInOrder) {
  std::vector<size_t> order;
  parallel_for(4, 1, [&](size_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
}

TEST(ParallelForTest, ThrowsWhatACallThrows) {
  std::atomic<int> calls = 0;
  const auto work = [&](size_t) {
    ++calls;
    throw std::runtime_error("no");
  };
  EXPECT_THROW(parallel_for(1000, 4, work), std::runtime_error);
  EXPECT_LE(calls, 4);
}

TEST(ThreadTeamTest, CallsEachIndexOnceInEveryLoop) {
  static thread_local bool entered = false;
  ThreadTeam team(3, [] { entered = true; });
  EXPECT_EQ(team.size(), 3U);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> strangers = 0;
  for (int loop = 0; loop < 100; ++loop) {
    std::vector<int> calls(50);
    team.run(calls.size(), [&](size_t i) {
      ++calls[i];
      if (std::this_thread::get_id() != caller && !entered) ++strangers;
    });
    ASSERT_EQ(calls, std::vector<int>(50, 1));
  }
  EXPECT_EQ(strangers, 0);
}

}  // namespace
}  // namespace reprise

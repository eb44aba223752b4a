#include "replay/collectives/stream_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "replay/collectives/collectives.h"
#include "tests/replay/collectives/collective_text.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

using Members = std::vector<uint32_t>;

// Four ranks whose streams call all-reduces of groups that nothing tells, with
// 100 us of work before each; members leave within 10 us.
class StreamJob {
 public:
  int64_t clock_ns = 0;   ///< Of rank 3, how far ahead.
  uint32_t apart = 3;     ///< And of ranks from here on.
  double drift = 0;       ///< Of its clock.
  int64_t jitter_ns = 1;  ///< Of the work.
  std::string host;       ///< Of all ranks, if known.

  void work(uint32_t rank, int64_t time_ns) { now_ns_[rank] += time_ns; }
  void call(const Members& group, const std::string& stream) {
    int64_t arrival_ns = 0;
    std::map<uint32_t, int64_t> start_ns;
    for (const uint32_t rank : group) {
      now_ns_[rank] += 100 * kUs + below(jitter_ns);
      start_ns[rank] = now_ns_[rank];
      arrival_ns = std::max(arrival_ns, now_ns_[rank]);
    }
    for (const uint32_t rank : group) {
      now_ns_[rank] = arrival_ns + 50 * kUs + below(10 * kUs);
      text_ += fmt::format(
          "{} collective {} {} {} ncclDevKernel_AllReduce op=all-reduce\n",
          rank, stream, shown(rank, start_ns[rank]),
          shown(rank, now_ns_[rank]));
    }
  }

  /// Of which nothing is told but that it is a message.
  void send(uint32_t from, uint32_t to) {
    const int64_t end_ns = std::max(now_ns_[from], now_ns_[to]) + 80 * kUs;
    for (const uint32_t rank : {from, to}) {
      text_ += fmt::format("{} collective d{} {} {} ncclDevKernel_SendRecv\n",
                           rank, 20 + from, shown(rank, now_ns_[rank]),
                           shown(rank, end_ns));
      now_ns_[rank] = end_ns;
    }
  }

  /// Members of every collective, each once.
  std::vector<std::string> matched() const {
    std::vector<std::string> found;
    Trace trace = collective_trace(text_);
    for (RankInfo& rank : trace.ranks) rank.host = host;
    for (const MatchedCollective& one : match_collectives(trace).collectives) {
      std::string members;
      for (const CollectiveMember& member : one.members)
        members += std::to_string(member.rank);
      found.push_back(members);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

 private:
  int64_t shown(uint32_t rank, int64_t time_ns) const {
    if (rank < apart) return time_ns;
    return time_ns + clock_ns +
           static_cast<int64_t>(drift * static_cast<double>(time_ns));
  }
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }

  std::string text_;
  std::vector<int64_t> now_ns_ = {0, 0, 0, 0};
  std::mt19937_64 random_{1};
};

// Tensor parallelism of two on one stream, data parallelism of two on another;
// rank 3 is late by so much in each step.
void mesh_steps(StreamJob& job, int64_t late_ns) {
  for (int step = 0; step < 6; ++step) {
    job.work(3, late_ns);
    for (int layer = 0; layer < 4; ++layer) {
      job.call({0, 1}, "d7");
      job.call({2, 3}, "d7");
      if (layer % 2 == 0) continue;
      job.call({0, 2}, "d9");
      job.call({1, 3}, "d9");
    }
  }
}

TEST(StreamGroups, AreOfRanksThatLeaveAtOneTime) {
  StreamJob job;
  mesh_steps(job, 3000 * kUs);
  // Both groups of data parallelism wait for the late rank: as good as one.
  EXPECT_EQ(job.matched(), (std::vector<std::string>{"01", "0123", "23"}));
}

// Groups of data parallelism leave 10 or 90 us after each other: half of the
// time further apart than the ranks of one do, and never far.
TEST(StreamGroups, AreOfTheClosestWhereAnotherIsNear) {
  StreamJob job;
  for (int step = 0; step < 6; ++step) {
    job.work(3, 3000 * kUs);
    for (int layer = 0; layer < 4; ++layer) {
      job.call({0, 1}, "d7");
      job.call({2, 3}, "d7");
      if (layer % 2 == 0) continue;
      job.work(3, (layer == 1 ? 10 : 90) * kUs);
      job.call({0, 2}, "d9");
      job.call({1, 3}, "d9");
    }
  }
  EXPECT_EQ(job.matched(), (std::vector<std::string>{"01", "02", "13", "23"}));
}

TEST(StreamGroups, AreToldByClocksThatAreApartAndDrift) {
  StreamJob job;
  job.clock_ns = 7'000 * kUs;
  job.drift = 5e-3;
  mesh_steps(job, 3000 * kUs);
  EXPECT_EQ(job.matched(), (std::vector<std::string>{"01", "0123", "23"}));
}

// One late by the same in all calls of a stream looks like a clock that is
// apart; what all ranks leave together on another stream tells that it is not.
TEST(StreamGroups, AreToldByWhatElseRanksLeaveTogether) {
  StreamJob job;
  for (int step = 0; step < 10; ++step) {
    job.work(3, 3000 * kUs);
    job.call({0, 1}, "d7");
    job.call({2, 3}, "d7");
    job.call({0, 1, 2, 3}, "d9");
  }
  EXPECT_EQ(job.matched(), (std::vector<std::string>{"01", "0123", "23"}));
}

// Late by the same in all calls of tensor parallelism, on clocks that are apart
// too: those of one stream or those of the other. By the former's ranks 2 and 3
// would transfer data parallelism's alone for 3 ms each time.
TEST(StreamGroups, AreThoseThatTransferForTheShortestTime) {
  StreamJob job;
  job.clock_ns = 7'000 * kUs;
  job.drift = 1e-5;
  job.apart = 2;
  for (int step = 0; step < 10; ++step) {
    job.work(1, 3000 * kUs);
    for (int layer = 0; layer < 4; ++layer) {
      job.call({0, 1}, "d7");
      job.call({2, 3}, "d7");
    }
    job.call({0, 2}, "d9");
    job.call({1, 3}, "d9");
  }
  EXPECT_EQ(job.matched(), (std::vector<std::string>{"01", "0123", "23"}));
}

// Two groups of which one leaves 180 us after the other each time: less than
// both last, so that they could be one by their times alone.
void late_steps(StreamJob& job) {
  job.work(2, 180 * kUs);
  job.work(3, 180 * kUs);
  for (int step = 0; step < 20; ++step) {
    job.call({0, 1}, "d7");
    job.call({2, 3}, "d7");
  }
}

TEST(StreamGroups, AreToldByTheOneClockOfAHost) {
  StreamJob job;
  job.host = "node0";
  late_steps(job);
  EXPECT_EQ(job.matched(), (std::vector<std::string>{"01", "23"}));
  StreamJob of_hosts;
  late_steps(of_hosts);
  EXPECT_EQ(of_hosts.matched(), std::vector<std::string>{"0123"});
}

// Two stages of two pipelines side by side: the first one's gradients come
// later by the same each time, which messages of either way tell from clocks
// that are apart.
TEST(StreamGroups, AreToldByMessagesThatBothSidesLeaveTogether) {
  StreamJob job;
  job.clock_ns = 7'000 * kUs;
  job.apart = 2;
  job.drift = 1e-5;
  for (int step = 0; step < 12; ++step) {
    for (const uint32_t rank : {0U, 1U}) {
      job.work(rank, (400 + step * step % 7 + rank * (300 + step * 40)) * kUs);
      job.send(rank, rank + 2);
      job.work(rank + 2, 900 * kUs);
      job.send(rank + 2, rank);
      job.work(rank, 180 * kUs);
    }
    job.call({0, 1}, "d7");
    job.call({2, 3}, "d7");
  }
  EXPECT_EQ(job.matched(), (std::vector<std::string>{"01", "02", "13", "23"}));
}

TEST(StreamGroups, StayOfAllWhereTimesTellNone) {
  StreamJob job;
  mesh_steps(job, 0);
  EXPECT_EQ(job.matched(), std::vector<std::string>{"0123"});
}

// One group whose ranks come late by turns: all leave together.
TEST(StreamGroups, StayOfAllWhereAllMeet) {
  StreamJob job;
  job.clock_ns = 7'000 * kUs;
  job.drift = 1e-3;
  job.jitter_ns = 2000 * kUs;
  for (int i = 0; i < 100; ++i) job.call({0, 1, 2, 3}, "d7");
  EXPECT_EQ(job.matched(), std::vector<std::string>{"0123"});
}

// A rank without a partner of its own: its clock is not to be trusted.
TEST(StreamGroups, StayOfAllWhereARankMeetsNobody) {
  StreamJob job;
  for (int i = 0; i < 24; ++i) {
    job.call({0, 1, 2}, "d7");
    job.work(3, i % 3 == 0 ? 5000 * kUs : 0);
    job.call({3}, "d7");
  }
  EXPECT_EQ(job.matched(), std::vector<std::string>{"0123"});
}

}  // namespace
}  // namespace reprise

#include "replay/collectives/message_streams.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "replay/collectives/collectives.h"
#include "tests/replay/collectives/collective_text.h"

namespace reprise {
namespace {

constexpr int64_t kMicro = 1000;

/// Four ranks in a row, each of whose messages is a kernel of which nothing is
/// told, on a stream for each neighbour and direction; a side waits for the
/// other and both leave at once. Rank r's clock is r times as far ahead.
class Row {
 public:
  int64_t clock_ns = 0;

  void work(uint32_t rank, int64_t time_ns) { now_ns_[rank] += time_ns; }
  void send(uint32_t from, uint32_t to) {
    const int64_t end_ns = std::max(now_ns_[from], now_ns_[to]) + 80 * kMicro;
    for (const uint32_t rank : {from, to}) {
      text_ +=
          fmt::format("{} collective d{} {} {} ncclDevKernel_SendRecv\n", rank,
                      from * 4 + to + 1, now_ns_[rank] + rank * clock_ns,
                      end_ns + rank * clock_ns);
      now_ns_[rank] = end_ns;
    }
  }
  /// Forward and back, by one micro-batch after the other.
  void run(int64_t micro_batches) {
    for (int64_t i = 0; i < micro_batches; ++i) {
      for (uint32_t rank = 0; rank < 4; ++rank) {
        work(rank, 700 * kMicro + i * i % 7 * kMicro);
        if (rank < 3) send(rank, rank + 1);
      }
      for (uint32_t rank = 3; rank > 0; --rank) {
        work(rank, 1400 * kMicro + i * i % 5 * kMicro);
        send(rank, rank - 1);
      }
    }
  }

  std::set<std::string> matched() const {
    std::set<std::string> found;
    const Trace trace = collective_trace(text_);
    for (const MatchedCollective& one : match_collectives(trace).collectives) {
      std::string members;
      for (const CollectiveMember& member : one.members)
        members += std::to_string(member.rank);
      found.insert(members);
    }
    return found;
  }

 private:
  std::string text_;
  std::array<int64_t, 4> now_ns_ = {};
};

const std::set<std::string> kNeighbours = {"01", "12", "23"};

TEST(MessageStreams, MeetThoseThatLeaveAtOneTime) {
  Row row;
  row.run(12);
  EXPECT_EQ(row.matched(), kNeighbours);
}

// What rank 2 receives comes as much later than what rank 0 sends as what it
// sends back comes earlier: no clock explains both. Of ranks 1 and 2 one does,
// but by microseconds worse than the true one.
TEST(MessageStreams, MeetOnClocksThatAreApart) {
  Row row;
  row.clock_ns = -3'456 * kMicro;
  row.run(12);
  EXPECT_EQ(row.matched(), kNeighbours);
}

TEST(MessageStreams, StayUnknownWhereTheyAreFew) {
  Row row;
  row.run(7);
  EXPECT_EQ(row.matched(), std::set<std::string>());
}

// Three that leave at once are no two.
TEST(MessageStreams, StayOfAllWhereAllLeaveAtOnce) {
  std::string text;
  for (int64_t i = 0; i < 12; ++i) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      text += fmt::format("{} collective d7 {} {} ncclDevKernel_SendRecv\n",
                          rank, i * 1000 * kMicro + rank * i * kMicro,
                          i * 1000 * kMicro + 200 * kMicro);
    }
  }
  const Trace trace = collective_trace(text);
  for (const MatchedCollective& one : match_collectives(trace).collectives)
    EXPECT_EQ(one.members.size(), 3U);
}

}  // namespace
}  // namespace reprise

// When posted messages are taken to be over; times in nanoseconds.
#include "replay/collectives/posted_arrivals.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/replay/collectives/collective_text.h"

namespace reprise {
namespace {

std::string send(int start, int end, int elements = 8) {
  return fmt::format("0 collective t1 {} {} gloo:send op=send in={} type=f32\n",
                     start, end, elements);
}

std::string receive(int start, int end, int elements = 8) {
  return fmt::format(
      "1 collective t1 {} {} gloo:recv op=receive out={} type=f32\n", start,
      end, elements);
}

std::string work(int start, int end) {
  return fmt::format("1 host t1 {} {} aten::mm\n", start, end);
}

/// Rank 1 awaits `count` messages, which each take 100.
std::string awaited(int count) {
  std::string text;
  for (int k = 0; k < count; ++k) {
    const int at = 1'000 * (k + 1);
    text += work(at, at + 200) + receive(at + 210, at + 600) +
            send(at + 500, at + 510);
  }
  return text;
}

/// Ends of what rank 1 receives, by start.
std::vector<int64_t> ends(const std::string& text) {
  const Trace trace = collective_trace(text);
  CollectiveMatching matching = match_collectives(trace);
  settle_posted_messages(matching, trace);
  std::vector<int64_t> all;
  for (const MatchedCollective& message : matching.collectives) {
    EXPECT_EQ(message.members.size(), 2u);
    all.push_back(message.members.back().end_ns);
  }
  return all;
}

TEST(PostedArrivals, AMessageOfABusyReceiverIsOverWhenItCame) {
  // Posted on both sides at 10,010; asked for at 90,000.
  EXPECT_EQ(ends(awaited(3) + send(10'000, 95'000) + receive(10'010, 90'000) +
                 work(10'020, 89'990)),
            (std::vector<int64_t>{1'600, 2'600, 3'600, 10'110}));
}

TEST(PostedArrivals, MessagesToOneReceiverComeOneByOne) {
  EXPECT_EQ(ends(awaited(3) + send(10'000, 95'000) + send(10'001, 95'000) +
                 receive(9'000, 90'000) + receive(9'001, 90'001) +
                 work(9'010, 89'990)),
            (std::vector<int64_t>{1'600, 2'600, 3'600, 10'100, 10'200}));
}

TEST(PostedArrivals, AReceiverThatStoodStillBeforeThenWaited) {
  // It came to its end 30 after the message was sent, and waits on.
  EXPECT_EQ(ends(awaited(3) + send(10'000, 95'000) + receive(9'000, 20'000) +
                 work(9'010, 10'030)),
            (std::vector<int64_t>{1'600, 2'600, 3'600, 20'000}));
}

TEST(PostedArrivals, StayAsRecordedWhereTooFewTell) {
  const std::string late = receive(10'010, 90'000) + work(10'020, 89'990);
  EXPECT_EQ(ends(awaited(2) + send(10'000, 95'000) + late),
            (std::vector<int64_t>{1'600, 2'600, 90'000}));
  // Of another size, which says nothing of this one.
  EXPECT_EQ(ends(awaited(3) + send(10'000, 95'000, 80) +
                 receive(10'010, 90'000, 80) + work(10'020, 89'990)),
            (std::vector<int64_t>{1'600, 2'600, 3'600, 90'000}));
}

}  // namespace
}  // namespace reprise

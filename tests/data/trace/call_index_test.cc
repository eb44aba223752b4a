#include "data/trace/call_index.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace reprise {
namespace {

Event event_of(EventKind kind, int64_t correlation) {
  Event event;
  event.kind = kind;
  event.correlation = correlation;
  return event;
}

std::vector<Event> calls_of(const std::vector<int64_t>& correlations) {
  std::vector<Event> events;
  events.reserve(correlations.size());
  for (const int64_t correlation : correlations)
    events.push_back(event_of(EventKind::kRuntime, correlation));
  return events;
}

TEST(CallIndex, FindsTheFirstCallOfANumber) {
  const CallIndex calls(calls_of({7, 5, 7, 9}), 100);
  EXPECT_FALSE(calls.empty());
  EXPECT_EQ(calls.of(5), 101);
  EXPECT_EQ(calls.of(7), 100);
  EXPECT_EQ(calls.of(9), 103);
  for (const int64_t none : {int64_t{-1}, int64_t{4}, int64_t{6}, int64_t{10}})
    EXPECT_EQ(calls.of(none), CallIndex::kNoCall) << none;
}

TEST(CallIndex, FindsNumbersThatLieFarApart) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const CallIndex calls(calls_of({kMost, 0, kMost, 1 << 30}), 0);
  EXPECT_EQ(calls.of(kMost), 0);
  EXPECT_EQ(calls.of(0), 1);
  EXPECT_EQ(calls.of(1 << 30), 3);
  for (const int64_t none : {int64_t{-1}, int64_t{1}, kMost - 1})
    EXPECT_EQ(calls.of(none), CallIndex::kNoCall) << none;
}

TEST(CallIndex, HoldsOnlyCallsWithANumber) {
  std::vector<Event> events = {event_of(EventKind::kCompute, 3),
                               event_of(EventKind::kRuntime, -1)};
  const CallIndex none(events, 0);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.of(3), CallIndex::kNoCall);
  EXPECT_EQ(none.of(-1), CallIndex::kNoCall);
  events.push_back(event_of(EventKind::kRuntime, 3));
  EXPECT_EQ(CallIndex(events, 0).of(3), 2);
}

}  // namespace
}  // namespace reprise

#include "replay/analysis/negotiations.h"

#include <gtest/gtest.h>

#include <string>

#include "data/trace/trace_by_rank.h"

namespace reprise {
namespace {

// Two tensors that negotiate at one time, for 3 ranks; the last comes to both.
TEST(Negotiations, TellWhoIsLateOnceHoweverManyTensorsWait) {
  Trace trace;
  RankInfo info;
  info.rank = 0;
  trace.ranks = {info};
  trace.streams.resize(1);
  trace.strings = {"NEGOTIATE_ALLREDUCE",
                   R"({"ready_ns":{"0":0,"1":10,"2":100}})",
                   R"({"ready_ns":{"0":0,"1":30,"2":80}})", R"({"other":1})"};
  for (int32_t attributes = 1; attributes <= 3; ++attributes) {
    Event event;
    event.kind = EventKind::kAnnotation;
    event.start_ns = event.enqueue_ns = 1000;
    event.end_ns = 1200;
    event.attributes = attributes;
    trace.events.push_back(event);
  }
  const TraceByRank by_rank = TraceByRank::borrow(trace);
  const auto found = find_negotiated_stragglers(by_rank.of_rank(0));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].rank, 2U);
  EXPECT_EQ(found[0].collectives, 2);
  EXPECT_EQ(found[0].last, 2);
  EXPECT_EQ(found[0].late_ns, 90);      // From 10 to 100.
  EXPECT_EQ(found[0].imposed_ns, 190);  // 100 of rank 0, 90 of rank 1.
  EXPECT_EQ(found[0].waited_ns, 0);
  EXPECT_EQ(found[1].rank, 0U);
  EXPECT_EQ(found[1].last, 0);
  EXPECT_EQ(found[1].waited_ns, 100);
  EXPECT_EQ(found[2].waited_ns, 90);
}

}  // namespace
}  // namespace reprise

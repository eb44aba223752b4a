#include "replay/simulate/what_if.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "replay/simulate/rank_count.h"
#include "replay/simulate/replay.h"
#include "tests/replay/simulate/schedule_text.h"

namespace reprise {
namespace {

/// The step under what-ifs, or -1 where they are refused.
int64_t step_under(const TextSchedule& text,
                   const std::vector<std::string>& what_ifs) {
  const Result<std::vector<WhatIf>> parsed = parse_what_ifs(what_ifs);
  EXPECT_TRUE(parsed.has_value());
  if (!parsed) return -1;
  const Result<Replay> replay = replay_step(text.priced, nullptr, *parsed);
  return replay ? replay->step_time_ns : -1;
}

// 100 of compute, a transfer of 1100 of which 100 are latency, 10 of compute.
TEST(WhatIf, ScalesTheWireAndNotTheLatency) {
  TextSchedule text;
  parse_schedule("compute a 100\ntransfer t 1100 after a\ncompute b 10 after t",
                 2, text);
  text.priced.latency_ns = {0, 100, 0};
  EXPECT_EQ(step_under(text, {}), 1210);
  EXPECT_EQ(step_under(text, {"bandwidth=2x"}), 100 + (100 + 500) + 10);
  EXPECT_EQ(step_under(text, {"latency=50ns"}), 100 + (50 + 1000) + 10);
  EXPECT_EQ(step_under(text, {"latency=2x"}), 100 + (200 + 1000) + 10);
  EXPECT_EQ(step_under(text, {"latency=0"}), 100 + (0 + 1000) + 10);
  EXPECT_EQ(step_under(text, {"bandwidth=2x", "latency=50ns", "latency=3x"}),
            100 + (150 + 500) + 10);
  // Shorter than the latency that was fitted to others: latency alone.
  text.priced.latency_ns = {0, 2000, 0};
  EXPECT_EQ(step_under(text, {"bandwidth=2x"}), 1210);
  EXPECT_EQ(step_under(text, {"latency=50ns"}), 100 + 50 + 10);
}

// The link has 400 ns of credit in store, worth 200 once it is twice as fast;
// no transfer takes less than its floor, of which 100 are latency.
TEST(WhatIf, ScalesTheCreditOfALink) {
  TextSchedule text;
  parse_schedule("transfer t 1100", 2, text);
  text.priced.latency_ns = {100};
  text.priced.wire_ns = {1000};
  text.priced.floor_ns = {300};
  text.priced.burst_ns = 400;
  EXPECT_EQ(step_under(text, {}), 1100 - 400);
  EXPECT_EQ(step_under(text, {"bandwidth=2x"}), 600 - 200);
  EXPECT_EQ(step_under(text, {"op:^t$=0.5x"}), 550 - 400);
  text.priced.floor_ns = {900};
  EXPECT_EQ(step_under(text, {"bandwidth=2x"}), 100 + 800 / 2);
}

// Of 1000 on the wire a ring of 2 puts all on each link, one of 4 half as much
// again; it has three rounds for each one of 2, and none if alone. Groups of
// two among four stay.
TEST(WhatIf, MakesTheLargestGroupsOfOtherSize) {
  TextSchedule text;
  parse_schedule("transfer t 1100", 2, text);
  text.priced.latency_ns = {100};
  EXPECT_EQ(step_under(text, {"ranks=2"}), 1100);
  EXPECT_EQ(step_under(text, {"ranks=4"}), 300 + 1500);
  EXPECT_EQ(step_under(text, {"ranks=1"}), 0);
  EXPECT_EQ(step_under(text, {"ranks=4", "bandwidth=3x"}), 300 + 500);
  EXPECT_EQ(step_under(text, {"ranks=1000"}), 100 * 999 + 1998);
  TextSchedule pairs;
  parse_schedule(
      "transfer t 1100 groups 0,1;2,3\n"
      "transfer u 1500 groups 0,1,2,3 after t",
      4, pairs);
  pairs.priced.latency_ns = {100, 0};
  EXPECT_EQ(step_under(pairs, {}), 2600);
  EXPECT_EQ(step_under(pairs, {"ranks=8"}), 1100 + 1750);
}

// NCCL: hops of a tree where it has fewer than a ring, beside the call.
TEST(WhatIf, GrowsTransfersOfGpusByTheirHops) {
  const MeetingGroup all_reduce{CollectiveKind::kAllReduce, 8, true};
  const TransferGrowth growth = transfer_growth(all_reduce, 0, 64);
  EXPECT_DOUBLE_EQ(growth.wire, (2 * 63.0 / 64) / (2 * 7.0 / 8));
  EXPECT_DOUBLE_EQ(growth.latency, (6600 + 600 * 12.0) / (6600 + 600 * 6.0));
  const MeetingGroup gather{CollectiveKind::kAllGather, 8, true};
  EXPECT_DOUBLE_EQ(transfer_growth(gather, 0, 16).wire,
                   (15.0 / 16) / (7.0 / 8));
  EXPECT_DOUBLE_EQ(transfer_growth(gather, 0, 16).latency,
                   (6600 + 600 * 15.0) / (6600 + 600 * 7.0));
  const MeetingGroup permute{CollectiveKind::kPermute, 8, true};
  EXPECT_DOUBLE_EQ(transfer_growth(permute, 0, 64).wire, 1);
  EXPECT_DOUBLE_EQ(transfer_growth(permute, 0, 64).latency, 1);
}

// What was measured beyond the call is the hops': 4 of a tree of 4 ranks, 12 of
// a ring of 7, whatever NCCL reckons for each.
TEST(WhatIf, GrowsMeasuredLatencyByItsHops) {
  MeetingGroup group{CollectiveKind::kAllReduce, 4, true};
  EXPECT_DOUBLE_EQ(transfer_growth(group, 6600 + 4 * 5000, 16).latency,
                   (6600 + 8 * 5000.0) / (6600 + 4 * 5000.0));
  group.ranks = 7;
  group.by_ring = true;
  EXPECT_DOUBLE_EQ(transfer_growth(group, 6600 + 12 * 5000, 16).latency,
                   (6600 + 30 * 5000.0) / (6600 + 12 * 5000.0));
}

TEST(WhatIf, ScalesMatchingUnitsRanksAndSides) {
  TextSchedule text;
  parse_schedule("compute dot.1 10\ncompute add.1 10\ntransfer t 7 after add.1",
                 3, text);
  EXPECT_EQ(step_under(text, {"op:^dot=0.5x"}), 5 + 10 + 7);
  EXPECT_EQ(step_under(text, {"op:t$=2x"}), 10 + 10 + 14);
  EXPECT_EQ(step_under(text, {"device=0.5x"}), 5 + 5 + 7);
  EXPECT_EQ(step_under(text, {"rank:1=2x"}), 20 + 20 + 7);
  EXPECT_EQ(step_under(text, {"op:^dot=0.5x", "rank:1=2x"}), 10 + 20 + 7);
  // No slower than the median of three ranks: the others' 20.
  EXPECT_EQ(step_under(text, {"rank:1=2x", "straggler=none"}), 20 + 7);
}

// Of 8 ns before each unit, 5 are dispatch and 3 what the fit did not explain;
// 2 more wake the stream that waited for the transfer.
TEST(WhatIf, ScalesHandingOver) {
  TextSchedule text;
  parse_schedule("compute a 10\ntransfer t 7 after a\ncompute b 10 after t", 2,
                 text);
  text.priced.dispatch_ns = 5;
  text.priced.unexplained_ns = 6;
  text.priced.compute_wake_ns = 2;
  EXPECT_EQ(step_under(text, {}), 8 + 10 + 7 + 10 + 10);
  EXPECT_EQ(step_under(text, {"launch=0.4x"}), 5 + 10 + 7 + 7 + 10);
  EXPECT_EQ(step_under(text, {"launch=0"}), 3 + 10 + 7 + 5 + 10);
}

// The second unit no longer waits for the transfer, the step still does.
TEST(WhatIf, OverlapsTransfersWithWhatWaitedForThem) {
  TextSchedule text;
  parse_schedule("compute a 10\ntransfer t 100 after a\ncompute b 20 after t",
                 2, text);
  EXPECT_EQ(step_under(text, {}), 130);
  EXPECT_EQ(step_under(text, {"overlap=ideal"}), 110);
  EXPECT_EQ(step_under(text, {"overlap=ideal", "bandwidth=10x"}), 30);
}

TEST(WhatIf, RefusesWhatItDoesNotUnderstand) {
  for (const char* text :
       {"", "bandwidth", "bandwidth=", "bandwidth=-2x", "bandwidth=2",
        "bandwidth=nanx", "latency=5m", "op:=2x", "op:(=2x", "rank:=2x",
        "rank:-1=2x", "speed=2x"}) {
    EXPECT_FALSE(parse_what_if(text).has_value()) << text;
  }
  TextSchedule text;
  parse_schedule("compute dot.1 10", 1, text);
  for (const char* refused :
       {"op:conv=2x", "rank:2=2x", "host=0.5x", "bandwidth=2x", "latency=1us",
        "straggler=none", "overlap=ideal"}) {
    EXPECT_EQ(step_under(text, {refused}), -1) << refused;
  }
}

}  // namespace
}  // namespace reprise

// Where a wait ends and a transfer begins, in steps whose times are known.
#include "costmodel/recorded_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "costmodel/fit_gaps.h"
#include "tests/replay/simulate/synthetic_run.h"

namespace reprise {
namespace {

constexpr uint32_t kMeetings = 10;
constexpr int64_t kCompute_ns = 1'000, kTransfer_ns = 10'000, kLead_ns = 3'000;

/// Units in turn: compute, and a meeting that needs it.
Schedule chain() {
  Schedule schedule;
  schedule.units.resize(size_t{2} * kMeetings);
  for (uint32_t unit = 1; unit < 2 * kMeetings; ++unit) {
    if (unit % 2 == 1) {
      schedule.units[unit].kind = UnitKind::kCollective;
      schedule.units[unit].stream = Stream::kCommunication;
    }
    schedule.dependencies.push_back({UnitId{unit - 1}, UnitId{unit}, 0});
  }
  return schedule;
}

/// Both ranks come to the first meeting together. From there on rank 1 leaves
/// each `kLead_ns` before rank 0, and comes to the next by so much earlier.
Trace run_with_a_lead() {
  Trace trace;
  trace.ranks.resize(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    trace.ranks[rank].rank = rank;
    int64_t now_ns = 0;
    for (uint32_t meeting = 0; meeting < kMeetings; ++meeting) {
      const auto unit = static_cast<int32_t>(2 * meeting);
      const int64_t arrival_ns = now_ns + kCompute_ns;
      const bool leads = rank == 1 && meeting == 0;
      const int64_t left_ns = arrival_ns + kTransfer_ns - leads * kLead_ns;
      trace.events.push_back({.rank = rank,
                              .step = 0,
                              .unit = unit,
                              .start_ns = now_ns,
                              .end_ns = arrival_ns});
      trace.events.push_back({.rank = rank,
                              .kind = EventKind::kCollective,
                              .step = 0,
                              .unit = unit + 1,
                              .start_ns = arrival_ns,
                              .end_ns = left_ns});
      now_ns = left_ns;
    }
    trace.steps.push_back({.rank = rank, .step = 0, .end_ns = now_ns});
  }
  return trace;
}

// The link is busy for all of 10 us between two meetings, whichever rank's data
// it brings first: 1.5 us of wait and 8.5 of transfer would not shrink alike.
TEST(RecordedSteps, ALeadThatARankKeepsIsTransfer) {
  const Schedule schedule = chain();
  const auto steps = recorded_steps(run_with_a_lead(), schedule);
  ASSERT_TRUE(steps.has_value()) << steps.error().message;
  const std::vector<RecordedTransfer>& transfers = steps->at(0).transfers;
  ASSERT_EQ(transfers.size(), kMeetings);
  // The first was a meeting of ranks that came together: the mean counts.
  EXPECT_EQ(transfers[0].end_ns - transfers[0].start_ns,
            kTransfer_ns - kLead_ns / 2);
  for (uint32_t meeting = 1; meeting < kMeetings; ++meeting) {
    const RecordedTransfer& transfer = transfers[meeting];
    EXPECT_EQ(transfer.end_ns - transfer.start_ns, kTransfer_ns) << meeting;
    EXPECT_EQ(transfer.kept_lead_ns, (std::vector<int64_t>{0, kLead_ns}));
  }
  // Of nine waits only the first is not the link's.
  CostModel costs;
  fit_gaps(*steps, schedule, costs);
  const double waits_ns =
      costs.jitter_sqrt_ns * std::sqrt(double{kCompute_ns}) * kMeetings;
  EXPECT_NEAR(waits_ns, kLead_ns / 2.0, 1);
}

TEST(RecordedSteps, SplitsWaitFromTransfer) {
  // Rank 0 arrives at 10, rank 1 at 25; both leave at 40. Rank 0 computes
  // 0–20 beside nothing, rank 1 20–35: 10 of it beside the transfer.
  Schedule schedule = training_schedule({.layers = 1});
  schedule.units.resize(2);
  schedule.dependencies.clear();
  schedule.units[0] = {};
  schedule.units[1] = {};
  schedule.units[1].kind = UnitKind::kCollective;
  schedule.units[1].stream = Stream::kCommunication;
  Trace trace;
  trace.ranks = {{.rank = 0, .host = {}, .device = {}},
                 {.rank = 1, .host = {}, .device = {}}};
  const auto add = [&](uint32_t rank, int unit, int64_t start, int64_t end) {
    trace.events.push_back(
        {.rank = rank,
         .kind = unit == 0 ? EventKind::kCompute : EventKind::kCollective,
         .step = 0,
         .unit = unit,
         .start_ns = start,
         .end_ns = end});
  };
  add(0, 0, 0, 20);
  add(0, 1, 10, 40);
  add(1, 0, 20, 35);
  add(1, 1, 25, 40);
  trace.steps = {{0, 0, 0, 41, false}, {1, 0, 0, 43, false}};
  const auto steps = recorded_steps(trace, schedule);
  ASSERT_TRUE(steps.has_value());
  ASSERT_EQ(steps->size(), 1u);
  const RecordedStep& step = steps->front();
  EXPECT_EQ(step.time_ns, 43);
  ASSERT_EQ(step.transfers.size(), 1u);
  EXPECT_EQ(step.transfers[0].start_ns, 25);
  EXPECT_EQ(step.transfers[0].end_ns, 40);
  EXPECT_EQ(step.transfers[0].beside_ns, 10);
  EXPECT_EQ(step.ranks[0].compute[0].beside_ns, 0);
  EXPECT_EQ(step.ranks[1].compute[0].beside_ns, 10);
}

// Ranks 0 and 2 meet at 30, ranks 1 and 3 at 12: neither waits for the other.
TEST(RecordedSteps, SplitsGroupsOfRanksApart) {
  Schedule schedule = training_schedule({.layers = 1});
  schedule.ranks = 4;
  schedule.units.resize(1);
  schedule.dependencies.clear();
  schedule.units[0] = {};
  schedule.units[0].kind = UnitKind::kCollective;
  schedule.units[0].stream = Stream::kCommunication;
  schedule.units[0].collective.groups = {{2, 0}, {1, 3}};
  schedule.units[0].collective.bytes = 64;
  Trace trace;
  const std::vector<std::pair<int64_t, int64_t>> stays = {
      {10, 40}, {11, 20}, {30, 42}, {12, 22}};
  for (uint32_t rank = 0; rank < 4; ++rank) {
    trace.ranks.push_back({.rank = rank, .host = {}, .device = {}});
    trace.steps.push_back({rank, 0, 0, 50, false});
    trace.events.push_back({.rank = rank,
                            .kind = EventKind::kCollective,
                            .step = 0,
                            .unit = 0,
                            .start_ns = stays[rank].first,
                            .end_ns = stays[rank].second});
  }
  const auto steps = recorded_steps(trace, schedule);
  ASSERT_TRUE(steps.has_value()) << steps.error().message;
  const auto& transfers = steps->front().transfers;
  ASSERT_EQ(transfers.size(), 2u);
  EXPECT_EQ(transfers[0].members, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(transfers[0].start_ns, 12);
  // Rank 1 keeps a lead of 1: the mean of 21 and 22. Rank 0 keeps 2 of its 20.
  EXPECT_EQ(transfers[0].end_ns, 22);
  EXPECT_EQ(transfers[1].members, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(transfers[1].start_ns, 30);
  EXPECT_EQ(transfers[1].end_ns, 42);
}

// As an older version may have run them.
TEST(RecordedSteps, RefusesUnitsInAnotherOrder) {
  const Schedule schedule = training_schedule({.layers = 2});
  Trace trace = run_trace(schedule, true_costs(schedule, 0), {.steps = 4});
  for (const std::string& name : {schedule.units[1].name, std::string("x")})
    trace.strings.push_back(name);
  const auto event = std::ranges::find_if(trace.events, [](const Event& each) {
    return each.step == 2 && each.unit == 1;
  });
  event->name = StringId{1};
  EXPECT_TRUE(recorded_steps(trace, schedule));
  event->name = StringId{2};
  const auto steps = recorded_steps(trace, schedule);
  ASSERT_FALSE(steps);
  EXPECT_EQ(steps.error().message,
            "trace: step 2 ran 'x' where this version of Reprise has '" +
                schedule.units[1].name + "'; record it again");
}

TEST(RecordedSteps, KeepsTheMiddleHalfOfTheSteps) {
  std::vector<RecordedStep> steps(8);
  for (int i = 0; i < 8; ++i) {
    steps[static_cast<size_t>(i)].step = i;
    steps[static_cast<size_t>(i)].time_ns = (i * 5) % 8;
  }
  std::vector<int64_t> times;
  for (const RecordedStep& step : middle_steps(steps)) {
    times.push_back(step.time_ns);
  }
  EXPECT_EQ(times, (std::vector<int64_t>{5, 2, 4, 3}));
}

}  // namespace
}  // namespace reprise

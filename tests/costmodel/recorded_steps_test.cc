// Where a wait ends and a transfer begins, in steps whose times are known.
#include "costmodel/recorded_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "costmodel/fit_gaps.h"

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

}  // namespace
}  // namespace reprise

#include "replay/clock_alignment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/recorded_steps.h"
#include "tests/replay/synthetic_run.h"

namespace reprise {
namespace {

Trace shifted_run(int64_t ranks, uint32_t seed) {
  const Schedule schedule = training_schedule({.layers = 3, .ranks = ranks});
  RunOptions options{.steps = 8, .noise = 0.05, .seed = seed};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    options.clock_offset_ns.push_back(
        rank == 0 ? 0 : (rank % 2 ? 1 : -1) * (10'000'000 - rank));
    options.clock_drift_ppm.push_back(rank == 0 ? 0 : rank % 2 ? -50 : 50);
  }
  return run_trace(schedule, true_costs(schedule, 0), options);
}

// In run_trace all ranks leave a collective at one true instant.
int64_t worst_error_ns(const Trace& trace) {
  std::map<std::pair<int32_t, int32_t>, int64_t> ends;
  int64_t worst = 0;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::kCollective) continue;
    const int64_t end_ns =
        on_first_clock(trace.ranks[event.rank], event.end_ns);
    const auto [at, first] = ends.insert({{event.step, event.unit}, end_ns});
    worst = std::max(worst, std::abs(end_ns - at->second));
  }
  return worst;
}

TEST(AlignClocks, UndoesInjectedOffsetAndDriftWithinTheResidual) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    Trace trace = shifted_run(4, seed);
    EXPECT_GT(worst_error_ns(trace), 9'000'000);
    int64_t residual_ns = 0;
    for (const ClockAlignment& rank : align_clocks(trace)) {
      residual_ns = std::max(residual_ns, rank.residual_ns);
    }
    // The shortest transfer takes about 90 µs: no bound is tighter than that.
    EXPECT_LT(residual_ns, 150'000);
    EXPECT_LE(worst_error_ns(trace), 2 * residual_ns);
  }
}

TEST(AlignClocks, KeepsAMeasuredClockThatContradictsNothing) {
  Trace trace = shifted_run(2, 1);
  trace.ranks[1].clock_offset_ns = 9'999'999 + 3000;
  trace.ranks[1].clock_drift_ppm = -50;
  trace.ranks[1].clock_reference_ns = 1'000'000'000;
  trace.ranks[1].clock_residual_ns = 5000;
  const auto result = align_clocks(trace);
  ASSERT_EQ(result.size(), 2u);
  EXPECT_TRUE(result[1].measured_kept);
  EXPECT_EQ(result[1].residual_ns, 5000);
  EXPECT_LE(worst_error_ns(trace), 5000);
}

TEST(AlignClocks, MakesAWrongMeasurementCausal) {
  Trace trace = shifted_run(2, 1);
  trace.ranks[1].clock_offset_ns = 9'000'000;  // 1 ms off.
  trace.ranks[1].clock_residual_ns = 1000;
  const auto result = align_clocks(trace);
  EXPECT_FALSE(result[1].measured_kept);
  EXPECT_LE(worst_error_ns(trace), result[1].residual_ns);
}

TEST(AlignClocks, LeavesATraceWithoutCollectivesAlone) {
  Trace trace;
  trace.ranks = {{.rank = 0, .host = {}, .device = {}},
                 {.rank = 1, .host = {}, .device = {}, .clock_offset_ns = 7}};
  EXPECT_EQ(align_clocks(trace).size(), 2u);
  EXPECT_EQ(trace.ranks[1].clock_offset_ns, 7);
}

}  // namespace
}  // namespace reprise

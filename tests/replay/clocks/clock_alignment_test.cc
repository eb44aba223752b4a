#include "replay/clocks/clock_alignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/replay/clocks/shifted_clocks.h"
#include "tests/replay/collectives/collective_text.h"
#include "tests/replay/simulate/synthetic_run.h"

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
    const int64_t end_ns = to_rank0_ns(trace.ranks[event.rank], event.end_ns);
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

// A grid of ranks, four to a row: collectives of rows and of columns in turn,
// ranks late by turns, on true time from 0.
struct Grid {
  uint32_t ranks = 8;
  int rounds = 60;
  bool device = true;
  double least_late_ns = 0;     ///< Every rank but rank 0 is late by so much.
  double ends_spread_ns = 3e3;  ///< How much earlier than the last one ends.
};

Trace grid_trace(const Grid& grid, uint32_t seed) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> late(1 / 400e3);
  std::uniform_real_distribution<double> spread(0, grid.ends_spread_ns);
  std::normal_distribution<double> noise(0, 0.05);
  constexpr uint32_t kRow = 4;
  std::string text;
  std::vector<double> free_ns(grid.ranks, 1e6);
  for (int round = 0; round < grid.rounds; ++round) {
    for (uint32_t group = 0; group < (round % 2 ? kRow : grid.ranks / kRow);
         ++group) {
      std::vector<uint32_t> members;
      for (uint32_t rank = 0; rank < grid.ranks; ++rank) {
        if ((round % 2 ? rank % kRow : rank / kRow) == group) {
          members.push_back(rank);
        }
      }
      double arrival_ns = 0;
      std::vector<double> starts_ns;
      std::string names;
      for (const uint32_t rank : members) {
        const double least = rank == 0 ? 0 : grid.least_late_ns;
        starts_ns.push_back(free_ns[rank] + least + late(random));
        arrival_ns = std::max(arrival_ns, starts_ns.back());
        if (!names.empty()) names += ',';
        names += fmt::format("{}", rank);
      }
      const double end_ns = arrival_ns + 60e3 * std::exp(noise(random));
      for (size_t i = 0; i < members.size(); ++i) {
        const double left_ns = end_ns - spread(random);
        text += fmt::format(
            "{} collective {} {:.0f} {:.0f} k op=all-reduce comm=c group={} "
            "bytes=4\n",
            members[i], grid.device ? "d7" : "t1", starts_ns[i],
            std::max(left_ns, arrival_ns), names);
        free_ns[members[i]] = left_ns + 50e3;
      }
    }
  }
  return collective_trace(text);
}

struct Outcome {
  int64_t worst_error_ns = 0, worst_residual_ns = 0;
};

// Shifts every clock by up to 10 ms and 50 ppm, aligns, and checks what must
// hold for every rank and event.
Outcome align_shifted(const Trace& truth, uint32_t seed) {
  const ClockShifts shifts = random_shifts(truth, seed);
  Trace trace = shifted(truth, shifts);
  Outcome outcome;
  const auto clocks = align_clocks(trace);
  for (size_t place = 0; place < clocks.size(); ++place) {
    const int64_t error_ns = worst_error_ns(trace, truth, shifts, place);
    EXPECT_LE(error_ns, clocks[place].residual_ns) << "rank " << place;
    EXPECT_EQ(trace.ranks[place].clock_residual_ns, clocks[place].residual_ns);
    outcome.worst_error_ns = std::max(outcome.worst_error_ns, error_ns);
    outcome.worst_residual_ns =
        std::max(outcome.worst_residual_ns, clocks[place].residual_ns);
  }
  EXPECT_LE(worst_acausality_ns(trace), 2);
  return outcome;
}

TEST(AlignClocks, PlacesDevicesFarBetterThanTheBoundsTell) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = align_shifted(grid_trace({}, seed), seed);
    // Ends differ by at most 3 µs; two hops (row, column) at most double it.
    EXPECT_LT(outcome.worst_error_ns, 6'000) << seed;
    // Transfers take 60 µs and no bound is tighter; two hops.
    EXPECT_LT(outcome.worst_residual_ns, 200'000) << seed;
  }
}

TEST(AlignClocks, DoesNotTrustTheEndsOfHostsBeyondTheBounds) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const Grid grid{.device = false, .ends_spread_ns = 60e3};
    const Outcome outcome = align_shifted(grid_trace(grid, seed), seed);
    EXPECT_LT(outcome.worst_error_ns, 100'000) << seed;
    EXPECT_LT(outcome.worst_residual_ns, 200'000) << seed;
  }
}

TEST(AlignClocks, StatesALargeResidualWhereOneRankIsAlwaysFirst) {
  // Rank 0 is never last: nothing but its waits and the ends of all bounds the
  // others from above. In the middle of its waits they would be 2.5 ms off;
  // ends differ by 60 µs.
  const Grid grid{.ranks = 4,
                  .rounds = 20,
                  .device = false,
                  .least_late_ns = 5e6,
                  .ends_spread_ns = 60e3};
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = align_shifted(grid_trace(grid, seed), seed);
    EXPECT_GT(outcome.worst_residual_ns, 1'000'000) << seed;
    EXPECT_LT(outcome.worst_error_ns, 60'000) << seed;
  }
}

TEST(AlignClocks, KeepsAStragglerAmongHostsLate) {
  // Rank 1 comes 40 ms after rank 0 to every all-reduce, and both leave 5 ms
  // later. The bounds alone allow -40 to 5 ms of offset, and its middle made
  // both ranks equally late. A host's ends are trusted to 5 + 8 ms.
  std::string text;
  for (int round = 0; round < 6; ++round) {
    const int64_t at_ns = 1'000'000'000 + 66'000'000 * round;
    for (const int rank : {0, 1}) {
      text += fmt::format("{} collective t1 {} {} k op=all-reduce comm=c\n",
                          rank, at_ns + 40'000'000 * rank, at_ns + 45'000'000);
    }
  }
  Trace trace = collective_trace(text);
  trace.ranks[1].host = "another";
  const auto clocks = align_clocks(trace);
  EXPECT_LT(std::abs(clocks[1].offset_ns), 1000);
  EXPECT_GT(clocks[1].residual_ns, 5'000'000);
  EXPECT_LT(clocks[1].residual_ns, 14'000'000);
}

TEST(AlignClocks, FollowsMessagesDownAPipeline) {
  // Each rank talks to the next only; a message takes 30 to 40 µs.
  std::mt19937 random(7);
  std::uniform_real_distribution<double> takes(30e3, 40e3);
  std::string text;
  const auto message = [&](double at_ns, int from, int to) {
    const double end_ns = at_ns + takes(random);
    const char* const line = "{} collective t1 {:.0f} {:.0f} k op={} peer={}\n";
    text +=
        fmt::format(fmt::runtime(line), from, at_ns, at_ns + 5e3, "send", to);
    text += fmt::format(fmt::runtime(line), to, at_ns - 1e5, end_ns, "receive",
                        from);
  };
  for (int round = 0; round < 40; ++round) {
    for (int rank = 0; rank < 4; ++rank) {
      message(1e6 + 2e6 * round + 2e5 * rank, rank, rank + 1);
      message(2e6 + 2e6 * round - 2e5 * rank, rank + 1, rank);
    }
  }
  const Trace truth = collective_trace(text);
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    const Outcome outcome = align_shifted(truth, seed);
    EXPECT_LT(outcome.worst_error_ns, 30'000);
    EXPECT_LT(outcome.worst_residual_ns, 4 * 50'000);
  }
}

// Steps of a ring: each rank sends to the next and leaves 80 µs after it and
// the one before it have come. Rank 1 is 12 ms late in every tenth round.
Trace ring_trace(uint32_t ranks, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> works(475e3, 525e3);
  std::string text;
  std::vector<double> free_ns(ranks, 1e6);
  for (int round = 0; round < 60; ++round) {
    std::vector<double> starts_ns;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const bool late = rank == 1 && round % 10 == 0;
      starts_ns.push_back(free_ns[rank] + works(random) + (late ? 12e6 : 0));
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint32_t before = (rank + ranks - 1) % ranks;
      const double start_ns = starts_ns[rank];
      free_ns[rank] = std::max(start_ns, starts_ns[before]) + 80e3;
      const std::string call = fmt::format("{} host t1 ", rank);
      const auto at = [&](double before_ns) {
        return fmt::format(" {:.0f} ", start_ns - before_ns);
      };
      text += call + at(60e3) + at(50e3) +
              fmt::format("record_param_comms op=send comm=g in=9 peer={}\n",
                          (rank + 1) % ranks);
      text += call + at(40e3) + at(30e3) +
              fmt::format("record_param_comms op=receive comm=g in=9 peer={}\n",
                          before);
      text += fmt::format("{} launch t1 ", rank) + at(20e3) + at(10e3) +
              fmt::format("cudaLaunchKernelExC corr={}\n", round + 1);
      text += fmt::format("{} collective d7 {:.0f} {:.0f} ", rank, start_ns,
                          free_ns[rank]) +
              fmt::format("ncclDevKernel_SendRecv corr={}\n", round + 1);
    }
  }
  return collective_trace(text);
}

TEST(AlignClocks, FollowsMessagesRoundARing) {
  for (const uint32_t ranks : {3u, 4u, 8u}) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      const Outcome outcome = align_shifted(ring_trace(ranks, seed), seed);
      // Of clocks 10 ms apart, no more than a transfer takes.
      EXPECT_LT(outcome.worst_error_ns, 85'000) << ranks << ' ' << seed;
      // A bound is a transfer long, and there is one for each rank.
      EXPECT_LT(outcome.worst_residual_ns, ranks * 100'000)
          << ranks << ' ' << seed;
    }
  }
}

constexpr const char* kTwoHosts = R"(
    0 collective d7 1000 9000 k op=all-reduce comm=a group=0,1
    1 collective d7 2000 9500 k op=all-reduce comm=a group=0,1)";

TEST(AlignClocks, GivesRanksOfOneHostOneClock) {
  Trace trace = collective_trace(kTwoHosts);
  for (RankInfo& info : trace.ranks) info.host = std::string(1, 'a');
  const auto clocks = align_clocks(trace);
  EXPECT_TRUE(clocks[1].measured_kept);
  EXPECT_EQ(clocks[1].offset_ns, 0);
  EXPECT_EQ(clocks[1].residual_ns, 0);
}

TEST(AlignClocks, DistrustsAHostsClockThatContradictsItself) {
  Trace trace = collective_trace(kTwoHosts);
  for (RankInfo& info : trace.ranks) info.host = std::string(1, 'a');
  for (Event& event : trace.events) {
    if (event.rank == 0) continue;
    event.start_ns += 50'000;
    event.end_ns += 50'000;
  }
  const auto clocks = align_clocks(trace);
  EXPECT_FALSE(clocks[1].measured_kept);
  EXPECT_LE(worst_acausality_ns(trace), 2);
}

// Of a permute along a line the first rank waits for nobody: taken for
// meetings, each round contradicts the next, and no clock explains that.
std::string permutes(const char* name) {
  std::string text;
  for (int round = 0; round < 30; ++round) {
    const int at = 1'000'000 * round;
    for (int rank = 0; rank < 2; ++rank) {
      const int late = (rank + round) % 2 * 400'000;
      text += fmt::format("{} collective t1 {} {} {}\n", rank, at + late,
                          at + late + 50'000, name);
    }
  }
  return text;
}

Trace trainers(Trace trace) {
  for (RankInfo& info : trace.ranks) {
    info.clock_domain = "monotonic";
    info.host.clear();
  }
  int32_t counts[2] = {};
  for (Event& event : trace.events) {
    event.unit = 0;
    event.step = counts[event.rank]++;
  }
  return trace;
}

TEST(AlignClocks, PermutesAreNoMeetings) {
  Trace trace =
      trainers(collective_trace(permutes("slice.4 op=collective-permute")));
  const auto clocks = align_clocks(trace);
  EXPECT_TRUE(clocks[1].measured_kept);
  EXPECT_EQ(clocks[1].collectives, 0);
  EXPECT_EQ(trace.ranks[1].clock_offset_ns, 0);
}

TEST(AlignClocks, AMeasuredClockOutlivesWhatNoClockExplains) {
  Trace trace = trainers(collective_trace(permutes("psum.4")));
  const auto clocks = align_clocks(trace);
  EXPECT_EQ(clocks[1].collectives, 30);
  EXPECT_TRUE(clocks[1].measured_kept);
  EXPECT_EQ(trace.ranks[1].clock_drift_ppm, 0);
  EXPECT_GE(clocks[1].residual_ns, 350'000);  // By so much they contradict it.
}

// What is no meeting (a range that a user named like a collective) is matched
// all the same: rank 1 comes every 12 ms, rank 0 every 10. A clock that drifts
// by 20 % would explain it, and is none.
TEST(AlignClocks, NoClockDriftsBeyondAnOscillator) {
  std::string text;
  for (int round = 0; round < 30; ++round) {
    for (int rank = 0; rank < 2; ++rank) {
      const int at = (rank == 0 ? 10'000'000 : 12'000'000) * round;
      text +=
          fmt::format("{} collective t1 {} {} gloo:all_reduce op=all-reduce\n",
                      rank, at, at + 2'000'000);
    }
  }
  Trace trace = collective_trace(text);
  const auto clocks = align_clocks(trace);
  EXPECT_EQ(clocks[1].collectives, 30);
  EXPECT_LE(std::abs(trace.ranks[1].clock_drift_ppm), 1000.001);
  EXPECT_GE(clocks[1].residual_ns, 20'000'000);
}

TEST(AlignClocks, SaysWhereNothingTiesARank) {
  Trace trace = collective_trace(R"(
      0 collective d7 1000 9000 k op=all-reduce comm=a group=0
      3 collective d7 1000 9000 k op=all-reduce comm=b group=3,4
      4 collective d7 1000 9000 k op=all-reduce comm=b group=3,4)");
  const auto clocks = align_clocks(trace);
  EXPECT_EQ(clocks[0].residual_ns, 0);
  EXPECT_EQ(clocks[1].residual_ns, -1);
  EXPECT_EQ(clocks[2].residual_ns, -1);
}

TEST(AlignClocks, ToleratesTimesThatNoClockShows) {
  Trace trace = collective_trace(R"(
      0 collective d7 -9223372036854775807 9223372036854775807 k op=all-reduce
      0 collective d7 1 2 k op=all-reduce
      1 collective d7 -9223372036854775807 -9223372036854775806 k op=all-reduce
      1 collective d7 9223372036854775806 9223372036854775807 k op=all-reduce)");
  EXPECT_EQ(align_clocks(trace).size(), 2u);
}

}  // namespace
}  // namespace reprise

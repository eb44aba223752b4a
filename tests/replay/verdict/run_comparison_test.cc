#include "replay/verdict/run_comparison.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <random>

#include "replay/verdict/run_drift.h"
#include "replay/verdict/steady_state.h"

namespace reprise {
namespace {

/// A few runs of 40 steps around a level each, drawn from `seed`.
std::vector<StepRun> runs_of(uint64_t seed, size_t count, double scale,
                             double first_place, double drift) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<StepRun> runs;
  for (size_t i = 0; i < count; ++i) {
    const double place = first_place + 2 * static_cast<double>(i);
    const double level = std::exp(0.003 * normal(random) + drift * place);
    StepRun run;
    for (int step = 0; step < 40; ++step) {
      run.step_ns.push_back(1e7 * scale * level *
                            std::exp(0.01 * normal(random)));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

RunComparison compared(uint64_t seed, double scale, double drift) {
  return compare_runs(runs_of(2 * seed, 6, 1, 0, drift),
                      runs_of(2 * seed + 1, 6, scale, 1, drift),
                      {.confidence = 0.99, .alternating = true, .seed = 0});
}

TEST(SteadyState, CutsSlowStepsAtTheFrontAndNothingElse) {
  std::vector<double> steps(40, 10);
  EXPECT_EQ(warmup_steps(steps), 0u);
  steps[3] = 90;  // One late step is no warm-up: its five have a median of 10.
  EXPECT_EQ(warmup_steps(steps), 0u);
  for (size_t i = 0; i < 8; ++i) steps[i] = 50 - 5 * static_cast<double>(i);
  EXPECT_EQ(warmup_steps(steps), 10u);          // Whole fives.
  for (size_t i = 0; i < 8; ++i) steps[i] = 5;  // Fast ones stay.
  EXPECT_EQ(warmup_steps(steps), 0u);
}

TEST(SteadyState, PaceVarianceIsOfLongChangesThatRunsDoNotShare) {
  const auto variance = [](const std::vector<std::vector<double>>& runs) {
    return pace_variance({runs.begin(), runs.end()});
  };
  std::vector<double> even(40, 10), late = even, slow = even, heating;
  for (size_t i = 0; i < 40; i += 7) late[i] = 90;  // Each five has one.
  for (size_t i = 20; i < 40; ++i)
    slow[i] = 10 * std::numbers::e;  // Half: ln is 1 more.
  for (int i = 0; i < 40; ++i) heating.push_back(10 + i / 5);
  EXPECT_EQ(variance({even, late, even}), 0);
  EXPECT_NEAR(variance({heating, heating, heating}), 0, 1e-12);
  // Of 8 medians a variance of 1/4, and lag 1 of 5/8: 1/4 * 2 * 9/8 / 7, of one
  // run in four.
  EXPECT_NEAR(variance({even, even, even, slow}), 9.0 / 112 / 4, 1e-12);
  EXPECT_EQ(variance({{1, 2, 3, 4, 5, 6}}), 0);
}

TEST(SteadyState, TrimmedMeanLeavesOutAShareOfEachEnd) {
  EXPECT_DOUBLE_EQ(trimmed_mean({1000, 2, 4, 6, 8, 0, 3, 5}, 0.25), 4.5);
  EXPECT_DOUBLE_EQ(trimmed_mean({1, 2, 3, 6}, 0), 3);
  EXPECT_DOUBLE_EQ(trimmed_mean({7}, 0.4), 7);
  EXPECT_DOUBLE_EQ(trimmed_mean({}, 0.25), 0);
}

TEST(SteadyState, BlocksAreAsLongAsStepsRemember) {
  std::vector<double> alternating, slow;
  for (int i = 0; i < 64; ++i) {
    alternating.push_back(i % 2);
    slow.push_back(i / 16 % 2);
  }
  EXPECT_EQ(block_length(alternating), 4u);  // 64^(1/3).
  EXPECT_EQ(block_length(slow), 16u);        // A quarter of them at most.
}

TEST(RunDrift, ALineIsNoChangeAndAStepIsNoLine) {
  // log step = 0.1 + 0.02 place: all of the difference of 0.06 is drift.
  const std::vector<PlacedRun> before = {{0, 0.1}, {1, 0.12}, {2, 0.14}};
  const std::vector<PlacedRun> line = {{3, 0.16}, {4, 0.18}, {5, 0.20}};
  const DriftFit drifted = fit_drift(before, line);
  ASSERT_TRUE(drifted.fits);
  EXPECT_NEAR(drifted.change, 0, 1e-12);
  EXPECT_LT(drifted.chance, 1e-6);
  const std::vector<PlacedRun> flat = {{0, 0.1}, {1, 0.1}, {2, 0.1}};
  const std::vector<PlacedRun> stepped = {{3, 0.2}, {4, 0.2}, {5, 0.2}};
  EXPECT_NEAR(fit_drift(flat, stepped).change, 0.1, 1e-12);
  EXPECT_FALSE(fit_drift({{0, 1}, {1, 1}}, {{2, 1}, {3, 1}}).fits);
}

/// Runs in order, after behind before, of a pace that takes steps of `walk`
/// from one to the next; runs vary by `own` besides.
DriftFit wandering(std::mt19937_64& random, size_t runs, double walk,
                   double own) {
  std::normal_distribution<double> normal;
  std::array<std::vector<PlacedRun>, 2> sides;
  double pace = 0;
  for (size_t i = 0; i < 2 * runs; ++i) {
    sides[i / runs].push_back(
        {static_cast<double>(i), pace + own * normal(random)});
    pace += walk * normal(random);
  }
  return fit_drift(sides[0], sides[1]);
}

TEST(RunDrift, APaceThatWandersIsNoChange) {
  struct Noise {
    double walk, own;
  };
  constexpr int kPairs = 500;
  for (const auto& [walk, own] : {Noise{0, 1}, Noise{1, 1}, Noise{1, 0}}) {
    for (const size_t runs : {3, 6, 12}) {
      std::mt19937_64 random(20 + runs);
      int wrong = 0;
      for (int pair = 0; pair < kPairs; ++pair) {
        const DriftFit fit = wandering(random, runs, walk, own);
        ASSERT_TRUE(fit.fits);
        wrong +=
            change_quantile(fit, 0.005) > 0 || change_quantile(fit, 0.995) < 0;
      }
      // 5 are promised; more than 14 are less likely than 1 in 4000.
      EXPECT_LE(wrong, 14) << walk << ' ' << own << ' ' << runs;
    }
  }
}

TEST(RunComparison, IsWrongAsRarelyAsItSays) {
  int false_verdicts = 0, missed = 0, held = 0;
  constexpr int kPairs = 200;
  for (int seed = 0; seed < kPairs; ++seed) {
    const double drift = seed % 2 == 0 ? 0 : 0.002;
    const RunComparison same = compared(1000 + seed, 1, drift);
    false_verdicts +=
        same.verdict == Verdict::kFaster || same.verdict == Verdict::kSlower;
    const RunComparison slower = compared(5000 + seed, 1.05, drift);
    missed += slower.detectable <= 0.05 && slower.verdict != Verdict::kSlower;
    held += slower.low <= 0.05 && slower.high >= 0.05;
  }
  // Of 200 at 99 %, 2 are expected; more than 8 are less likely than 1 in 4000.
  EXPECT_LE(false_verdicts, 8);
  EXPECT_LE(missed, 8);
  EXPECT_GE(held, kPairs - 8);
}

TEST(RunComparison, TheSameRunsGiveTheSameAnswer) {
  const RunComparison one = compared(7, 1.02, 0), other = compared(7, 1.02, 0);
  EXPECT_EQ(one.low, other.low);
  EXPECT_EQ(one.detectable, other.detectable);
}

TEST(RunComparison, OneRunASideIsNotComparable) {
  const RunComparison lone =
      compare_runs(runs_of(1, 1, 1, 0, 0), runs_of(2, 1, 2, 1, 0));
  EXPECT_EQ(lone.verdict, Verdict::kNotComparable);
  EXPECT_NEAR(lone.change, 1, 0.05);
}

/// 60 steps of 10 ms, `slow` of them, from `first` on, at 13 ms, all times
/// `scale`, with 1 % of noise.
StepRun two_paces(uint64_t seed, double scale, size_t first, size_t slow) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  StepRun run;
  for (size_t i = 0; i < 60; ++i) {
    const bool is_slow = i >= first && i < first + slow;
    run.step_ns.push_back((is_slow ? 1.3e7 : 1e7) * scale *
                          std::exp(0.01 * normal(random)));
  }
  return run;
}

TEST(CompareRuns, FewRunsThatMetOnePaceByChanceAreNoProof) {
  // Slower by 10 %; the machine was at its slow pace in all runs before but for
  // the end of one, at its fast one in all after but for the start of one.
  const RunComparison told = compare_runs(
      {two_paces(1, 1, 0, 60), two_paces(2, 1, 0, 60), two_paces(3, 1, 0, 45)},
      {two_paces(4, 1.1, 0, 8), two_paces(5, 1.1, 0, 0),
       two_paces(6, 1.1, 0, 0)},
      {.confidence = 0.999, .alternating = true, .seed = 0});
  EXPECT_NE(told.verdict, Verdict::kFaster);
  EXPECT_GT(told.high, 0.1);
}

TEST(CompareRuns, TenPercentShowBesideTwoPacesOfSteps) {
  // Half of the steps at random take 1.4 times as long as the others.
  const auto runs_at = [](uint64_t seed, double scale) {
    std::mt19937_64 random(seed);
    std::vector<StepRun> runs(8);
    for (StepRun& run : runs) {
      for (int i = 0; i < 60; ++i)
        run.step_ns.push_back((random() % 2 == 0 ? 1.4e7 : 1e7) * scale);
    }
    return runs;
  };
  constexpr int kPairs = 60;
  int found = 0, wrong = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const auto verdict = [&](double scale) {
      return compare_runs(runs_at(2 * pair, 1), runs_at(2 * pair + 1, scale),
                          {.confidence = 0.99, .alternating = true, .seed = 0})
          .verdict;
    };
    found += verdict(1.1) == Verdict::kSlower;
    wrong += verdict(1) != Verdict::kNoDifference;
  }
  EXPECT_GE(found, 55);  // The mean of the middle half found 30.
  EXPECT_LE(wrong, 4);   // 0.6 are promised.
}

TEST(CompareRuns, LateStepsAreLeftOut) {
  // One step in eight at random takes five times as long as the others.
  const auto runs_at = [](uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<StepRun> runs(8);
    for (StepRun& run : runs) {
      for (int i = 0; i < 60; ++i)
        run.step_ns.push_back(random() % 8 == 0 ? 5e7
                                                : 1e7 + 1e3 * (i * 7 % 11));
    }
    return runs;
  };
  const RunComparison told =
      compare_runs(runs_at(3), runs_at(4),
                   {.confidence = 0.99, .alternating = true, .seed = 0});
  EXPECT_EQ(told.verdict, Verdict::kNoDifference);
  EXPECT_LT(told.detectable, 0.001);  // With a tenth left out, 0.06.
}

TEST(CompareRuns, AWarmUpIsCutFromAllRunsAlike) {
  std::vector<StepRun> runs(4);
  for (StepRun& run : runs) {
    run.step_ns.assign(40, 1e7);
    for (size_t i = 0; i < 8; ++i) run.step_ns[i] = 1.5e7;
  }
  // Slow at its end too, this one does not show by itself that it warmed up.
  for (size_t i = 30; i < 40; ++i) runs[2].step_ns[i] = 1.6e7;
  EXPECT_EQ(warmup_steps(runs[2].step_ns), 0u);
  EXPECT_EQ(compare_runs(runs, runs).before.warmup_steps, 4 * 10u);
}

}  // namespace
}  // namespace reprise

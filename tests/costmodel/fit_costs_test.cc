// Fits on traces made by replay under known prices must recover those prices,
// and predict plans that were never recorded.
#include "costmodel/fit_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "costmodel/cost_database.h"
#include "costmodel/fit_collectives.h"
#include "costmodel/fit_gaps.h"
#include "costmodel/recorded_steps.h"
#include "replay/simulate/replay.h"
#include "tests/replay/simulate/synthetic_run.h"

namespace reprise {
namespace {

double step_time(const Schedule& schedule, const CostModel& costs) {
  return static_cast<double>(replay_step_time(price_schedule(schedule, costs)));
}

CostModel fit(const Schedule& schedule, const Trace& trace,
              const std::vector<Measurement>& measurements = {}) {
  const Result<CostModel> costs = fit_costs(trace, schedule, measurements);
  EXPECT_TRUE(costs.has_value()) << (costs ? "" : costs.error().message);
  return costs ? *costs : CostModel{};
}

class FitCosts : public ::testing::TestWithParam<double> {};

TEST_P(FitCosts, RecoversPricesFromAnExactTrace) {
  const Schedule schedule = training_schedule({});
  const CostModel truth = true_costs(schedule, GetParam());
  const CostModel found = fit(schedule, run_trace(schedule, truth, {}));
  EXPECT_NEAR(found.contention.kernel, truth.contention.kernel, 0.02);
  EXPECT_NEAR(found.contention.library, truth.contention.library, 0.02);
  const CollectivePrice& link = found.collectives.begin()->second;
  EXPECT_NEAR(link.bandwidth_bytes_per_s / 0.12e9, 1, 0.03);
  // 25 MB from points up to 1 MB.
  const double large = truth.collectives.begin()->second.price_ns(25e6);
  EXPECT_NEAR(link.price_ns(25e6) / large, 1, 0.03);
  // Dispatch slows down beside transfers like the unit after it: up to 1.35x.
  EXPECT_NEAR(found.dispatch_ns, truth.dispatch_ns, 0.35 * 150);
  EXPECT_NEAR(found.feed_ns, truth.feed_ns, 1);
  EXPECT_NEAR(found.step_overhead_ns, truth.step_overhead_ns, 1);
  for (const auto& [key, price] : truth.units) {
    EXPECT_NEAR(found.units.at(key).alone_ns / price.alone_ns, 1, 0.03) << key;
  }
}

TEST_P(FitCosts, PredictsOtherPlansFromANoisyTrace) {
  const Schedule recorded = training_schedule({});
  const CostModel truth = true_costs(recorded, GetParam());
  const Trace trace =
      run_trace(recorded, truth, {.steps = 20, .noise = 0.08, .seed = 3});
  const Trace solo = run_trace(
      recorded, truth, {.steps = 8, .noise = 0.08, .seed = 4, .solo = true});
  const auto measurements = measurements_of(solo, recorded);
  ASSERT_TRUE(measurements.has_value());
  const CostModel found = fit(recorded, trace, *measurements);
  for (const int64_t bucket : {0, 1 << 20, 4 << 20, 30 << 20}) {
    const Schedule plan = training_schedule({.bucket_bytes = bucket});
    EXPECT_NEAR(step_time(plan, found) / step_time(plan, truth), 1, 0.03)
        << bucket;
  }
}

// A run that never overlaps tells nothing about contention; a calibration run
// of the same units in overlapped order does.
TEST_P(FitCosts, PredictsOverlapFromASerialRunAndCalibration) {
  const Schedule serial = training_schedule({.serial = true});
  const CostModel truth = true_costs(serial, GetParam());
  Trace trace =
      run_trace(serial, truth, {.steps = 20, .noise = 0.06, .seed = 5});
  const Trace solo = run_trace(
      serial, truth, {.steps = 8, .noise = 0.06, .seed = 6, .solo = true});
  const Schedule overlapped = training_schedule({});
  const Trace beside =
      run_trace(overlapped, truth, {.steps = 8, .noise = 0.06, .seed = 7});
  trace.measurements = *measurements_of(solo, serial);
  const auto contention = contention_measurements(
      {trace, serial}, {beside, overlapped}, trace.measurements);
  ASSERT_TRUE(contention.has_value());
  EXPECT_EQ(contention->size(), 4u);
  trace.measurements.insert(trace.measurements.end(), contention->begin(),
                            contention->end());
  const CostModel found = fit(serial, trace);
  EXPECT_NEAR(found.contention.library, truth.contention.library, 0.03);
  EXPECT_NEAR(found.contention.kernel, truth.contention.kernel, 0.05);
  EXPECT_NEAR(found.contention.collective, truth.contention.collective, 0.05);
  for (const int64_t bucket : {0, 1 << 20, 30 << 20}) {
    const Schedule plan = training_schedule({.bucket_bytes = bucket});
    EXPECT_NEAR(step_time(plan, found) / step_time(plan, truth), 1, 0.03)
        << bucket;
  }
}

// Transfers slow one rank more than the other, by turns, and the other waits.
TEST(Contention, CountsOnTheRankThatTransfersSlowMost) {
  const Schedule serial = training_schedule({.serial = true});
  const CostModel truth = true_costs(serial, 0);
  const Trace trace = run_trace(serial, truth, {.noise = 0.02, .seed = 5});
  const Trace solo = run_trace(
      serial, truth, {.steps = 8, .noise = 0.02, .seed = 6, .solo = true});
  const auto alone = measurements_of(solo, serial);
  ASSERT_TRUE(alone.has_value());
  const Schedule overlapped = training_schedule({});
  Trace beside = run_trace(overlapped, truth, {.noise = 0.02, .seed = 7});
  const auto learnt = [&] {
    const auto measured =
        contention_measurements({trace, serial}, {beside, overlapped}, *alone);
    EXPECT_TRUE(measured.has_value());
    return with_measured({}, *measured);
  };
  EXPECT_NEAR(learnt().slowest, 1, 0.01);
  constexpr double kMore = 0.3;  // As below.
  std::map<std::pair<int32_t, uint32_t>, std::pair<int64_t, int64_t>> busy;
  for (const Event& event : beside.events) {
    if (event.kind != EventKind::kCollective) continue;
    auto& [first_ns, last_ns] =
        busy.try_emplace({event.step, event.rank}, event.start_ns, 0)
            .first->second;
    first_ns = std::min(first_ns, event.start_ns);
    last_ns = std::max(last_ns, event.end_ns);
  }
  for (Event& event : beside.events) {
    const auto [first_ns, last_ns] = busy.at({event.step, event.rank});
    if (event.kind == EventKind::kCompute &&
        (event.step % 2 == 0) == (event.rank == 0) &&
        event.start_ns > first_ns && event.end_ns < last_ns)
      event.end_ns += (event.end_ns - event.start_ns) * 3 / 10;
  }
  const Contention uneven = learnt();
  EXPECT_NEAR(uneven.library * uneven.slowest,
              truth.contention.library * (1 + kMore), 0.05);
  EXPECT_NEAR(uneven.kernel * uneven.slowest,
              truth.contention.kernel * (1 + kMore), 0.1);
  CostModel costs = truth;
  costs.collectives.begin()->second.bandwidth_bytes_per_s = 1e9;
  const double even_ns = step_time(overlapped, costs);
  costs.contention.slowest = uneven.slowest;
  EXPECT_GT(step_time(overlapped, costs), 1.01 * even_ns);
}

/// Steps of two ranks with two collectives: rank 1 comes 1 ms late to the
/// first, and in two steps of three `off_ns` less or more; nobody waits in the
/// second.
std::vector<RecordedStep> uneven_steps(int count, int64_t off_ns) {
  std::vector<RecordedStep> steps;
  for (int step = 0; step < count; ++step) {
    const int64_t late = 1'000'000 + (step % 3 - 1) * off_ns;
    RecordedStep made;
    made.step = step;
    made.time_ns = 10'000'000;
    made.ranks.resize(2);
    for (RecordedRank& rank : made.ranks) rank.end_ns = made.time_ns;
    for (const uint32_t unit : {0U, 1U}) {
      const int64_t at = unit == 0 ? 2'000'000 : 6'000'000;
      const int64_t start = unit == 0 ? at + late : at;
      made.transfers.push_back({.unit = unit,
                                .members = {0, 1},
                                .bytes = 4,
                                .start_ns = start,
                                .end_ns = start + 1000,
                                .arrival_ns = {at, start},
                                .left_ns = {start + 1000, start + 1000},
                                .kept_lead_ns = {0, 0}});
    }
    steps.push_back(std::move(made));
  }
  return steps;
}

// Of two ranks the mean wait is half of what the late one is late; a rank that
// is always late costs no meeting anything.
TEST(FitGaps, AMeetingCostsWhatItsWaitsVaryBy) {
  const Schedule schedule = training_schedule({});
  const auto found = [&](int count, int64_t off_ns) {
    CostModel costs;
    fit_gaps(uneven_steps(count, off_ns), schedule, costs);
    return costs;
  };
  EXPECT_TRUE(found(9, 0).meeting_is_measured);
  EXPECT_EQ(found(9, 0).meeting_ns, 0);
  EXPECT_EQ(found(9, 200'000).meeting_ns, 100'000 / 2);  // Of two collectives.
  EXPECT_FALSE(found(3, 200'000).meeting_is_measured);
  EXPECT_EQ(found(3, 200'000).meeting_ns, kDefaultMeeting_ns);
}

/// Steps of two ranks that compute for so long, then meet: rank 1 comes late.
std::vector<RecordedStep> meeting_steps(
    const std::vector<std::pair<int64_t, int64_t>>& computed_and_late) {
  std::vector<RecordedStep> steps;
  for (const auto& [computed, late] : computed_and_late) {
    RecordedStep made;
    made.ranks.resize(2);
    for (RecordedRank& rank : made.ranks) {
      rank.end_ns = made.time_ns = computed + late + 1000;
      rank.compute = {{.unit = 0, .start_ns = 0, .end_ns = computed}};
    }
    made.transfers = {{.unit = 1,
                       .members = {0, 1},
                       .start_ns = computed + late,
                       .end_ns = made.time_ns,
                       .arrival_ns = {computed, computed + late},
                       .left_ns = {made.time_ns, made.time_ns},
                       .kept_lead_ns = {0, 0}}};
    steps.push_back(std::move(made));
  }
  return steps;
}

// Waits of (20 + 60) / 2 / 2 = 20 us on the mean, after 500 us apart on the
// mean: replay, which knows that mean alone, must wait 20 us again.
TEST(FitGaps, JitterGivesBackTheWaitsThatWereRecorded) {
  Schedule schedule;
  schedule.units.resize(2);
  schedule.units[1].kind = UnitKind::kCollective;
  schedule.units[1].stream = Stream::kCommunication;
  schedule.dependencies = {{UnitId{0}, UnitId{1}, 0}};
  CostModel costs;
  fit_gaps(meeting_steps({{100'000, 20'000}, {900'000, 60'000}}), schedule,
           costs);
  EXPECT_NEAR(costs.jitter_sqrt_ns * std::sqrt(500'000.0), 20'000, 1e-6);
}

// Six collectives after 4 to 400 us of compute: whoever is last comes 50 us
// late, and 1 us more for each root of a microsecond. Replay must wait so long
// after any time apart, and between collectives that nothing parts.
TEST(FitGaps, WaitsHaveAConstantPartWhereTheyShowOne) {
  const std::vector<int64_t> computed_us = {4, 400, 16, 100, 36, 225};
  Schedule schedule;
  RecordedStep made;
  made.ranks.resize(2);
  int64_t now_ns = 0;
  for (uint32_t place = 0; place < computed_us.size(); ++place) {
    const uint32_t unit = 2 * place;
    schedule.units.resize(unit + 2);
    schedule.units[unit + 1].kind = UnitKind::kCollective;
    schedule.units[unit + 1].stream = Stream::kCommunication;
    schedule.dependencies.push_back({UnitId{unit}, UnitId{unit + 1}, 0});
    if (place > 0) {
      schedule.dependencies.push_back({UnitId{unit - 1}, UnitId{unit}, 0});
    }
    const int64_t computed_ns = computed_us[place] * 1000;
    const int64_t start_ns = now_ns + computed_ns;
    for (RecordedRank& rank : made.ranks) {
      rank.compute.push_back(
          {.unit = unit, .start_ns = now_ns, .end_ns = start_ns});
    }
    // The mean of both ranks' waits is half of what the last is late by.
    const auto late_ns = static_cast<int64_t>(
        2 *
        (50'000 + 1000 * std::sqrt(static_cast<double>(computed_us[place]))));
    now_ns = start_ns + late_ns + 1000;
    made.transfers.push_back({.unit = unit + 1,
                              .members = {0, 1},
                              .start_ns = start_ns + late_ns,
                              .end_ns = now_ns,
                              .arrival_ns = {start_ns, start_ns + late_ns},
                              .left_ns = {now_ns, now_ns},
                              .kept_lead_ns = {0, 0}});
  }
  for (RecordedRank& rank : made.ranks) rank.end_ns = now_ns;
  made.time_ns = now_ns;
  CostModel costs;
  fit_gaps({made}, schedule, costs);
  EXPECT_NEAR(costs.jitter_sqrt_ns * std::sqrt(1e6), 1000 * std::sqrt(1e3), 1);
  // The mean wake-up of both ranks is the wait again: one wakes at once.
  EXPECT_NEAR(costs.communication_gap_ns, 50'000, 1);
  EXPECT_GT(costs.communication_wake_ns, costs.communication_gap_ns);
}

// A rank alone runs its collectives in their turn: one that a first unit let
// begin starts when a long second one has ended. That is no wake-up: a step of
// 69 ms, most of it two loops, was predicted as 90 ms.
TEST(FitGaps, ARankAloneWakesNobody) {
  Schedule schedule;
  schedule.units.resize(4);
  for (const uint32_t unit : {2U, 3U}) {
    schedule.units[unit].kind = UnitKind::kCollective;
    schedule.units[unit].stream = Stream::kCommunication;
    schedule.dependencies.push_back({UnitId{unit - 2}, UnitId{unit}, 0});
  }
  RecordedStep made;
  made.ranks.resize(1);
  made.ranks[0].compute = {
      {.unit = 0, .start_ns = 0, .end_ns = 1'000'000},
      {.unit = 1, .start_ns = 1'000'000, .end_ns = 28'000'000}};
  for (const uint32_t unit : {2U, 3U}) {
    const int64_t start_ns = 28'000'000 + 3'000 * (unit - 1);
    made.transfers.push_back({.unit = unit,
                              .members = {0},
                              .start_ns = start_ns,
                              .end_ns = start_ns + 500,
                              .arrival_ns = {start_ns},
                              .left_ns = {start_ns + 500},
                              .kept_lead_ns = {0}});
  }
  made.ranks[0].end_ns = made.time_ns = 28'010'000;
  CostModel costs;
  fit_gaps({made}, schedule, costs);
  EXPECT_LT(costs.communication_wake_ns, 10'000);
}

/// Of two sizes by turns, each step after an idle link: the first 1 MB passes
/// in no time, as burst credit lets it.
std::vector<TransferSample> bursts(double other_bytes) {
  std::vector<TransferSample> samples;
  for (int32_t step = 0; step < 20; ++step) {
    for (const double bytes : {1e6, other_bytes, 1e6, other_bytes}) {
      const bool is_first = samples.empty() || samples.back().step != step;
      samples.push_back({.step = step,
                         .bytes = bytes,
                         .duration_ns = is_first ? 1e6 : 1e5 + 10 * bytes,
                         .idle_ns = 0});
    }
  }
  return samples;
}

// Sharded weights of like layers are gathered in transfers of one size: what
// the first of a step is spared may be anything, and larger ones are measured.
TEST(BurstCredit, IsNotSeenInTransfersOfOneSize) {
  EXPECT_GT(fit_collective(bursts(4e6)).price.burst_bytes, 0);
  EXPECT_EQ(fit_collective(bursts(1e6)).price.burst_bytes, 0);
}

TEST(CrowdedHost, IsToldWhereRanksAreMoreThanItsCores) {
  Trace trace;
  trace.environment = {{"device", "cpu"}, {"cores", "2"}};
  trace.ranks.resize(3);
  for (RankInfo& info : trace.ranks) info.host = "a";
  trace.ranks[2].host = "b";
  EXPECT_EQ(crowded_host(trace), "");
  trace.ranks[2].host = "a";
  EXPECT_EQ(
      crowded_host(trace).rfind("3 ranks took turns on the 2 cores of a,", 0),
      0);
  trace.environment["device"] = "cuda";
  EXPECT_EQ(crowded_host(trace), "");
}

// 22 steps of 1.30 to 1.51 ms, then the median, 1.55 ms, then 22 of 3 ms: the
// middle of the sorted list is half of each kind, and its mean is neither.
TEST(MiddleSteps, AreOfOneKindWhereStepsAreOfTwo) {
  std::vector<RecordedStep> steps(45);
  for (int32_t number = 0; number < 45; ++number) {
    RecordedStep& step = steps[static_cast<size_t>(number * 2 % 45)];
    step.step = number;
    step.time_ns = number < 22 ? 1'300'000 + 10'000 * number : 3'000'000;
    if (number == 22) step.time_ns = 1'550'000;
  }
  const std::vector<RecordedStep> taken = middle_steps(steps);
  ASSERT_EQ(taken.size(), 16);
  for (const RecordedStep& step : taken) {
    EXPECT_GE(step.step, 22 - 15);
    EXPECT_LE(step.time_ns, 1'550'000);
  }
}

// Few large samples: the slow-down comes from totals, not from a fit of credit.
TEST(Contention, IsLearntFromBucketsApartAndBesideCompute) {
  const Schedule apart =
      training_schedule({.bucket_bytes = 2 << 20, .serial = true});
  const Schedule beside = training_schedule({.bucket_bytes = 2 << 20});
  const CostModel truth = true_costs(apart, 0);
  const Trace solo = run_trace(
      apart, truth, {.steps = 8, .noise = 0.06, .seed = 6, .solo = true});
  const auto measured = contention_measurements(
      {run_trace(apart, truth, {.noise = 0.06, .seed = 5}), apart},
      {run_trace(beside, truth, {.noise = 0.06, .seed = 7}), beside},
      *measurements_of(solo, apart), false);
  ASSERT_TRUE(measured.has_value());
  const Contention found = with_measured({}, *measured);
  EXPECT_NEAR(found.library, truth.contention.library, 0.05);
  EXPECT_NEAR(found.kernel, truth.contention.kernel, 0.06);
  EXPECT_NEAR(found.collective, truth.contention.collective, 0.05);
}

TEST(FitCosts, RefusesTimesThatNoClockShows) {
  const Schedule schedule = training_schedule({.layers = 2});
  const CostModel truth = true_costs(schedule, 0);
  const auto refusal = [&](const auto& damage) {
    Trace trace = run_trace(schedule, truth, {.steps = 3});
    damage(trace);
    const Result<CostModel> costs = fit_costs(trace, schedule, {});
    return costs ? "" : costs.error().message;
  };
  EXPECT_EQ(refusal([](Trace&) {}), "");
  EXPECT_EQ(
      refusal([](Trace& trace) { trace.ranks[1].clock_offset_ns = INT64_MAX; }),
      "trace: rank 1: no clock is 9223372036854775807 ns and 0 ppm off");
  EXPECT_EQ(refusal([](Trace& trace) {
              trace.steps[2].start_ns = INT64_MIN;
            }).find("trace: rank 0: step 1 from -9223372036854775808 to"),
            0U);
  EXPECT_NE(refusal([](Trace& trace) {
              trace.events.back().end_ns = INT64_MAX;
            }).find("to 9223372036854775807 ns is out of range"),
            std::string::npos);
}

TEST(FitCosts, PricesUnknownKeysFromSoloRunsThenRoofline) {
  const Schedule schedule = training_schedule({.layers = 2});
  const CostModel truth = true_costs(schedule, 0);
  const Trace trace = run_trace(schedule, truth, {});
  const std::vector<Measurement> solo = {{.key = "fused",
                                          .unit = "f0",
                                          .context = kSoloContext,
                                          .median_ns = 5000,
                                          .spread_ns = 100,
                                          .samples = 10}};
  const CostModel found = fit(schedule, trace, solo);
  EXPECT_EQ(found.units.at("fused").source, PriceSource::kCalibrated);
  EXPECT_NEAR(found.units.at("fused").alone_ns, 5000, 1);
  Unit unknown;
  unknown.key = "never seen";
  unknown.bytes = 1e6;
  EXPECT_EQ(found.price(unknown).source, PriceSource::kModelled);
  EXPECT_GT(found.price(unknown).alone_ns, 0);
}

/// A search fits to all of its runs, a later command to what they left in the
/// database: to the same plans, only if of two measurements the same one
/// counts.
TEST(FitCosts, TheNewestOfAKeyCountsAsInADatabase) {
  const Schedule schedule = training_schedule({.layers = 2});
  Trace trace = run_trace(schedule, true_costs(schedule, 0), {});
  const auto measured = [](int64_t time_ns, int64_t samples) {
    return Measurement{.key = "fused",
                       .unit = "f0",
                       .context = kSoloContext,
                       .median_ns = time_ns,
                       .spread_ns = 100,
                       .samples = samples};
  };
  trace.measurements = {measured(9000, 300)};
  const std::vector<Measurement> runs = {measured(5000, 200),
                                         measured(7000, 9)};
  CostDatabase database;
  database.merge("", runs);
  for (const auto& known : {runs, database.measurements("")}) {
    EXPECT_NEAR(fit(schedule, trace, known).units.at("fused").alone_ns, 7000,
                1);
  }
}

/// One kernel of many is left of the recorded ones, and took three times as
/// long where it ran in the solo run; dots took as long as here.
TEST(FitCosts, ScalesSoloRunsByTheKindThatBothHave) {
  const Schedule schedule = training_schedule({.layers = 4});
  const CostModel truth = true_costs(schedule, 0);
  const Trace trace = run_trace(schedule, truth, {});
  std::vector<Measurement> solo;
  const auto add = [&](const std::string& key, double time_ns) {
    solo.push_back({.key = key,
                    .unit = key,
                    .context = kSoloContext,
                    .median_ns = static_cast<int64_t>(time_ns),
                    .spread_ns = 1,
                    .samples = 10});
  };
  std::map<double, std::string> kernels;
  for (const Unit& unit : schedule.units) {
    const double alone_ns =
        unit.stream == Stream::kCompute ? truth.units.at(unit.key).alone_ns : 0;
    if (unit.kind == UnitKind::kLibrary) add(unit.key, alone_ns);
    if (unit.kind == UnitKind::kKernel) kernels[alone_ns] = unit.key;
  }
  ASSERT_GT(kernels.size(), 2U);
  add(kernels.begin()->second, 3 * kernels.begin()->first);
  add("fused", 5000);
  EXPECT_NEAR(fit(schedule, trace, solo).units.at("fused").alone_ns, 5000, 50);
}

TEST(FitCosts, RefusesATraceOfAnotherSchedule) {
  const Schedule schedule = training_schedule({.layers = 2});
  const Trace trace = run_trace(schedule, true_costs(schedule, 0), {});
  const Schedule other = training_schedule({.layers = 1});
  const Result<CostModel> costs = fit_costs(trace, other);
  ASSERT_FALSE(costs.has_value());
  EXPECT_EQ(costs.error().kind, ErrorKind::kInvalid);
}

TEST(FitCosts, RefusesATraceWithoutSteps) {
  const Schedule schedule = training_schedule({.layers = 1});
  EXPECT_FALSE(fit_costs(Trace{}, schedule).has_value());
}

}  // namespace
}  // namespace reprise

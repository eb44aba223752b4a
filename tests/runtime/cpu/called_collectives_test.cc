// Collectives inside loops: what the schedule says of them, and what happens
// where ranks do not go through a loop equally often.
#include "runtime/cpu/called_collectives.h"

#include <gtest/gtest.h>

#include <cstring>

#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "tests/runtime/cpu/rank_threads.h"
#include "tests/testing/directories.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// Adds up x over the ranks as often as `count` says.
constexpr const char* kLoop = R"(HloModule loop
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
body {
  state = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  count = s32[] get-tuple-element(state), index=1
  x = f32[4] get-tuple-element(state), index=2
  sum = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  ROOT out = (s32[], s32[], f32[4]) tuple(next, count, sum)
}
condition {
  state = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  count = s32[] get-tuple-element(state), index=1
  ROOT less = pred[] compare(i, count), direction=LT
}
ENTRY main {
  count = s32[] parameter(0)
  x = f32[4] parameter(1)
  zero = s32[] constant(0)
  state = (s32[], s32[], f32[4]) tuple(zero, count, x)
  loop = (s32[], s32[], f32[4]) while(state), condition=condition, body=body
  ROOT sum = f32[4] get-tuple-element(loop), index=2
}
)";

struct Outcome {
  std::vector<Status> steps;
  float sum = 0;
};

/// As many steps as `counts[rank]` has, or until one fails.
std::vector<Outcome> run_loops(const std::vector<std::vector<int32_t>>& counts,
                               double timeout_s) {
  const Result<InlinedModule> module = parse_inlined(kLoop);
  EXPECT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, 2));
  EXPECT_TRUE(schedule) << schedule.error().message;
  std::vector<Outcome> outcomes(counts.size());
  run_rank_threads(2, timeout_s, [&](RankThread& own) {
    const auto alone = make_single_process_group();
    const auto kernels =
        load_kernels(*schedule,
                     {.interpret = true,
                      .cache_directory = build_directory() + "/kernel_cache"},
                     *alone);
    ASSERT_TRUE(kernels) << kernels.error().message;
    const auto executor = Executor::create(
        *module, *schedule, kernels->code, *own.communicator, nullptr,
        {.rank = own.rank, .called = own.called.get()});
    ASSERT_TRUE(executor) << executor.error().message;
    Outcome& outcome = outcomes[static_cast<size_t>(own.rank)];
    const std::vector<float> x(4, static_cast<float>(own.rank + 1));
    std::memcpy((*executor)->parameter(1).data(), x.data(), 16);
    for (const int32_t count : counts[static_cast<size_t>(own.rank)]) {
      std::memcpy((*executor)->parameter(0).data(), &count, sizeof count);
      outcome.steps.push_back((*executor)->run_step(0));
      if (!outcome.steps.back()) return;
    }
    std::memcpy(&outcome.sum, (*executor)->output(0).data(), sizeof(float));
  });
  return outcomes;
}

// 1 + 2 = 3 on both, then 6, 12.
TEST(CalledCollectives, RunAsOftenAsTheLoop) {
  for (const Outcome& outcome : run_loops({{1, 3}, {1, 3}}, 20)) {
    for (const Status& step : outcome.steps)
      EXPECT_TRUE(step) << step.error().message;
    EXPECT_EQ(outcome.sum, 12);
  }
}

// Rank 1 is through after two rounds, and its next step would meet rank 0's
// third.
TEST(CalledCollectives, OfRanksThatDisagreeWaitInVainAndSayWhere) {
  const std::vector<Outcome> outcomes = run_loops({{3, 3}, {2, 3}}, 2);
  ASSERT_EQ(outcomes[0].steps.size(), 1U);
  ASSERT_FALSE(outcomes[0].steps[0]);
  const Error& error = outcomes[0].steps[0].error();
  EXPECT_EQ(error.kind, ErrorKind::kDevice);
  for (const char* part : {"step 0, loop/sum: ", "rank 1", "equally often"})
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  ASSERT_EQ(outcomes[1].steps.size(), 2U);
  EXPECT_TRUE(outcomes[1].steps[0]);
  EXPECT_FALSE(outcomes[1].steps[1]);
}

// Unequal groups inside loops would wait for each other for ever, too.
TEST(CalledCollectives, ArePartOfTheDigestAndOfTheUnitsBytes) {
  std::string known(kLoop);
  const std::string call = "condition=condition, body=body";
  known.insert(known.find(call) + call.size(),
               ", backend_config={\"known_trip_count\":{\"n\":\"5\"}}");
  const auto lowered = [](const std::string& text) {
    const Result<InlinedModule> module = parse_inlined(text);
    EXPECT_TRUE(module) << module.error().message;
    auto schedule = lower_schedule(*module, identity_plan(*module, 2));
    EXPECT_TRUE(schedule) << schedule.error().message;
    return *schedule;
  };
  const auto loop_of = [](const Schedule& schedule) {
    for (const Unit& unit : schedule.units) {
      if (unit.kind == UnitKind::kRoutine) return unit.routine;
    }
    return RoutineSpec{};
  };
  const Schedule schedule = lowered(kLoop);
  EXPECT_TRUE(loop_of(schedule).communicates);
  EXPECT_EQ(loop_of(schedule).communicated_bytes, 16);
  EXPECT_EQ(loop_of(lowered(known)).communicated_bytes, 5 * 16);
  std::string apart(kLoop);
  apart.replace(apart.find("{{0,1}}"), 7, "{{0},{1}}");
  EXPECT_NE(collective_digest(schedule), collective_digest(lowered(apart)));
}

}  // namespace
}  // namespace reprise

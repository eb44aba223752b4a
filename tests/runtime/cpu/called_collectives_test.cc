// Collectives inside loops: what the schedule says of them, and what happens
// where ranks do not go through a loop equally often.
#include "runtime/cpu/called_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/schedule/called_buckets.h"
#include "data/schedule/called_program.h"
#include "data/schedule/schedule.h"
#include "data/schedule/timed_schedule.h"
#include "profiler/gather/gather_shards.h"
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

/// Two arrays are gathered, and scattered again, which doubles them; a third
/// is added up when the scatters are done.
constexpr const char* kJoined = R"(HloModule loop
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
body {
  state = (s32[], s32[], f32[4], f32[2]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  count = s32[] get-tuple-element(state), index=1
  x = f32[4] get-tuple-element(state), index=2
  y = f32[2] get-tuple-element(state), index=3
  gx = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}
  gy = f32[4] all-gather(y), replica_groups={{0,1}}, dimensions={0}
  sx = f32[4] reduce-scatter(gx), replica_groups={{0,1}}, dimensions={0}, to_apply=add
  sy = f32[2] reduce-scatter(gy), replica_groups={{0,1}}, dimensions={0}, to_apply=add
  part = f32[2] slice(sx), slice={[0:2]}
  both = f32[2] add(part, sy)
  a = f32[2] all-reduce(both), replica_groups={{0,1}}, to_apply=add
  b = f32[2] all-reduce(sy), replica_groups={{0,1}}, to_apply=add
  difference = f32[2] subtract(a, b)
  zeros = f32[2] subtract(difference, difference)
  kept = f32[2] add(sy, zeros)
  ROOT out = (s32[], s32[], f32[4], f32[2]) tuple(next, count, sx, kept)
}
condition {
  state = (s32[], s32[], f32[4], f32[2]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  count = s32[] get-tuple-element(state), index=1
  ROOT less = pred[] compare(i, count), direction=LT
}
ENTRY main {
  count = s32[] parameter(0)
  x = f32[4] parameter(1)
  zero = s32[] constant(0)
  y = f32[2] slice(x), slice={[1:3]}
  state = (s32[], s32[], f32[4], f32[2]) tuple(zero, count, x, y)
  loop = (s32[], s32[], f32[4], f32[2]) while(state), condition=condition, body=body
  all = f32[4] get-tuple-element(loop), index=2
  some = f32[2] get-tuple-element(loop), index=3
  first = f32[2] slice(all), slice={[0:2]}
  ROOT sum = f32[2] add(first, some)
}
)";

struct Outcome {
  std::vector<Status> steps;
  float sum = 0;
};

/// As many steps as `counts[rank]` has, or until one fails.
std::vector<Outcome> run_loops(const std::vector<std::vector<int32_t>>& counts,
                               double timeout_s, const char* text = kLoop) {
  const Result<InlinedModule> module = parse_inlined(text);
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

// What waits for none of each other: the gathers, the scatters, both sums.
TEST(CalledCollectives, ThatComeTogetherRunAsOne) {
  const Result<InlinedModule> module = parse_inlined(kJoined);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, 2));
  ASSERT_TRUE(schedule) << schedule.error().message;
  std::vector<std::pair<CollectiveKind, int64_t>> found;
  for (const Unit& loop : schedule->units) {
    if (loop.kind != UnitKind::kRoutine) continue;
    for (const Unit& unit :
         loop.routine.callees.at(1).program->schedule.units) {
      if (unit.kind == UnitKind::kCollective)
        found.emplace_back(unit.collective.kind, unit.collective.bytes);
    }
  }
  // Members of a buffer start at lines of 64 bytes.
  EXPECT_EQ(found, (std::vector<std::pair<CollectiveKind, int64_t>>{
                       {CollectiveKind::kAllGather, 32 + 16},
                       {CollectiveKind::kReduceScatter, 32 + 16},
                       {CollectiveKind::kAllReduce, 64 + 8}}));
  EXPECT_EQ(joined_in(*schedule), (std::vector<std::vector<std::string>>{
                                      {"gx", "gy"}, {"sx", "sy"}, {"a", "b"}}));
}

// Doubled three times over: x[0] + x[1], of elements rank + 1.
TEST(CalledCollectives, JoinedOnesLeaveWhatEachLeavesAlone) {
  const std::vector<Outcome> outcomes = run_loops({{3}, {3}}, 20, kJoined);
  EXPECT_EQ(outcomes[0].sum, 8 * (1 + 1));
  EXPECT_EQ(outcomes[1].sum, 8 * (2 + 2));
}

/// What two ranks recorded of one step, numbered as in `timed`.
Trace record_step(const InlinedModule& module, const Schedule& schedule,
                  const TimedSchedule& timed) {
  const std::string folder = build_directory() + "/called_events";
  std::filesystem::create_directories(folder);
  std::vector<std::string> shards = {folder + "/0.shard", folder + "/1.shard"};
  run_rank_threads(2, 20, [&](RankThread& own) {
    const auto recorder =
        Recorder::create({.rank = static_cast<uint32_t>(own.rank),
                          .shard_path = shards[static_cast<size_t>(own.rank)]});
    ASSERT_TRUE(recorder) << recorder.error().message;
    const auto kernels =
        load_kernels(schedule,
                     {.interpret = true,
                      .cache_directory = build_directory() + "/kernel_cache"},
                     *make_single_process_group());
    ASSERT_TRUE(kernels) << kernels.error().message;
    const auto executor = Executor::create(
        module, schedule, kernels->code, *own.communicator, recorder->get(),
        {.rank = own.rank, .called = own.called.get()});
    ASSERT_TRUE(executor) << executor.error().message;
    const int32_t count = 3;
    std::memcpy((*executor)->parameter(0).data(), &count, sizeof count);
    ASSERT_TRUE((*executor)->run_step(0));
    ASSERT_TRUE((*recorder)->finish({}));
  });
  TrainerContext context;
  for (const Unit& unit : timed.schedule().units) {
    context.units.push_back({.name = unit.name,
                             .kind = unit.kind == UnitKind::kCollective
                                         ? EventKind::kCollective
                                         : EventKind::kCompute});
  }
  const Result<Trace> trace = gather_shards(shards, context);
  EXPECT_TRUE(trace) << trace.error().message;
  return trace ? *trace : Trace();
}

// Events are numbered by the parts of a loop whose passes are known, one after
// the other without gaps.
TEST(CalledCollectives, LeaveEventsOfTheirOwn) {
  std::string known(kJoined);
  const std::string read = "get-tuple-element(state), index=1\n  ROOT";
  known.replace(known.find(read), read.size(), "constant(3)\n  ROOT");
  const Result<InlinedModule> module = parse_inlined(known);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, 2));
  ASSERT_TRUE(schedule) << schedule.error().message;
  const TimedSchedule timed(*schedule, true);
  ASSERT_TRUE(timed.has_parts());
  Trace trace = record_step(*module, *schedule, timed);
  std::sort(trace.events.begin(), trace.events.end(),
            [](const Event& a, const Event& b) {
              return std::pair(a.rank, a.unit) < std::pair(b.rank, b.unit);
            });
  const std::vector<Unit>& units = timed.schedule().units;
  ASSERT_EQ(trace.events.size(), 2 * units.size());
  size_t collectives = 0;
  for (size_t at = 0; at < trace.events.size(); ++at) {
    const Event& event = trace.events[at];
    EXPECT_EQ(event.unit, static_cast<int32_t>(at % units.size()));
    const bool is_collective =
        units[at % units.size()].kind == UnitKind::kCollective;
    EXPECT_EQ(event.kind == EventKind::kCollective, is_collective) << at;
    collectives += is_collective ? 1 : 0;
    if (at % units.size() == 0) continue;
    EXPECT_EQ(event.start_ns, trace.events[at - 1].end_ns) << at;
  }
  EXPECT_EQ(collectives, 2U * 3U * 3U);
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

// Units of collectives that are no all-reduce: from where to where they go, and
// which run as one.
#include <gtest/gtest.h>

#include "data/schedule/memory_plan.h"
#include "tests/data/schedule/schedule_fixture.h"

namespace reprise {
namespace {

class CollectiveUnitsTest : public ScheduleTest {};

// [4, 8] by columns of two ranks is [1, 4, 8], gathered to [2, 4, 8], and
// [4, 2, 8] in rows again: one piece of memory a rank.
TEST_F(CollectiveUnitsTest, GathersAlongAnInnerDimensionInOnePieceARank) {
  load("", R"(
    x = f32[4,8] parameter(0)
    ag.3 = f32[4,16] all-gather(x), replica_groups={{1,0}}, dimensions={1}
    ROOT out = f32[4,16] negate(ag.3))");
  lower();
  const CollectiveSpec& spec = unit("ag.3").collective;
  EXPECT_EQ(spec.kind, CollectiveKind::kAllGather);
  EXPECT_EQ(spec.arrays[0].input.size_bytes, 4 * 8 * 4);
  EXPECT_EQ(spec.arrays[0].output.size_bytes, 4 * 16 * 4);
  EXPECT_EQ(spec.groups, (std::vector<std::vector<int64_t>>{{1, 0}}));
}

// Array i goes to rank i: slices of one buffer.
TEST_F(CollectiveUnitsTest, ExchangesSeveralArraysAsOne) {
  load("", R"(
    x = f32[4] parameter(0)
    y = f32[4] parameter(1)
    aa.3 = (f32[4], f32[4]) all-to-all(x, y), replica_groups={{0,1}}
    a = f32[4] get-tuple-element(aa.3), index=0
    b = f32[4] get-tuple-element(aa.3), index=1
    ROOT out = f32[4] subtract(a, b))");
  lower();
  const CollectiveSpec& spec = unit("aa.3").collective;
  EXPECT_EQ(spec.kind, CollectiveKind::kAllToAll);
  EXPECT_EQ(spec.bytes, 32);
}

TEST_F(CollectiveUnitsTest, PermutesByPairsOfRanks) {
  load("", R"(
    x = f32[4] parameter(0)
    s.1 = f32[4] collective-permute-start(x), source_target_pairs={{0,1}}
    d.1 = f32[4] collective-permute-done(s.1)
    ROOT out = f32[4] negate(d.1))");
  lower();
  const CollectiveSpec& spec = unit("s.1").collective;
  EXPECT_EQ(spec.pairs, (std::vector<std::pair<int64_t, int64_t>>{{0, 1}}));
  EXPECT_EQ(spec.groups, (std::vector<std::vector<int64_t>>{{0, 1}}));
  EXPECT_EQ(unit("s.1").key, "collective:collective-permute:0:f32:16:{0>1}");
}

TEST_F(CollectiveUnitsTest, GathersFromTheOperandsPlaceIntoABufferOfItsOwn) {
  load("", R"(
    x = f32[32] parameter(0)
    y = f32[64] parameter(1)
    g = f32[32] negate(x)
    ag = f32[64] all-gather(g), replica_groups={{0,1}}, dimensions={0}
    a = f32[64] sqrt(y)
    b = f32[64] negate(a)
    ROOT c = f32[64] add(ag, b))");
  lower();
  EXPECT_EQ(names(), (Names{"g", "ag", "a", "b", "c"}));
  const CollectiveSpec& spec = unit("ag").collective;
  EXPECT_EQ(spec.kind, CollectiveKind::kAllGather);
  EXPECT_EQ(spec.elements, 64);  // Payload: what comes out.
  EXPECT_EQ(spec.bytes, 256);
  EXPECT_EQ(spec.arrays[0].input, unit("g").writes[0]);
  EXPECT_NE(spec.arrays[0].input.buffer, spec.arrays[0].output.buffer);
  EXPECT_EQ(unit("c").reads[0], spec.arrays[0].output);
  EXPECT_TRUE(depends("ag", "g"));
  EXPECT_TRUE(depends("c", "ag"));
  // It may be written as soon as g, the first to compute, has ended, while a
  // and b run; c, the fourth, reads it.
  const LiveInterval live =
      live_intervals(schedule_)[index_of(spec.arrays[0].output.buffer)];
  EXPECT_EQ(live.begin, 0);
  EXPECT_EQ(live.end, 3);
}

TEST_F(CollectiveUnitsTest, WhatGoesBetweenCollectivesHasBytesBeforeAllElse) {
  load("", R"(
    x = f32[32] parameter(0)
    once = f32[64] all-gather(x), replica_groups={{0,1}}, dimensions={0}
    twice = f32[128] all-gather(once), replica_groups={{0,1}}, dimensions={0}
    ROOT n = f32[128] negate(twice))");
  lower();
  EXPECT_EQ(names(), (Names{"once", "twice", "n"}));
  // Nothing computes until `n`, the first, reads `twice`; x lies at 0.
  const auto begin = [&](const char* name) {
    const Location& written = unit(name).writes[0];
    return schedule_.buffers[index_of(written.buffer)].arena_offset;
  };
  EXPECT_GE(begin("once"), 128);
  EXPECT_GE(begin("twice"), 128);
  EXPECT_TRUE(begin("once") >= begin("twice") + 512 ||
              begin("twice") >= begin("once") + 256);
}

TEST_F(CollectiveUnitsTest, WhatARankGathersOrScattersAloneStaysWhereItIs) {
  load(kAlias, R"(
    w = f32[32] parameter(0)
    x = f32[32] parameter(1)
    all = f32[32] all-gather(w), replica_groups={{0},{1}}, dimensions={0}
    g = f32[32] multiply(all, x)
    rs = f32[32] reduce-scatter(g), replica_groups={{0},{1}}, dimensions={0}, to_apply=add_f32
    n = f32[32] subtract(w, rs)
    late = f32[32] add(all, x)
    ROOT out = (f32[32], f32[32]) tuple(n, late))");
  lower();
  // `late` reads the old w by its other name, so the update waits for it.
  EXPECT_EQ(names(), (Names{"all", "g", "rs", "late", "n"}));
  EXPECT_EQ(unit("all").collective.arrays[0].input.buffer,
            schedule_.parameter_buffers[0]);
  EXPECT_EQ(unit("all").collective.arrays[0].output,
            unit("all").collective.arrays[0].input);
  EXPECT_EQ(unit("g").reads[0], unit("all").collective.arrays[0].input);
  EXPECT_EQ(unit("rs").collective.arrays[0].input, unit("g").writes[0]);
  EXPECT_EQ(unit("rs").collective.arrays[0].output, unit("g").writes[0]);
  EXPECT_TRUE(depends("n", "rs"));
  EXPECT_EQ(unit("n").writes[0].buffer, schedule_.parameter_buffers[0]);
  EXPECT_TRUE(depends("all", "n", 1));
  // Although `all` writes nothing: no plan may put a reader before it.
  EXPECT_TRUE(depends("g", "all"));
  EXPECT_TRUE(depends("late", "all"));
}

TEST_F(CollectiveUnitsTest, IndicesIntoEqualValuesComeFirstUnread) {
  load("", R"(
    x = f32[8] parameter(0)
    k = s32[8,1] parameter(1)
    j = s32[8,1] add(k, k)
    z = f32[] constant(3)
    zs = f32[4] broadcast(z), dimensions={}
    g = f32[8] gather(zs, j), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
    ROOT o = f32[8] add(g, x))");
  lower();
  EXPECT_TRUE(unit("g").reads.empty());
  EXPECT_TRUE(depends("g", "j"));
}

TEST_F(CollectiveUnitsTest,
       AReaderOfAnUnreadIndexComesAfterTheCollectiveOfThat) {
  load("", R"(
    x = f32[1] parameter(0)
    n = s32[] parameter(1)
    m = s32[] parameter(2)
    i = s32[] all-reduce(n), replica_groups={{0,1}}, to_apply=add_s32
    j = s32[] all-reduce(m), replica_groups={{0,1}}, to_apply=add_s32
    k = s32[1] broadcast(j), dimensions={}
    s = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}
    ROOT o = (f32[1], s32[1]) tuple(s, k))");
  lower();
  EXPECT_EQ(unit("s").reads.size(), 1u);  // x, of which there is one element.
  EXPECT_TRUE(depends("s", "i"));
  EXPECT_FALSE(depends("s", "j"));
}

TEST_F(CollectiveUnitsTest, AGatheredParameterThatGoesOutIsKeptFromItsUpdate) {
  load(kAlias, R"(
    w = f32[32] parameter(0)
    all = f32[32] all-gather(w), replica_groups={{0},{1}}, dimensions={0}
    n = f32[32] negate(all)
    ROOT out = (f32[32], f32[32]) tuple(n, all))");
  lower();
  EXPECT_EQ(names(), (Names{"output:1", "all", "n"}));
  EXPECT_EQ(schedule_.outputs[1].location, unit("output:1").writes[0]);
}

TEST_F(CollectiveUnitsTest, ScattersToAPartOfWhatItReduces) {
  load("", R"(
    x = f32[64] parameter(0)
    ROOT rs = f32[32] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=add_f32)");
  lower();
  const CollectiveSpec& spec = unit("rs").collective;
  EXPECT_EQ(spec.kind, CollectiveKind::kReduceScatter);
  EXPECT_EQ(spec.bytes, 256);  // Payload: what goes in, here a parameter.
  EXPECT_EQ(spec.arrays[0].input.buffer, schedule_.parameter_buffers[0]);
  EXPECT_EQ(spec.arrays[0].output.size_bytes, 128);
}

// Each from its operand's place to a buffer of its own, as one unit.
TEST_F(CollectiveUnitsTest, BucketsOfGathersAndOfScattersRunAsOne) {
  load("", R"(
    x = f32[32] parameter(0)
    y = f32[3] parameter(1)
    g = f32[3] negate(y)
    a = f32[64] all-gather(x), replica_groups={{0,1}}, dimensions={0}
    b = f32[6] all-gather(g), replica_groups={{0,1}}, dimensions={0}
    rs = f32[32] reduce-scatter(a), replica_groups={{0,1}}, dimensions={0}, to_apply=add_f32
    rt = f32[3] reduce-scatter(b), replica_groups={{0,1}}, dimensions={0}, to_apply=add_f32
    ROOT out = (f32[32], f32[3]) tuple(rs, rt))");
  plan_.buckets = {{.unit = "all", .collectives = {"b", "a"}},
                   {.unit = "parts", .collectives = {"rs", "rt"}}};
  lower();
  EXPECT_EQ(names(), (Names{"g", "all", "parts"}));
  const Unit &all = unit("all"), &parts = unit("parts");
  EXPECT_EQ(all.collective.bytes, 4 * (6 + 64));
  EXPECT_EQ(all.collective.elements, 6 + 64);
  ASSERT_EQ(all.collective.arrays.size(), 2U);
  EXPECT_EQ(all.reads,
            (std::vector<Location>{unit("g").writes[0],
                                   {schedule_.parameter_buffers[0], 0, 128}}));
  EXPECT_EQ(all.writes[0].size_bytes, 24);
  EXPECT_EQ(all.writes[1].size_bytes, 256);
  EXPECT_NE(all.writes[0].buffer, all.writes[1].buffer);
  EXPECT_EQ(parts.collective.bytes, 4 * (6 + 64));
  EXPECT_EQ(parts.reads, (std::vector<Location>{all.writes[1], all.writes[0]}));
  EXPECT_EQ(parts.writes[0].size_bytes, 128);
  EXPECT_EQ(parts.writes[1].size_bytes, 12);
  EXPECT_TRUE(depends("all", "g"));
  EXPECT_TRUE(depends("parts", "all"));
  plan_.buckets[0].collectives = {"a", "rs"};
  plan_.buckets.pop_back();
  EXPECT_EQ(refusal(), "bucket 'all': it mixes kinds: 'a' and 'rs' differ");
  plan_.buckets = {{.unit = "all", .collectives = {"a", "b"}, .chunks = 2}};
  EXPECT_EQ(refusal(), "bucket 'all': all-gather runs whole, not in 2 chunks");
}

TEST_F(CollectiveUnitsTest, ExchangesShareNoBucket) {
  load("", R"(
    x = f32[32] parameter(0)
    ROOT aa = f32[32] all-to-all(x), replica_groups={{0,1}}, dimensions={0})");
  plan_.buckets = {{.unit = "b0", .collectives = {"aa"}}};
  EXPECT_EQ(refusal(),
            "bucket 'b0': 'aa' is of kind all-to-all, which runs alone");
}

}  // namespace
}  // namespace reprise

#include "data/schedule/schedule.h"

#include <gtest/gtest.h>

#include "data/schedule/called_program.h"
#include "data/schedule/memory_plan.h"
#include "tests/data/schedule/schedule_fixture.h"

namespace reprise {
namespace {

TEST_F(ScheduleTest, UpdatesStateInPlaceAfterItsReaders) {
  load(kAlias, R"(
    w = f32[32] parameter(0)
    x = f32[32] parameter(1)
    g = f32[32] multiply(w, x)
    ar = f32[32] all-reduce(g), replica_groups={{0,1}}, to_apply=add_f32
    n = f32[32] subtract(w, ar)
    late = f32[32] add(w, x)
    ROOT out = (f32[32], f32[32]) tuple(n, late))");
  lower();
  // `late` reads the old w, so the update waits for it.
  EXPECT_EQ(names(), (Names{"g", "ar", "late", "n"}));
  EXPECT_EQ(unit("n").writes[0].buffer, schedule_.parameter_buffers[0]);
  EXPECT_EQ(schedule_.outputs[0].location.buffer,
            schedule_.parameter_buffers[0]);
  EXPECT_EQ(unit("g").writes[0], unit("ar").collective.arrays[0].output);
  EXPECT_TRUE(depends("n", "late"));
  EXPECT_TRUE(depends("n", "g"));
  EXPECT_TRUE(depends("n", "ar"));
  EXPECT_TRUE(depends("ar", "g"));
  EXPECT_TRUE(depends("g", "n", 1));
  EXPECT_TRUE(depends("late", "n", 1));
  EXPECT_FALSE(depends("late", "g"));
  EXPECT_EQ(unit("ar").stream, Stream::kCommunication);
  EXPECT_EQ(unit("ar").collective.elements, 32);
}

TEST_F(ScheduleTest, CopiesAnUpdateThatAPlanPutsBeforeAReader) {
  load(kAlias, R"(
    w = f32[32] parameter(0)
    x = f32[32] parameter(1)
    n = f32[32] subtract(w, x)
    late = f32[32] add(w, x)
    ROOT out = (f32[32], f32[32]) tuple(n, late))");
  plan_.order = {"n", "late"};
  lower();
  EXPECT_EQ(names(), (Names{"n", "late", "update:0"}));
  EXPECT_EQ(unit("update:0").reads[0], unit("n").writes[0]);
  EXPECT_EQ(unit("update:0").writes[0].buffer, schedule_.parameter_buffers[0]);
  EXPECT_TRUE(depends("update:0", "late"));
}

TEST_F(ScheduleTest, CopiesAnUpdateThatReadsOtherElements) {
  load(kAlias, R"(
    w = f32[8,8] parameter(0)
    t = f32[8,8] transpose(w), dimensions={1,0}
    n = f32[8,8] add(w, t)
    ROOT out = (f32[8,8]) tuple(n))");
  plan_.fusion = {{.unit = "f0", .ops = {"t", "n"}}};
  lower();
  EXPECT_EQ(names(), (Names{"f0", "update:0"}));
}

TEST_F(ScheduleTest, SwapsParametersThroughCopies) {
  load(
      ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) "
      "}",
      R"(
    a = f32[32] parameter(0)
    b = f32[32] parameter(1)
    ROOT out = (f32[32], f32[32]) tuple(b, a))");
  lower();
  EXPECT_EQ(names(), (Names{"output:0", "output:1", "update:0", "update:1"}));
  EXPECT_EQ(unit("update:1").writes[0].buffer, schedule_.parameter_buffers[1]);
  EXPECT_EQ(unit("output:0").reads[0].buffer, schedule_.parameter_buffers[1]);
}

TEST_F(ScheduleTest, BindsUnchangedParametersWithoutWork) {
  load(kAlias, R"(
    a = f32[32] parameter(0)
    b = f32[4,8] parameter(1)
    r = f32[32] reshape(b)
    ROOT out = (f32[32], f32[32]) tuple(a, r))");
  lower();
  EXPECT_TRUE(schedule_.units.empty());
  EXPECT_EQ(schedule_.outputs[1].location.buffer,
            schedule_.parameter_buffers[1]);
}

TEST_F(ScheduleTest, CopiesOperandsThatOthersRead) {
  load("", R"(
    w = f32[32] parameter(0)
    g = f32[32] negate(w)
    ar = f32[32] all-reduce(g), replica_groups={{0,1}}, to_apply=add_f32
    pr = f32[32] all-reduce(w), replica_groups={{0,1}}, to_apply=add_f32
    h = f32[32] multiply(g, ar)
    ROOT out = (f32[32], f32[32]) tuple(h, pr))");
  lower();
  EXPECT_EQ(names(), (Names{"copy:pr", "pr", "g", "copy:ar", "ar", "h"}));
  EXPECT_EQ(unit("copy:ar").writes[0], unit("ar").collective.arrays[0].output);
  EXPECT_NE(unit("g").writes[0].buffer,
            unit("ar").collective.arrays[0].output.buffer);
  EXPECT_FALSE(depends("copy:ar", "pr"));
}

TEST_F(ScheduleTest, WritesGradientsIntoTheirBucketAndCutsItInChunks) {
  // Members at 0 (40 bytes) and 64 (256 bytes): 320 bytes in chunks of 192 and
  // 128.
  load("", R"(
    x = f32[10] parameter(0)
    y = f32[64] parameter(1)
    g = f32[10] negate(x)
    h = f32[64] negate(y)
    ag = f32[10] all-reduce(g), replica_groups={{0,1}}, to_apply=add_f32
    ah = f32[64] all-reduce(h), replica_groups={{0,1}}, to_apply=add_f32
    rg = f32[10] sqrt(ag)
    rh = f32[64] sqrt(ah)
    ROOT out = (f32[10], f32[64]) tuple(rg, rh))");
  plan_.buckets = {{.unit = "b0", .collectives = {"ag", "ah"}, .chunks = 2}};
  lower();
  EXPECT_EQ(names(), (Names{"g", "h", "b0#0", "b0#1", "rg", "rh"}));
  const BufferId bucket = unit("b0#0").collective.arrays[0].output.buffer;
  EXPECT_EQ(unit("g").writes[0], (Location{bucket, 0, 40}));
  EXPECT_EQ(unit("h").writes[0], (Location{bucket, 64, 256}));
  EXPECT_EQ(unit("b0#0").collective.arrays[0].output,
            (Location{bucket, 0, 192}));
  EXPECT_EQ(unit("b0#1").collective.arrays[0].output,
            (Location{bucket, 192, 128}));
  EXPECT_EQ(unit("b0#1").collective.elements, 32);
  EXPECT_TRUE(depends("b0#0", "g"));
  EXPECT_TRUE(depends("b0#0", "h"));
  EXPECT_FALSE(depends("b0#1", "g"));
  EXPECT_TRUE(depends("b0#1", "h"));
  EXPECT_TRUE(depends("rg", "b0#0"));
  EXPECT_FALSE(depends("rg", "b0#1"));
  EXPECT_TRUE(depends("rh", "b0#0"));
  EXPECT_TRUE(depends("rh", "b0#1"));
}

TEST_F(ScheduleTest, SplitsAVariadicCollective) {
  load("", R"(
    x = f32[10] parameter(0)
    y = f32[64] parameter(1)
    g = f32[10] negate(x)
    h = f32[64] negate(y)
    ar = (f32[10], f32[64]) all-reduce(g, h), replica_groups={{0,1}}, to_apply=add_f32
    ag = f32[10] get-tuple-element(ar), index=0
    ah = f32[64] get-tuple-element(ar), index=1
    ag2 = f32[10] get-tuple-element(ar), index=0
    rg = f32[10] add(ag, ag2)
    rh = f32[64] sqrt(ah)
    ROOT out = (f32[10], f32[64]) tuple(rg, rh))");
  lower();
  EXPECT_EQ(names(), (Names{"g", "h", "ar", "rg", "rh"}));
  EXPECT_EQ(unit("ar").collective.bytes, 320);
  plan_.buckets = {{.unit = "b0", .collectives = {"ar:1"}}};
  lower();
  EXPECT_EQ(names(), (Names{"g", "ar:0", "h", "b0", "rg", "rh"}));
  EXPECT_EQ(unit("b0").collective.bytes, 256);
  EXPECT_FALSE(depends("rg", "b0"));
}

TEST_F(ScheduleTest, RunsRecomputedOpsInEveryGroup) {
  load("", R"(
    x = f32[32] parameter(0)
    a = f32[32] negate(x)
    b = f32[32] sqrt(a)
    c = f32[32] exponential(a)
    ROOT out = (f32[32], f32[32]) tuple(b, c))");
  plan_.fusion = {{.unit = "f0", .ops = {"a", "b"}},
                  {.unit = "f1", .ops = {"a", "c"}}};
  lower();
  EXPECT_EQ(names(), (Names{"f0", "f1"}));
  EXPECT_EQ(unit("f0").writes.size(), 1U);
  EXPECT_TRUE(schedule_.dependencies.empty());
}

TEST_F(ScheduleTest, MaterializesViewsThatNeedBytes) {
  load("", R"(
    s = f32[] parameter(0)
    w = f32[8,4] parameter(1)
    k = f32[2] constant({3, 4})
    z = f32[] constant(7)
    b = f32[6,8] broadcast(s), dimensions={}
    d = f32[6,4] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT out = (f32[6,4], f32[2], f32[]) tuple(d, k, z))");
  lower();
  EXPECT_EQ(names(), (Names{"b", "d"}));
  EXPECT_EQ(
      schedule_.buffers[index_of(schedule_.outputs[2].location.buffer)].kind,
      BufferKind::kConstant);
}

TEST_F(ScheduleTest, MakesADotWithItsEpilogueOneLibraryUnit) {
  load("", R"(
    x = f32[6,8] parameter(0)
    w = f32[8,4] parameter(1)
    b = f32[4] parameter(2)
    r = f32[24] parameter(3)
    bs = f32[6,4] broadcast(b), dimensions={1}
    zero = f32[] constant(0)
    zeros = f32[6,4] broadcast(zero), dimensions={}
    rs = f32[6,4] reshape(r)
    d = f32[6,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    p = f32[6,4] add(d, bs)
    q = f32[6,4] add(p, rs)
    a = f32[6,4] maximum(q, zeros)
    ROOT out = f32[6,4] negate(a))");
  lower();
  const std::string plain_key = unit("d").key;
  plan_.fusion = {{.unit = "f0", .ops = {"d"}}};
  lower();
  EXPECT_EQ(unit("f0").key, plain_key);  // Prices of the dot alone still hold.
  plan_.fusion = {{.unit = "f0", .ops = {"d", "p", "q", "a"}}};
  lower();
  EXPECT_EQ(names(), (Names{"f0", "out"}));
  const Unit& fused = unit("f0");
  EXPECT_EQ(fused.kind, UnitKind::kLibrary);
  EXPECT_EQ(fused.ops.size(), 4U);
  EXPECT_NE(fused.key, plain_key);
  EXPECT_EQ(fused.key.find("dot:"), 0U);
  // 2·6·8·4 of the product and one a step for each of 24 elements.
  EXPECT_EQ(fused.flops, 384 + 3 * 24);
  // Each of x, w, b, r and the result once: 48 + 32 + 4 + 24 + 24 floats.
  EXPECT_EQ(fused.bytes, 4 * 132);
  const auto parameter = [&](size_t number) {
    return schedule_.parameter_buffers[number];
  };
  ASSERT_EQ(fused.reads.size(), 4U);
  ASSERT_TRUE(fused.dot.bias);
  EXPECT_EQ(*fused.dot.bias, (Location{parameter(2), 0, 16}));
  ASSERT_TRUE(fused.dot.accumulate);
  EXPECT_EQ(*fused.dot.accumulate, (Location{parameter(3), 0, 96}));
  EXPECT_EQ(fused.dot.activation, DotActivation::kRelu);
  EXPECT_EQ(fused.dot.out.location, fused.writes.at(0));
  EXPECT_EQ(fused.writes[0], unit("out").reads.at(0));
  EXPECT_EQ(schedule_.peak_temporary_bytes, 128);  // out over a, 64-aligned.
  EXPECT_EQ(print_schedule(schedule_).find(
                "0 compute f0 library (bias+accumulate+relu) after {}: "),
            0U)
      << print_schedule(schedule_);
}

TEST_F(ScheduleTest, CopiesStateThatItsOwnDotAdds) {
  // w + x·y may not be written over w: the library writes the product first.
  load(kAlias, R"(
    w = f32[6,4] parameter(0)
    x = f32[6,8] parameter(1)
    y = f32[8,4] parameter(2)
    d = f32[6,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    v = f32[6,4] add(w, d)
    ROOT out = (f32[6,4]) tuple(v))");
  plan_.fusion = {{.unit = "f0", .ops = {"d", "v"}}};
  lower();
  EXPECT_EQ(names(), (Names{"f0", "update:0"}));
  EXPECT_NE(unit("f0").writes[0].buffer, schedule_.parameter_buffers[0]);
}

TEST_F(ScheduleTest, WritesADotWithItsEpilogueIntoItsBucket) {
  load("", R"(
    x = f32[6,8] parameter(0)
    y = f32[8,4] parameter(1)
    h = f32[] constant(0.5)
    hs = f32[6,4] broadcast(h), dimensions={}
    d = f32[6,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    m = f32[6,4] multiply(d, hs)
    ROOT ar = f32[6,4] all-reduce(m), replica_groups={{0,1}}, to_apply=add_f32)");
  plan_.fusion = {{.unit = "f0", .ops = {"d", "m"}}};
  lower();
  EXPECT_EQ(names(), (Names{"f0", "ar"}));
  EXPECT_EQ(unit("f0").dot.alpha, 0.5F);
  EXPECT_EQ(unit("f0").writes[0], unit("ar").collective.arrays[0].output);
}

TEST_F(ScheduleTest, LeavesDeadCodeOut) {
  load("", R"(
    x = f32[32] parameter(0)
    dead = f32[32] negate(x)
    ROOT out = f32[32] sqrt(x))");
  lower();
  EXPECT_EQ(names(), (Names{"out"}));
}

TEST_F(ScheduleTest, SharesBytesOnlyOnceACollectiveIsWaitedFor) {
  // a and c have one size. While `ar` may still reduce a's bytes in place
  // (until `r` waits for it), c must not take them; d, written after r, may.
  load("", R"(
    x = f32[32] parameter(0)
    a = f32[32] negate(x)
    ar = f32[32] all-reduce(a), replica_groups={{0,1}}, to_apply=add_f32
    c = f32[32] sqrt(x)
    s = f32[] constant(0)
    rc = f32[] reduce(c, s), dimensions={0}, to_apply=add_f32
    r = f32[] reduce(ar, s), dimensions={0}, to_apply=add_f32
    d = f32[32] exponential(x)
    rd = f32[] reduce(d, s), dimensions={0}, to_apply=add_f32
    ROOT out = (f32[], f32[], f32[]) tuple(rc, r, rd))");
  lower();
  const auto offset = [&](const char* name) {
    return schedule_.buffers[index_of(unit(name).writes[0].buffer)]
        .arena_offset;
  };
  EXPECT_NE(offset("a"), offset("c"));
  EXPECT_TRUE(offset("d") == offset("a") || offset("d") == offset("c"));
  const LiveInterval live =
      live_intervals(schedule_)[index_of(unit("a").writes[0].buffer)];
  EXPECT_EQ(live.begin, 0);
  EXPECT_EQ(live.end, 3);  // r is the computation stream's unit 3: a, c, rc, r.
}

TEST_F(ScheduleTest, KeepsBytesOfAChunkThatNobodyWaitsFor) {
  // Only the first half of the bucket is read; the second may be in flight to
  // the end.
  load("", R"(
    x = f32[16] parameter(0)
    g = f32[16] negate(x)
    h = f32[16] sqrt(x)
    ar = (f32[16], f32[16]) all-reduce(g, h), replica_groups={{0,1}}, to_apply=add_f32
    ag = f32[16] get-tuple-element(ar), index=0
    ROOT out = f32[16] sqrt(ag))");
  plan_.buckets = {{.unit = "b0", .collectives = {"ar"}, .chunks = 2}};
  lower();
  const BufferId bucket = unit("b0#1").collective.arrays[0].output.buffer;
  EXPECT_EQ(live_intervals(schedule_)[index_of(bucket)].end, INT64_MAX);
}

TEST_F(ScheduleTest, WritesOverWhatItReadsForTheLastTime) {
  load("", R"(
    x = f32[8,8] parameter(0)
    a = f32[8,8] negate(x)
    b = f32[8,8] exponential(a)
    c = f32[8,8] add(a, b)
    t = f32[8,8] transpose(c), dimensions={1,0}
    ROOT d = f32[8,8] subtract(t, c))");
  lower();
  const auto offset = [&](const char* name) {
    const BufferId buffer = unit(name).writes[0].buffer;
    return schedule_.buffers[index_of(buffer)].arena_offset;
  };
  EXPECT_NE(offset("a"), offset("b"));  // c reads a once more.
  EXPECT_EQ(offset("a"), offset("c"));
  EXPECT_NE(offset("c"), offset("d"));  // Not of the element that it writes.
  EXPECT_EQ(schedule_.peak_temporary_bytes, 2 * 256);
}

TEST_F(ScheduleTest, ParametersLendTheirBytesBetweenTwoValues) {
  load(kAlias, R"(
    m = f32[8,8] parameter(0)
    g = f32[8,8] parameter(1)
    a = f32[8,8] negate(m)
    h = f32[8,8] multiply(g, g)
    n = f32[8,8] add(a, h)
    ROOT out = (f32[8,8], f32[8,8]) tuple(n, h))");
  lower();
  const auto offset = [&](BufferId buffer) {
    return schedule_.buffers[index_of(buffer)].arena_offset;
  };
  // a is written over the old m, and n over a.
  EXPECT_EQ(offset(unit("a").writes[0].buffer),
            offset(schedule_.parameter_buffers[0]));
  EXPECT_EQ(schedule_.peak_temporary_bytes, 256);  // h, an output.
}

TEST_F(ScheduleTest, ParametersKeepWhatALaterUnitReads) {
  load(kAlias, R"(
    m = f32[8,8] parameter(0)
    t = f32[8,8] transpose(m), dimensions={1,0}
    a = f32[8,8] add(t, t)
    n = f32[8,8] add(a, m)
    ROOT out = (f32[8,8]) tuple(n))");
  lower();
  for (const Unit& each : schedule_.units) {
    const Location& written = each.writes[0];
    EXPECT_EQ(
        written.buffer == schedule_.parameter_buffers[0] ||
            schedule_.buffers[index_of(written.buffer)].arena_offset >= 256,
        true)
        << each.name;
  }
}

TEST_F(ScheduleTest, FusesElementwiseOpsInsideALoop) {
  Result<InlinedModule> parsed = parse_inlined(R"(HloModule m
condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[8] negate(x)
  b = f32[8] exponential(a)
  c = f32[8] multiply(a, b)
  d = f32[8] add(c, x)
  ROOT out = (s32[], f32[8]) tuple(next, d)
}
ENTRY main {
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  state = (s32[], f32[8]) tuple(zero, x)
  loop = (s32[], f32[8]) while(state), condition=condition, body=body
  ROOT y = f32[8] get-tuple-element(loop), index=1
}
)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  module_ = *std::move(parsed);
  plan_ = identity_plan(module_, 1);
  lower();
  const Schedule& body = unit("loop").routine.callees.at(1).program->schedule;
  ASSERT_EQ(body.units.size(), 2U) << print_schedule(body);
  // c is part of d.
  EXPECT_EQ(body.units[0].ops.size() + body.units[1].ops.size(), 4U);
  EXPECT_EQ(body.peak_temporary_bytes, 0);  // d over x.
}

TEST_F(ScheduleTest, MakesOneUnitOfWhatAProgramOfADeviceReadsTwice) {
  // As a random number generator's round, of which both words are kept: the
  // second waits for what rotates it. What is read elsewhere stays apart.
  Result<InlinedModule> parsed = parse_inlined(R"(HloModule m
ENTRY main {
  x = u32[8,8] parameter(0)
  y = u32[8,8] parameter(1)
  turns = u32[4] parameter(2)
  one = u32[1] slice(turns), slice={[1:2]}
  turn = u32[] reshape(one)
  turned = u32[] add(turn, turn)
  wide = u32[8,8] broadcast(turned), dimensions={}
  sum = u32[8,8] add(x, y)
  high = u32[8,8] shift-left(y, wide)
  word = u32[8,8] xor(sum, high)
  more = u32[8,8] add(word, sum)
  across = u32[8,8] transpose(more), dimensions={1,0}
  last = u32[8,8] add(more, across)
  ROOT out = (u32[8,8], u32[8,8], u32[8,8]) tuple(word, more, last)
}
)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto program = lower_device_program(*std::move(parsed), "caller", 1);
  ASSERT_TRUE(program) << program.error().message;
  const Schedule& schedule = (*program)->schedule;
  std::vector<size_t> writes;
  for (const Unit& unit : schedule.units) writes.push_back(unit.writes.size());
  // What rotates; sum, high, word and more; across; last.
  EXPECT_EQ(writes, (std::vector<size_t>{1, 2, 1, 1}))
      << print_schedule(schedule);
}

TEST_F(ScheduleTest, MakesNoUnitOfWhatStandsBeforeAndAfterARoutine) {
  // y reads a, and what a sort of a gives, by a name of its own.
  Result<InlinedModule> parsed = parse_inlined(R"(HloModule m
less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  r = s32[] parameter(2)
  s = s32[] parameter(3)
  ROOT less = pred[] compare(p, q), direction=LT
}
ENTRY main {
  x = f32[8] parameter(0)
  n = s32[8] parameter(1)
  a = f32[8] negate(x)
  sorted = (f32[8], s32[8]) sort(a, n), dimensions={0}, to_apply=less
  b = f32[8] get-tuple-element(sorted), index=0
  c = s32[8] get-tuple-element(sorted), index=1
  y = f32[8] add(a, b)
  z = f32[8] exponential(y)
  ROOT out = (f32[8], s32[8]) tuple(z, c)
}
)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto program = lower_device_program(*std::move(parsed), "caller", 1);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ((*program)->schedule.units.size(), 3U)
      << print_schedule((*program)->schedule);
}

TEST_F(ScheduleTest, FusesSlicesAndPadsInAProgramOfADevice) {
  // b, which is computed, is read at other places: it stays apart.
  Result<InlinedModule> parsed = parse_inlined(R"(HloModule m
ENTRY main {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  s = f32[4] slice(x), slice={[0:8:2]}
  t = f32[3] slice(x), slice={[1:7:2]}
  p = f32[4] pad(t, zero), padding=0_1
  a = f32[4] add(s, p)
  b = f32[4] negate(a)
  q = f32[4] pad(b, zero), padding=1_-1
  r = f32[4] pad(b, zero), padding=-1_1
  y = f32[4] add(q, r)
  ROOT out = (f32[4]) tuple(y)
}
)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto program = lower_device_program(*std::move(parsed), "caller", 1);
  ASSERT_TRUE(program) << program.error().message;
  const Schedule& schedule = (*program)->schedule;
  ASSERT_EQ(schedule.units.size(), 2U) << print_schedule(schedule);
  EXPECT_EQ(schedule.units[0].ops.size(), 5U);  // s, t, p, a, b.
  EXPECT_EQ(schedule.units[1].ops.size(), 3U);  // q, r, y.
}

TEST_F(ScheduleTest, RefusesWhatCannotRunByName) {
  load("", R"(
    x = f32[32] parameter(0)
    weird.5 = f32[32] domain(x)
    ROOT out = f32[32] negate(weird.5))");
  EXPECT_NE(refusal().find("weird.5"), std::string::npos) << refusal();
  load("", R"(
    x = f32[32] parameter(0)
    ROOT ra.3 = f32[32] ragged-all-to-all(x, x, x, x, x, x), replica_groups={{0,1}})");
  EXPECT_EQ(refusal(), "ra.3: ragged-all-to-all does not run yet");
  load("", R"(
    x = f32[4,8] parameter(0)
    ROOT aa.3 = f32[4,8] all-to-all(x), replica_groups={}, dimensions={1})");
  EXPECT_EQ(refusal(),
            "aa.3: all-to-all along an inner dimension needs replica_groups "
            "that name the ranks, or divide its extent");
}

// They are bf16 while a step computes.
TEST_F(ScheduleTest, ReducesFloatsOfEightBits) {
  load("", R"(
    x = f8e4m3fnuz[4] parameter(0)
    ROOT ar.3 = f8e4m3fnuz[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add_f32)");
  EXPECT_EQ(refusal(), "lowered");
}

TEST_F(ScheduleTest, NamesTheGroupThatCannotBeOneKernel) {
  load("", R"(
    x = f32[32] parameter(0)
    y = f32[7,5] parameter(1)
    a = f32[32] negate(x)
    b = f32[7,5] negate(y)
    ROOT out = (f32[32], f32[7,5]) tuple(a, b))");
  plan_.fusion = {{.unit = "f0", .ops = {"a", "b"}}};
  const std::string reason = refusal();
  EXPECT_TRUE(reason == "lowered" ||
              reason.find("group 'f0' cannot be one kernel: ") == 0)
      << reason;
}

TEST_F(ScheduleTest, GivesRanksOneDigest) {
  load("", R"(
    x = f32[32] parameter(0)
    a = f32[32] negate(x)
    ROOT ar = f32[32] all-reduce(a), replica_groups={{0,1}}, to_apply=add_f32)");
  lower();
  const std::string digest = collective_digest(schedule_);
  EXPECT_EQ(digest.find("sha256:"), 0U);
  lower();
  EXPECT_EQ(collective_digest(schedule_), digest);
}

}  // namespace
}  // namespace reprise

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/formats/xplane/xplane_reader.h"
#include "data/import/import.h"
#include "data/io/proto_writer.h"
#include "tests/data/formats/xplane_plane.h"
#include "tests/testing/directories.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

const std::string kXplaneTraces = shared_directory() + "/traces/xplane/";
const std::string kCorpus = source_directory() + "/tests/fuzz/corpus/xplane/";

int64_t count_kind(const Trace& trace, EventKind kind) {
  return std::count_if(trace.events.begin(), trace.events.end(),
                       [&](const Event& event) { return event.kind == kind; });
}

int64_t sum_of_kind(const Trace& trace, EventKind kind) {
  int64_t sum = 0;
  for (const Event& one : trace.events) {
    if (one.kind == kind) sum += one.end_ns - one.start_ns;
  }
  return sum;
}

/// A stream at 1,000 ns: a kernel from 5,000 ps for 2,500 ps runs from 1,005 to
/// 1,007 ns, each rounded down.
TEST(Xplane, RoundsPicosecondsDown) {
  Plane gpu("/device:GPU:0");
  const uint64_t kernel = gpu.event("fusion");
  gpu.line("Stream #16(Compute)", 1000,
           {event(kernel, 5000, 2500), event(kernel, 7999, 2)}, 16);
  ReadInput input = read_input(xplane_reader(), space({gpu}));
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  ASSERT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.events[0].start_ns, 1005);
  EXPECT_EQ(trace.events[0].end_ns, 1007);
  EXPECT_EQ(trace.events[1].start_ns, 1007);
  EXPECT_EQ(trace.events[1].end_ns, 1008);
  EXPECT_EQ(trace.ranks[0].host, "host0");
  EXPECT_EQ(trace.ranks[0].device, "GPU:0");
  EXPECT_EQ(trace.ranks[0].clock_domain, "capture");
  ASSERT_EQ(trace.streams.size(), 1U);
  EXPECT_EQ(trace.streams[0].number, 16);
  EXPECT_EQ(trace.streams[0].device, 0);
}

/// Two GPUs with kernels are two ranks; calls go to the rank whose device did
/// their work, what has none to the first.
TEST(Xplane, EachDeviceWithKernelsIsARank) {
  ReadInput input = read_input(
      xplane_reader(), read_file(kCorpus + "two_gpus.xplane.pb").value());
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  ASSERT_EQ(trace.ranks.size(), 2U);
  EXPECT_EQ(trace.ranks[1].device, "NVIDIA GPU:1");
  // A fusion, an all-reduce and a copy each; the module's span; and on the host
  // two launches and PjRtExecute.
  EXPECT_EQ(count_kind(trace, EventKind::kCompute), 2);
  EXPECT_EQ(count_kind(trace, EventKind::kCollective), 2);
  EXPECT_EQ(count_kind(trace, EventKind::kCopy), 2);
  EXPECT_EQ(count_kind(trace, EventKind::kAnnotation), 2);
  EXPECT_EQ(count_kind(trace, EventKind::kRuntime), 2);
  EXPECT_EQ(count_kind(trace, EventKind::kHostOp), 1);
  for (const Event& one : trace.events) {
    if (one.kind != EventKind::kRuntime) continue;
    EXPECT_EQ(one.rank, one.correlation == 7 ? 0U : 1U);
  }
  EXPECT_EQ(input.report.kernels, 4);
  EXPECT_EQ(input.report.collectives, 2);
  EXPECT_EQ(input.report.steps, 2);
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[0].step, 4);
  EXPECT_EQ(trace.steps[0].end_ns - trace.steps[0].start_ns, 7);
  EXPECT_EQ(input.report.ignored.at("event of a derived line"), 2);
  EXPECT_EQ(input.report.ignored.at("call of a Python function"), 1);
  EXPECT_EQ(input.report.ignored.at("instant on a host thread"), 1);
  // The profile's start is known, so times count from the epoch.
  EXPECT_EQ(trace.ranks[0].clock_domain, "epoch");
  EXPECT_EQ(find_event(trace, "fusion")->start_ns,
            1757516928109201518 + 1000 + 5);
  EXPECT_EQ(find_event(trace, "MemcpyH2D")->bytes, 64);
}

/// The program says what the kernel's name does not: %w all-reduces f32[4]
/// in groups of two.
TEST(Xplane, KeepsProgramsAndDescribesTheirCollectives) {
  Plane metadata("/host:metadata");
  const std::string proto =
      read_file(source_directory() + "/tests/fuzz/corpus/hlo_proto/step.hlo.pb")
          .value();
  ProtoWriter entry;
  entry.varint(1, 3).message(
      2, ProtoWriter()
             .bytes(2, "jit_step(3)")
             .message(5, ProtoWriter().varint(1, 1).bytes(6, proto)));
  ProtoWriter plane;
  plane.bytes(2, "/host:metadata").message(4, entry);
  Plane gpu("/device:GPU:0");
  const uint64_t kernel =
      gpu.event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)");
  const uint64_t op = gpu.stat("hlo_op"), module = gpu.stat("hlo_module");
  const uint64_t program = gpu.stat("program_id");
  const uint64_t w = gpu.stat("w"), step = gpu.stat("jit_step");
  gpu.line("Stream #2", 10,
           {event(kernel, 0, 4000)
                .message(4, reference(op, w))
                .message(4, reference(module, step))
                .message(4, number(program, 3))});
  ReadInput input = read_input(
      xplane_reader(),
      ProtoWriter().message(1, plane).message(1, gpu.proto()).text());
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  ASSERT_EQ(trace.modules.size(), 1U);
  EXPECT_TRUE(
      trace.modules.at("jit_step(3)").starts_with("HloModule jit_step"));
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.events[0].kind, EventKind::kCollective);
  EXPECT_EQ(trace.events[0].bytes, 16);
  const CollectiveInfo& info =
      trace.collectives.at(static_cast<size_t>(trace.events[0].detail));
  EXPECT_EQ(info.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(info.type, PrimitiveType::kF32);
  EXPECT_EQ(info.group_size, 2);
  EXPECT_EQ(info.input_elements, 4);
  EXPECT_EQ(
      trace.text(StringId{static_cast<uint32_t>(trace.events[0].attributes)}),
      R"({"hlo_op":"w","hlo_module":"jit_step","program_id":3})");
}

/// A TPU has no streams: its XLA Ops are what ran, and a loop's span is that
/// of the operations inside.
TEST(Xplane, OperationsOfATpuAreItsWork) {
  ReadInput input =
      read_input(xplane_reader(), read_file(kCorpus + "tpu.xplane.pb").value());
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  EXPECT_EQ(find_event(trace, "while.3")->kind, EventKind::kAnnotation);
  EXPECT_EQ(find_event(trace, "fusion.1")->kind, EventKind::kCompute);
  const Event* gather = find_event(trace, "all-gather-start.2");
  ASSERT_NE(gather, nullptr);
  EXPECT_EQ(gather->kind, EventKind::kCollective);
  EXPECT_EQ(trace.collectives.at(static_cast<size_t>(gather->detail)).kind,
            CollectiveKind::kAllGather);
  // Its times count from the epoch by themselves.
  EXPECT_EQ(trace.ranks[0].clock_domain, "epoch");
  EXPECT_EQ(trace.events[0].start_ns, 1757516928109201518);
}

/// A thread launches for the second GPU alone: its wait, of which no device
/// tells, is that rank's too; of one that launches for both it is the first's.
/// What the thread does that marks the steps is of both.
TEST(Xplane, WhatAThreadDoesIsOfTheRankThatItLaunchesFor) {
  std::vector<Plane> planes;
  for (const uint64_t device : {0, 1}) {
    Plane gpu("/device:GPU:" + std::to_string(device));
    const uint64_t kernel = gpu.event("k"), id = gpu.stat("correlation_id");
    gpu.line("Stream #1(Kernel)", 10,
             {event(kernel, 0, 1000).message(4, number(id, 7 + device)),
              event(kernel, 9000, 1000).message(4, number(id, 17 + device))});
    planes.push_back(gpu);
  }
  Plane host("/host:CPU");
  const uint64_t launch = host.event("cuLaunchKernel"),
                 wait = host.event("cuStreamSynchronize"),
                 id = host.stat("correlation_id");
  const auto call = [&](uint64_t what, uint64_t from_ps, uint64_t number_of) {
    return event(what, from_ps, 1000).message(4, number(id, number_of));
  };
  host.line("both", 10,
            {call(launch, 0, 7), call(launch, 1000, 8), call(wait, 2000, 91)},
            1);
  host.line("second", 10, {call(launch, 3000, 18), call(wait, 4000, 92)}, 2);
  const uint64_t train = host.event("train"), load = host.event("load_batch"),
                 step = host.stat("step_num");
  host.line("python", 10,
            {event(train, 0, 9000).message(4, number(step, 7)),
             event(load, 1000, 2000)},
            3);
  planes.push_back(host);
  const Trace trace = read_input(xplane_reader(), space(planes)).gather();
  ASSERT_EQ(trace.ranks.size(), 2U);
  std::vector<uint32_t> loading;
  for (const Event& one : trace.events) {
    if (trace.text(one.name) == "load_batch") loading.push_back(one.rank);
  }
  EXPECT_EQ(loading, (std::vector<uint32_t>{0, 1}));
  std::map<int64_t, uint32_t> rank_of;
  for (const Event& one : trace.events) {
    if (one.kind == EventKind::kRuntime) rank_of[one.correlation] = one.rank;
  }
  const std::map<int64_t, uint32_t> expected = {
      {7, 0}, {8, 1}, {18, 1}, {91, 0}, {92, 1}};
  EXPECT_EQ(rank_of, expected);
}

TEST(Xplane, StepsOfTheHostCountWhereDevicesHaveNone) {
  Plane gpu("/device:GPU:0");
  gpu.line("Stream #1(Kernel)", 10, {event(gpu.event("k"), 0, 1000)});
  Plane host("/host:CPU");
  const uint64_t train = host.event("train");
  const uint64_t step = host.stat("step_num");
  host.line("python", 10,
            {event(train, 0, 5000).message(4, number(step, 11)),
             event(train, 5000, 5000).message(4, number(step, 12))});
  ReadInput input = read_input(xplane_reader(), space({gpu, host}));
  const Trace trace = input.gather();
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[0].step, 11);
  EXPECT_EQ(trace.steps[1].start_ns, 15);
  EXPECT_EQ(trace.steps[1].end_ns, 20);
}

// StepTraceAnnotation("eval") beside ("train"), with numbers of its own.
TEST(Xplane, StepsOfTheHostAreThoseThatTrain) {
  Plane host("/host:CPU");
  const uint64_t train = host.event("train"), eval = host.event("eval 0");
  const uint64_t step = host.stat("step_num");
  host.line("python", 10,
            {event(eval, 0, 90000).message(4, number(step, 0)),
             event(train, 90000, 5000).message(4, number(step, 0)),
             event(train, 95000, 5000).message(4, number(step, 1)),
             event(eval, 100000, 90000).message(4, number(step, 2))});
  const Trace trace = read_input(xplane_reader(), space({host})).gather();
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[0].start_ns, 100);
  EXPECT_EQ(trace.steps[1].step, 1);
}

/// JAX on CPU: two devices share two threads. An executor is the device's whose
/// operations it holds, an operation's end that of the operation before it, and
/// what tells nothing (Python's thread) the first device's. A collective is
/// one; a loop's operations stand beside it.
TEST(Xplane, CpuDevicesThatRanOperationsAreRanks) {
  Plane host("/host:CPU");
  const uint64_t execute = host.event("ThunkExecutor::Execute"),
                 reduce = host.event("all-reduce.4"),
                 end = host.event("end: all-reduce.4"),
                 loop = host.event("while.3"), train = host.event("train");
  const uint64_t op = host.stat("hlo_op"), device = host.stat("device_ordinal"),
                 step = host.stat("step_num"),
                 reduce_name = host.stat("all-reduce.4"),
                 loop_name = host.stat("while.3");
  const auto thunk = [&](uint64_t metadata, uint64_t name, uint64_t ordinal,
                         uint64_t from_ps, uint64_t for_ps) {
    return event(metadata, from_ps, for_ps)
        .message(4, reference(op, name))
        .message(4, number(device, ordinal));
  };
  host.line("python", 10,
            {event(train, 0, 900'000).message(4, number(step, 7))}, 1);
  host.line(
      "tf_XLAEigen/1", 10,
      {event(execute, 1'000, 90'000),
       thunk(reduce, reduce_name, 3, 10'000, 70'000), event(end, 80'000, 5'000),
       thunk(loop, loop_name, 1, 200'000, 50'000)},
      2);
  host.line("tf_XLAEigen/2", 10,
            {thunk(reduce, reduce_name, 1, 20'000, 60'000)}, 3);
  ReadInput input = read_input(xplane_reader(), space({host}));
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  EXPECT_EQ(input.report.collectives, 2);
  EXPECT_TRUE(input.report.missing.empty());
  const Trace trace = input.gather();
  ASSERT_EQ(trace.ranks.size(), 2U);
  EXPECT_EQ(trace.steps.size(), 2U);
  std::multiset<std::string> found;
  for (const Event& one : trace.events) {
    found.insert(std::to_string(one.rank) + " " + trace.text(one.name) + " " +
                 std::string(name_of(one.kind)));
  }
  EXPECT_EQ(found,
            (std::multiset<std::string>{
                "0 all-reduce.4 collective", "0 train annotation",
                "0 while.3 annotation", "1 ThunkExecutor::Execute annotation",
                "1 all-reduce.4 collective", "1 end: all-reduce.4 host-op"}));
}

/// Task 5 is handed over by an operation of device 1 and computes for it, with
/// an operation of device 3 within; task 6 is never begun, task 7 never handed
/// over, and the second mark ends nothing.
TEST(Xplane, ATaskOfAPoolFollowsFromWhereItIsHandedOver) {
  Plane host("/host:CPU");
  const uint64_t dot = host.event("dot.1"),
                 record = host.event("ThreadpoolListener::Record"),
                 start = host.event("ThreadpoolListener::StartRegion"),
                 stop = host.event("ThreadpoolListener::StopRegion"),
                 wait = host.event("$api.py:2757 block_until_ready"),
                 call = host.event("$api.py:1 jit");
  const uint64_t op = host.stat("hlo_op"), device = host.stat("device_ordinal"),
                 gives = host.stat("_p"), takes = host.stat("_c"),
                 name = host.stat("dot.1");
  const auto run = [&](uint64_t ordinal, uint64_t from_ps, uint64_t for_ps) {
    return event(dot, from_ps, for_ps)
        .message(4, reference(op, name))
        .message(4, number(device, ordinal));
  };
  const auto mark = [&](uint64_t metadata, uint64_t at_ps, uint64_t stat,
                        uint64_t id) {
    return event(metadata, at_ps, 0).message(4, number(stat, id));
  };
  host.line("python", 0, {event(call, 0, 9'000), event(wait, 9'000, 90'000)},
            1);
  host.line("tf_XLAEigen/1", 0,
            {run(1, 10'000, 50'000), mark(record, 20'000, gives, 5),
             mark(record, 21'000, gives, 6)},
            2);
  host.line("tf_XLAEigen/2", 0,
            {event(stop, 1'000, 0), mark(start, 2'000, takes, 7),
             event(stop, 3'000, 0), mark(start, 30'000, takes, 5),
             run(3, 40'000, 20'000), event(stop, 80'000, 0)},
            3);
  ReadInput input = read_input(xplane_reader(), space({host}));
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  std::multiset<std::string> found;
  for (const Event& one : trace.events) {
    found.insert(fmt::format(
        "{} {} {} {}-{} {}", one.rank, trace.streams[one.stream].name,
        trace.text(one.name), one.start_ns, one.end_ns, one.external_id));
  }
  EXPECT_EQ(found, (std::multiset<std::string>{
                       "0 python Wait: api.py:2757 block_until_ready 9-99 -1",
                       "0 tf_XLAEigen/1 dot.1 10-60 -1",
                       "0 tf_XLAEigen/1 ThreadpoolListener::Record 20-20 0",
                       "0 tf_XLAEigen/2 ThreadpoolListener::Region 30-30 1",
                       "0 tf_XLAEigen/2 ThreadpoolListener::Region 30-40 -1",
                       "0 tf_XLAEigen/2 ThreadpoolListener::Region 60-80 -1",
                       "1 tf_XLAEigen/2 dot.1 40-60 -1"}));
  EXPECT_EQ(trace.dependencies.size(), 1U);
}

/// Lines of ROCm's calls and who made them: 1 inside Python's range A and in
/// the longer "pool" too; 2 inside "pool" alone; 3 across the end of A and in
/// nothing else; 4 inside A, but across a call of 1.
TEST(Xplane, CallsOfRocmStandOnTheThreadInsideWhoseRangesTheyAre) {
  Plane gpu("/device:GPU:0");
  gpu.line("Stream #1(Kernel)", 10, {event(gpu.event("k"), 0, 1000)});
  Plane host("/host:CPU");
  const uint64_t range = host.event("A"), call = host.event("hipLaunch");
  const uint64_t correlation = host.stat("correlation_id");
  const auto made = [&](uint64_t offset_ps, uint64_t duration_ps) {
    return event(call, offset_ps, duration_ps)
        .message(4, number(correlation, 7));
  };
  host.line("Host Threads/1", 10, {made(20'000, 10'000)}, 1);
  host.line("Host Threads/2", 10, {made(20'000, 10'000), made(200'000, 5'000)},
            2);
  host.line("Host Threads/3", 10, {made(90'000, 20'000)}, 3);
  host.line("Host Threads/4", 10, {made(25'000, 10'000)}, 4);
  host.line("python", 10, {event(range, 10'000, 90'000)}, 70);
  host.line("pool", 10,
            {event(range, 0, 95'000), event(range, 150'000, 90'000)}, 71);
  ReadInput input = read_input(xplane_reader(), space({gpu, host}));
  const Trace trace = input.gather();
  std::map<std::string, int> calls;
  for (const Event& one : trace.events) {
    if (one.kind != EventKind::kRuntime) continue;
    ++calls[trace.streams[one.stream].name];
  }
  const std::map<std::string, int> expected = {
      {"python", 1}, {"pool", 2}, {"Host Threads/3", 1}, {"Host Threads/4", 1}};
  EXPECT_EQ(calls, expected);
}

TEST(Xplane, CountsWhatItCannotPlace) {
  Plane gpu("/device:GPU:0");
  const uint64_t kernel = gpu.event("k");
  gpu.line("Stream #1(Kernel)", 10,
           {event(kernel, 0, 1000), event(kernel, 0, ~uint64_t{0}),
            event(kernel, uint64_t{1} << 62, uint64_t{1} << 62),
            ProtoWriter().varint(1, kernel).varint(5, 12),
            ProtoWriter().varint(1, kernel).raw_varint(7)});
  ReadInput input = read_input(xplane_reader(), space({gpu}));
  ASSERT_TRUE(input.status.has_value());
  EXPECT_EQ(input.gather().events.size(), 1U);
  EXPECT_EQ(input.report.dropped.at("time out of range"), 2);
  EXPECT_EQ(input.report.dropped.at("damaged event"), 1);
  EXPECT_EQ(input.report.ignored.at("count without a time"), 1);
}

TEST(Xplane, ACutFileGivesThePlanesBefore) {
  Plane gpu("/device:GPU:0");
  gpu.line("Stream #1(Kernel)", 10, {event(gpu.event("k"), 0, 1000)});
  const std::string whole = space({gpu, gpu});
  ReadInput input =
      read_input(xplane_reader(), whole.substr(0, whole.size() - 20));
  ASSERT_TRUE(input.status.has_value());
  EXPECT_EQ(input.gather().events.size(), 1U);
  EXPECT_EQ(input.report.dropped.at("rest of a damaged file"), 1);
}

TEST(Xplane, RefusesWhatHoldsNothing) {
  ReadInput input =
      read_input(xplane_reader(), space({Plane("/device:GPU:0")}));
  EXPECT_EQ(input.report.refused,
            "a profile without events: neither a device nor a host did "
            "anything");
  EXPECT_FALSE(read_input(xplane_reader(), "HloModule m").recognized);
  EXPECT_FALSE(read_input(xplane_reader(), "").recognized);
}

/// Bytes above 127 as U+FFFD, as an editor or `decode(errors="replace")`
/// leaves them.
TEST(Xplane, TellsAConversionToTextFromOtherDamage) {
  for (const std::string& path :
       {kCorpus + "mangled.xplane.pb",
        kXplaneTraces + "corrupt_utf8_mangled_tpu/tpu_inference_2.xplane.pb"}) {
    const auto bytes = read_file(path);
    if (!bytes) GTEST_SKIP() << "no recorded traces beside the checkout";
    ReadInput input = read_input(xplane_reader(), *bytes);
    EXPECT_TRUE(input.recognized) << path;
    EXPECT_NE(input.report.refused.find("UTF-8 text conversion"),
              std::string::npos)
        << path;
  }
}

struct Expected {
  std::string file;
  int64_t records, device_work, kernels;
  uint32_t ranks;
  int64_t steps;
  size_t modules;
  int64_t kernel_ns, copy_ns;
};

/// Records and device work are those of MANIFEST.tsv; sums of the streams'
/// kernels and copies were taken from the messages by an independent decoder,
/// end and start rounded down to ns.
TEST(Xplane, RecordedProfilesGiveTheirCounts) {
  const std::vector<Expected> all = {
      {"jax08_gemm_mi300/tw003.xplane.pb", 3782, 54, 54, 1, 0, 16, 3475484, 0},
      {"jax_mi300_legacy/chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb",
       6024, 78, 25, 1, 0, 8, 3586493, 889028},
      {"tf_gpu_multi_worker_v100/34.83.195.179_6003.xplane.pb", 23128, 1556,
       1330, 2, 2, 0, 29690748, 471357}};
  for (const Expected& expected : all) {
    const auto bytes = read_file(kXplaneTraces + expected.file);
    if (!bytes) GTEST_SKIP() << "no recorded traces beside the checkout";
    ReadInput input = read_input(xplane_reader(), *bytes, expected.file);
    ASSERT_TRUE(input.recognized) << expected.file;
    ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
    const Trace trace = input.gather();
    int64_t records = input.spool.event_count() + input.report.steps;
    for (const auto& [what, count] : input.report.ignored) {
      if (what.find("plane") == std::string::npos) records += count;
    }
    EXPECT_TRUE(input.report.dropped.empty()) << expected.file;
    EXPECT_EQ(records, expected.records) << expected.file;
    const int64_t copies = count_kind(trace, EventKind::kCopy);
    EXPECT_EQ(count_kind(trace, EventKind::kCompute) + copies,
              expected.device_work)
        << expected.file;
    EXPECT_EQ(input.report.kernels, expected.kernels) << expected.file;
    EXPECT_EQ(trace.ranks.size(), expected.ranks) << expected.file;
    EXPECT_EQ(input.report.steps, expected.steps) << expected.file;
    EXPECT_EQ(trace.modules.size(), expected.modules) << expected.file;
    EXPECT_EQ(sum_of_kind(trace, EventKind::kCompute), expected.kernel_ns)
        << expected.file;
    EXPECT_EQ(sum_of_kind(trace, EventKind::kCopy), expected.copy_ns)
        << expected.file;
  }
}

/// An independent decoder found a call of the host for the correlation of every
/// piece of device work in all three files.
TEST(Xplane, LaunchesOfRecordedProfilesStandOnTheRankOfTheirWork) {
  for (const char* file :
       {"jax08_gemm_mi300/tw003.xplane.pb",
        "jax_mi300_legacy/chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb",
        "tf_gpu_multi_worker_v100/34.83.195.179_6003.xplane.pb"}) {
    const auto bytes = read_file(kXplaneTraces + file);
    if (!bytes) GTEST_SKIP() << "no recorded traces beside the checkout";
    ReadInput input = read_input(xplane_reader(), *bytes, file);
    const Trace trace = input.gather();
    std::set<std::pair<uint32_t, int64_t>> calls;
    for (const Event& one : trace.events) {
      if (one.kind == EventKind::kRuntime) {
        calls.emplace(one.rank, one.correlation);
      }
    }
    for (const Event& one : trace.events) {
      if (one.kind != EventKind::kCompute && one.kind != EventKind::kCopy) {
        continue;
      }
      EXPECT_TRUE(calls.contains({one.rank, one.correlation}))
          << file << " " << trace.text(one.name);
    }
  }
}

TEST(Xplane, AnImportedProfileKeepsItsPrograms) {
  const std::string file = kXplaneTraces + "jax08_gemm_mi300/tw003.xplane.pb";
  if (!read_file(file))
    GTEST_SKIP() << "no recorded traces beside the checkout";
  const std::vector<std::string> paths = {file};
  auto result = import_files(paths, {});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const std::string path = ::testing::TempDir() + "/xplane_test." +
                           std::to_string(::getpid()) + ".trace";
  ASSERT_TRUE(write_import(*result, path).has_value());
  const auto trace = read_trace(path);
  std::remove(path.c_str());
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->modules.size(), 16U);
  EXPECT_TRUE(trace->modules.contains("jit_dot(21)"));
  ASSERT_EQ(trace->ranks.size(), 1U);
  EXPECT_EQ(trace->ranks[0].rank, 0U);
}

}  // namespace
}  // namespace reprise

// What a profile's programs say of its operations.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/xplane/xplane_reader.h"
#include "data/import/import.h"
#include "data/io/proto_writer.h"
#include "tests/data/formats/xplane_plane.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

/// f32[4]
ProtoWriter four_floats() { return ProtoWriter().varint(2, 11).varint(3, 4); }

ProtoWriter instruction(std::string_view name, std::string_view opcode,
                        uint64_t id) {
  return ProtoWriter()
      .bytes(1, name)
      .bytes(2, opcode)
      .message(3, four_floats())
      .varint(35, id);
}

/// psum.3 = all-reduce of partitions {0,1},{2,3}, which `devices` run.
std::string program(const std::vector<uint64_t>& devices) {
  ProtoWriter sum;
  sum.bytes(1, "sum").varint(5, 2).varint(6, 13);
  const auto scalar = [](std::string_view name, std::string_view opcode,
                         uint64_t id) {
    return ProtoWriter()
        .bytes(1, name)
        .bytes(2, opcode)
        .message(3, ProtoWriter().varint(2, 11))
        .varint(35, id);
  };
  sum.message(2, scalar("a", "parameter", 11))
      .message(2, scalar("b", "parameter", 12).varint(9, 1))
      .message(2, scalar("c", "add", 13).varint(36, 11).varint(36, 12));
  ProtoWriter reduce = instruction("psum.3", "all-reduce", 22);
  reduce.varint(36, 21).varint(38, 2).varint(26, 1).varint(71, 1);
  for (const uint64_t first : {0, 2}) {
    reduce.message(49, ProtoWriter().varint(1, first).varint(1, first + 1));
  }
  ProtoWriter entry;
  entry.bytes(1, "main")
      .message(2, instruction("x", "parameter", 21))
      .message(2, reduce)
      .varint(5, 1)
      .varint(6, 22);
  ProtoWriter assignment;
  assignment.varint(1, 1).varint(2, devices.size());
  for (const uint64_t device : devices) {
    assignment.message(3, ProtoWriter().varint(1, device));
  }
  ProtoWriter module;
  module.bytes(1, "jit_step")
      .bytes(2, "main")
      .message(3, sum)
      .message(3, entry)
      .message(
          4, ProtoWriter().message(1, four_floats()).message(2, four_floats()))
      .varint(5, 7)
      .varint(6, 1)
      .message(15, assignment);
  return ProtoWriter().message(1, module).text();
}

/// The plane of programs with `proto`, which is jit_step(7).
ProtoWriter programs(const std::string& proto) {
  const ProtoWriter stat = ProtoWriter().varint(1, 1).bytes(6, proto);
  const ProtoWriter metadata =
      ProtoWriter().bytes(2, "jit_step(7)").message(5, stat);
  return ProtoWriter()
      .bytes(2, "/host:metadata")
      .message(4, ProtoWriter().varint(1, 3).message(2, metadata));
}

const CollectiveInfo* info_of(const Trace& trace, std::string_view name) {
  for (const Event& one : trace.events) {
    if (trace.text(one.name) == name && one.kind == EventKind::kCollective)
      return &trace.collectives.at(static_cast<size_t>(one.detail));
  }
  return nullptr;
}

/// JAX 0.10 names an all-reduce after its psum: what it is the program says,
/// and that its partitions are devices 0, 2, 1 and 3.
TEST(XplanePrograms, TellWhatAnOperationIsAndWhoseDevices) {
  Plane host("/host:CPU");
  const uint64_t psum = host.event("psum.3"), dot = host.event("dot.1"),
                 op = host.stat("hlo_op"), module = host.stat("hlo_module"),
                 device = host.stat("device_ordinal"),
                 id = host.stat("program_id"), psum_name = host.stat("psum.3"),
                 dot_name = host.stat("dot.1"),
                 module_name = host.stat("jit_step");
  const auto run = [&](uint64_t metadata, uint64_t name, uint64_t from_ps) {
    return event(metadata, from_ps, 5'000)
        .message(4, reference(op, name))
        .message(4, reference(module, module_name))
        .message(4, number(id, 7))
        .message(4, number(device, 0));
  };
  host.line("tf_XLAEigen/1", 0,
            {run(dot, dot_name, 1'000), run(psum, psum_name, 6'000)});
  ReadInput input = read_input(xplane_reader(),
                               ProtoWriter()
                                   .message(1, programs(program({0, 2, 1, 3})))
                                   .message(1, host.proto())
                                   .text());
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  EXPECT_EQ(input.report.collectives, 1);
  const Trace trace = input.gather();
  EXPECT_NE(trace.modules.at("jit_step(7)").find("num_partitions=4"),
            std::string::npos);
  const CollectiveInfo* info = info_of(trace, "psum.3");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(info->group_size, 2);
  EXPECT_EQ(info->communicator, "devices:{0,2},{1,3}");
}

/// Two steps of permute-start, dot, permute-done and add: add waits for the
/// permutation, though it ended long before, and dot does not.
TEST(XplanePrograms, TellWhatWaitsForATransfer) {
  const auto scheduled = [] {
    ProtoWriter entry;
    entry.bytes(1, "main")
        .message(2, instruction("x", "parameter", 21))
        .message(2, instruction("permute.1", "collective-permute-start", 22)
                        .varint(36, 21)
                        .varint(26, 1)
                        .message(52, ProtoWriter().varint(2, 1))
                        .message(52, ProtoWriter().varint(1, 1)))
        .message(2, instruction("dot.1", "negate", 23).varint(36, 21))
        .message(2, instruction("permute.2", "collective-permute-done", 24)
                        .varint(36, 22))
        .message(2, instruction("add.1", "negate", 25).varint(36, 24))
        .varint(5, 1)
        .varint(6, 25);
    ProtoWriter sequence;
    for (const uint64_t id : {21, 22, 23, 24, 25}) sequence.varint(1, id);
    ProtoWriter module;
    module.bytes(1, "jit_step")
        .bytes(2, "main")
        .message(3, entry)
        .message(
            4,
            ProtoWriter().message(1, four_floats()).message(2, four_floats()))
        .varint(5, 7)
        .varint(6, 1)
        .message(7, ProtoWriter().message(
                        1, ProtoWriter().varint(1, 1).message(2, sequence)));
    return ProtoWriter().message(1, module).text();
  };
  Plane gpu("/device:GPU:0");
  const uint64_t nccl = gpu.event("ncclDevKernel_SendRecv(x)"),
                 kernel = gpu.event("k"), op = gpu.stat("hlo_op"),
                 module = gpu.stat("hlo_module"), id = gpu.stat("program_id"),
                 correlation = gpu.stat("correlation_id"),
                 step = gpu.stat("jit_step");
  const auto run = [&](uint64_t what, const char* name, uint64_t launch,
                       uint64_t from_ps) {
    return event(what, from_ps, 1'000)
        .message(4, reference(op, gpu.stat(name)))
        .message(4, reference(module, step))
        .message(4, number(id, 7))
        .message(4, number(correlation, launch));
  };
  gpu.line("Stream #1(Compute)", 0,
           {run(kernel, "dot.1", 2, 10'000), run(kernel, "add.1", 3, 20'000),
            run(kernel, "dot.1", 5, 30'000), run(kernel, "add.1", 6, 40'000)});
  gpu.line(
      "Stream #2(Compute)", 0,
      {run(nccl, "permute.1", 1, 1'000), run(nccl, "permute.1", 4, 25'000)}, 2);
  ReadInput input =
      read_input(xplane_reader(), ProtoWriter()
                                      .message(1, programs(scheduled()))
                                      .message(1, gpu.proto())
                                      .text());
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  std::map<int64_t, int64_t> launch_of;  // By external id.
  for (const Event& one : trace.events)
    launch_of[one.external_id] = one.correlation;
  std::set<std::pair<int64_t, int64_t>> waits;
  for (const EventDependency& one : trace.dependencies)
    waits.emplace(launch_of[one.before], launch_of[one.after]);
  EXPECT_EQ(waits,
            (std::set<std::pair<int64_t, int64_t>>{{1, 3}, {3, 4}, {4, 6}}));
  EXPECT_EQ(info_of(trace, "ncclDevKernel_SendRecv(x)")->kind,
            CollectiveKind::kPermute);
}

/// A TPU names an operation by all of its text. The line beside has what it
/// does meanwhile, from start to end: on the other one it starts that, and
/// stands still until it is done.
TEST(XplanePrograms, WhatATpuDoesBesideIsNoOperationOfIts) {
  Plane tpu("/device:TPU:0");
  const uint64_t
      reduce = tpu.event(
          "%psum.3 = (f32[4]{0:T(8)}, f32[]) all-reduce(f32[4] %x, f32[] %y)",
          "psum.3"),
      gather_start = tpu.event(
          "%gather.1 = ((f32[4]), f32[16]) all-gather-start(f32[4] %x)",
          "gather.1"),
      gather_done = tpu.event(
          "%gather.2 = f32[16] all-gather-done(f32[16] %gather.1)", "gather.2"),
      copy_start = tpu.event("%copy.1 = f32[4] copy-start(f32[4] %x)"),
      fusion = tpu.event("%all-gather_fusion = f32[4] fusion(f32[4] %x)",
                         "all-gather_fusion");
  tpu.line("XLA Ops", 0,
           {event(gather_start, 0, 1'000), event(fusion, 1'000, 50'000),
            event(gather_done, 51'000, 9'000), event(reduce, 60'000, 20'000)},
           1);
  tpu.line("Async XLA Ops", 0,
           {event(gather_start, 0, 60'000), event(copy_start, 0, 40'000)}, 2);
  ReadInput input = read_input(xplane_reader(), space({tpu}));
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  std::multiset<std::string> found;
  for (const Event& one : trace.events) {
    found.insert(trace.streams[one.stream].name + ": " + trace.text(one.name) +
                 " " + std::string(name_of(one.kind)));
  }
  EXPECT_EQ(
      found,
      (std::multiset<std::string>{
          "Async XLA Ops: all-gather: gather.1 collective",
          "Async XLA Ops: copy: copy.1 copy",
          "XLA Ops: all-gather_fusion compute", "XLA Ops: gather.1 compute",
          "XLA Ops: gather.2 annotation", "XLA Ops: psum.3 collective"}));
  EXPECT_EQ(info_of(trace, "psum.3")->kind, CollectiveKind::kAllReduce);
  std::map<int64_t, std::string> name_of_id;
  for (const Event& one : trace.events) {
    name_of_id[one.external_id] =
        trace.streams[one.stream].name[0] + (":" + trace.text(one.name));
  }
  std::set<std::pair<std::string, std::string>> waits;
  for (const EventDependency& one : trace.dependencies)
    waits.emplace(name_of_id[one.before], name_of_id[one.after]);
  EXPECT_EQ(waits,
            (std::set<std::pair<std::string, std::string>>{
                {"X:gather.1", "A:gather.1"}, {"A:gather.1", "X:psum.3"}}));
}

/// A transfer behind others may begin when the device waits for it already: it
/// is this one that is awaited, and not the one of the step before.
TEST(XplanePrograms, WhatIsAwaitedMayBeginMeanwhile) {
  Plane tpu("/device:TPU:0");
  const uint64_t start = tpu.event(
                     "%g.1 = ((f32[4]), f32[16]) all-gather-start(f32[4] %x)",
                     "g.1"),
                 done = tpu.event(
                     "%g.2 = f32[16] all-gather-done(f32[16] %g.1)", "g.2"),
                 fusion =
                     tpu.event("%fusion = f32[4] fusion(f32[4] %x)", "fusion");
  tpu.line("XLA Ops", 0,
           {event(done, 10'000, 20'000), event(fusion, 30'000, 10'000),
            event(done, 50'000, 20'000), event(fusion, 70'000, 10'000)},
           1);
  tpu.line("Async XLA Ops", 0,
           {event(start, 15'000, 15'000), event(start, 55'000, 15'000)}, 2);
  ReadInput input = read_input(xplane_reader(), space({tpu}));
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  std::map<int64_t, int64_t> start_of_id;
  for (const Event& one : trace.events)
    start_of_id[one.external_id] = one.start_ns;
  std::set<std::pair<int64_t, int64_t>> waits;
  for (const EventDependency& one : trace.dependencies)
    waits.emplace(start_of_id[one.before], start_of_id[one.after]);
  EXPECT_EQ(waits, (std::set<std::pair<int64_t, int64_t>>{{15, 30}, {55, 70}}));
}

/// What runs beside operations waits for none of its own line: a transfer that
/// happens to begin after another kind's is not held up by it.
TEST(XplanePrograms, TransfersBesideStandOnALaneForEachKind) {
  Plane tpu("/device:TPU:0");
  const uint64_t fusion =
                     tpu.event("%fusion = f32[4] fusion(f32[4] %x)", "fusion"),
                 gather = tpu.event(
                     "%g.1 = ((f32[4]), f32[16]) all-gather-start(%x)", "g.1"),
                 scatter = tpu.event(
                     "%reduce-scatter-start.1 = (f32[16]) async-start(%y)",
                     "reduce-scatter-start.1");
  tpu.line("XLA Ops", 0, {event(fusion, 0, 90'000)}, 1);
  tpu.line("Async XLA Ops", 0,
           {event(gather, 0, 40'000), event(gather, 20'000, 50'000),
            event(scatter, 40'000, 20'000), event(gather, 80'000, 5'000)},
           2);
  ReadInput input = read_input(xplane_reader(), space({tpu}));
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  std::multiset<std::string> found;
  for (const Event& one : trace.events) {
    found.insert(
        fmt::format("{} {}", trace.streams[one.stream].name, one.start_ns));
  }
  EXPECT_EQ(found,
            (std::multiset<std::string>{
                "Async XLA Ops: all-gather 0", "Async XLA Ops: all-gather 2 20",
                "Async XLA Ops: all-gather 80",
                "Async XLA Ops: reduce-scatter 40", "XLA Ops 0"}));
}

}  // namespace
}  // namespace reprise

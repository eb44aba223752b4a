#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/process_shard/process_shard_ranks.h"
#include "data/formats/process_shard/process_shard_reader.h"
#include "tests/data/formats/recorded_process.h"

namespace reprise {
namespace {

using Kind = RecordKind;

TEST(ProcessShard, LaunchesAndDeviceWorkKeepTheirTies) {
  ShardBuilder shard(header({}));
  shard
      .add({.start_ns = 10,
            .end_ns = 14,
            .correlation = 7,
            .stream = 101,
            .kind = Kind::kCall},
           "cudaLaunchKernel")
      .add({.start_ns = 20,
            .end_ns = 50,
            .correlation = 7,
            .stream = 13,
            .device = 2,
            .kind = Kind::kKernel},
           "gemm")
      .add({.correlation = 7, .external_id = 42, .kind = Kind::kExternal})
      .add({.start_ns = 60,
            .end_ns = 61,
            .correlation = 8,
            .bytes = 4096,
            .stream = 7,
            .device = 2,
            .kind = Kind::kCopy},
           "Memcpy HtoD")
      .add({.start_ns = 62,
            .end_ns = 63,
            .correlation = 9,
            .bytes = 16,
            .stream = 7,
            .device = 2,
            .kind = Kind::kMemset},
           "Memset")
      .add({.start_ns = 64,
            .end_ns = 70,
            .stream = 101,
            .kind = Kind::kOverhead},
           "CUPTI");
  shard.end();
  ReadInput read = read_input(process_shard_reader(), shard.bytes());
  ASSERT_TRUE(read.recognized && read.status);
  const Trace trace = read.gather();
  ASSERT_EQ(trace.events.size(), 5u);
  EXPECT_EQ(read.report.kernels, 1);
  EXPECT_EQ(read.report.ignored.at("external correlation"), 1);
  const Event* kernel = find(trace, "gemm");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->correlation, 7);
  EXPECT_EQ(kernel->external_id, 42);
  EXPECT_EQ(stream_of(trace, *kernel).kind, StreamKind::kDeviceStream);
  EXPECT_EQ(stream_of(trace, *kernel).device, 2);
  EXPECT_EQ(stream_of(trace, *kernel).number, 13);
  const Event* call = find(trace, "cudaLaunchKernel", EventKind::kRuntime);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->correlation, 7);
  EXPECT_EQ(stream_of(trace, *call).kind, StreamKind::kHostThread);
  EXPECT_EQ(stream_of(trace, *call).number, 101);
  EXPECT_EQ(find(trace, "Memcpy HtoD", EventKind::kCopy)->bytes, 4096);
  EXPECT_EQ(find(trace, "Memset", EventKind::kMemset)->bytes, 16);
  EXPECT_NE(find(trace, "CUPTI", EventKind::kOverhead), nullptr);
  EXPECT_EQ(trace.ranks[0].rank, 0u);
  EXPECT_EQ(trace.ranks[0].host, "h0");
  EXPECT_EQ(trace.ranks[0].device, "cuda:2");
  EXPECT_EQ(trace.ranks[0].clock_domain, "monotonic");
  EXPECT_EQ(trace.environment.at("rank 0 command"), "/usr/bin/python3 a b");
}

// Node 5 was made by unit 3; 50 is its clone when the graph is instantiated,
// and 500 a clone of that. 9 is nobody's.
TEST(ProcessShard, NodesOfGraphsLeadToWhatMadeThem) {
  ShardBuilder shard(header({}));
  shard
      .add({.external_id = 3, .graph_node = 5, .kind = Kind::kGraphNode},
           "forward")
      .add({.graph_node = 50, .sequence = 5, .kind = Kind::kGraphNode})
      .add({.graph_node = 500, .sequence = 50, .kind = Kind::kGraphNode})
      .add({.graph_node = 9, .sequence = 9, .kind = Kind::kGraphNode})
      .add({.start_ns = 1,
            .end_ns = 2,
            .correlation = 77,
            .stream = 101,
            .kind = Kind::kGraphLaunch},
           "cudaGraphLaunch")
      .add({.start_ns = 3,
            .end_ns = 4,
            .correlation = 77,
            .graph_node = 500,
            .stream = 7,
            .device = 0,
            .kind = Kind::kKernel},
           "a")
      .add({.start_ns = 4,
            .end_ns = 5,
            .correlation = 77,
            .graph_node = 9,
            .stream = 7,
            .device = 0,
            .kind = Kind::kKernel},
           "b")
      .add({.start_ns = 5,
            .end_ns = 6,
            .correlation = 77,
            .external_id = 8,
            .graph_node = 500,
            .stream = 7,
            .device = 0,
            .kind = Kind::kKernel},
           "c");
  shard.end();
  ReadInput read = read_input(process_shard_reader(), shard.bytes());
  const Trace trace = read.gather();
  EXPECT_EQ(find(trace, "a")->external_id, 3);
  EXPECT_EQ(find(trace, "a")->graph_node, 500);
  EXPECT_EQ(trace.strings[static_cast<size_t>(find(trace, "a")->attributes)],
            R"({"created_in":"forward"})");
  EXPECT_EQ(find(trace, "b")->external_id, -1);
  EXPECT_EQ(find(trace, "c")->external_id, 8);
  const Event* launch = find(trace, "cudaGraphLaunch", EventKind::kRuntime);
  EXPECT_EQ(launch->correlation, find(trace, "a")->correlation);
}

TEST(ProcessShard, WaitsSayForWhom) {
  ShardBuilder shard(header({}));
  shard
      .add({.start_ns = 5,
            .end_ns = 6,
            .correlation = 21,
            .stream = 14,
            .sequence = 4,
            .device = 1,
            .kind = Kind::kSynchronization},
           "",
           R"({"kind":"stream-wait","waited_stream":13,)"
           R"("waited_correlation":19})")
      .add({.start_ns = 7,
            .end_ns = 9,
            .stream = 101,
            .kind = Kind::kSynchronization},
           "", R"({"kind":"device"})");
  shard.end();
  ReadInput read = read_input(process_shard_reader(), shard.bytes());
  const Trace trace = read.gather();
  const Event* wait =
      find(trace, "Stream Wait Event", EventKind::kSynchronization);
  ASSERT_NE(wait, nullptr);
  const SynchronizationInfo expected{SynchronizationKind::kStreamWait, 14, 13,
                                     19};
  EXPECT_EQ(trace.synchronizations[static_cast<size_t>(wait->detail)],
            expected);
  EXPECT_EQ(stream_of(trace, *wait).number, 14);
  const Event* device =
      find(trace, "Context Sync", EventKind::kSynchronization);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(stream_of(trace, *device).kind, StreamKind::kDeviceStream);
}

TEST(ProcessShard, RangesAreAnnotationsOperatorsAndSteps) {
  ShardBuilder shard(header({}));
  for (int64_t step = 0; step < 3; ++step) {
    shard.add({.start_ns = step * 100,
               .end_ns = step * 100 + 90,
               .stream = 101,
               .kind = Kind::kRange},
              fmt::format("step {}", step));
  }
  shard
      .add({.start_ns = 10, .end_ns = 20, .stream = 101, .kind = Kind::kRange},
           "aten::mm, seq = 5, op_id = 17, sizes = [[2, 3]]")
      .add({.start_ns = 30, .end_ns = 30, .stream = 101, .kind = Kind::kMark},
           "epoch 3")
      .add({.start_ns = 31, .end_ns = 33, .stream = 101, .kind = Kind::kRange},
           "ncclAllReduce")
      .add({.start_ns = 5,
            .end_ns = 150,
            .stream = 101,
            .kind = Kind::kRange,
            .flags = 1},
           "across steps");
  shard.end();
  ReadInput read = read_input(process_shard_reader(), shard.bytes());
  const Trace trace = read.gather();
  ASSERT_EQ(trace.steps.size(), 3u);
  EXPECT_EQ(trace.steps[2].step, 2);
  EXPECT_EQ(trace.steps[2].start_ns, 200);
  EXPECT_EQ(trace.steps[2].end_ns, 290);
  const Event* op = find(trace, "aten::mm", EventKind::kHostOp);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->external_id, 17);
  EXPECT_EQ(trace.strings[static_cast<size_t>(op->attributes)],
            R"({"sizes":"[[2, 3]]"})");
  EXPECT_NE(find(trace, "epoch 3", EventKind::kAnnotation), nullptr);
  const Event* across = find(trace, "across steps", EventKind::kAnnotation);
  ASSERT_NE(across, nullptr);  // Where it need not nest.
  EXPECT_EQ(stream_of(trace, *across).kind, StreamKind::kTensor);
  const Event* call = find(trace, "ncclAllReduce", EventKind::kHostOp);
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(trace.collectives[static_cast<size_t>(call->detail)].kind,
            CollectiveKind::kAllReduce);
}

TEST(ProcessShard, MarkedStepsGoBeforeNamedOnes) {
  ShardBuilder shard(header({}));
  for (int64_t step = 0; step < 2; ++step) {
    shard.add(
        {.start_ns = step, .end_ns = step, .stream = 1, .kind = Kind::kRange},
        fmt::format("step {}", step));
    shard.add({.start_ns = step * 10,
               .end_ns = step * 10 + 5,
               .sequence = step + 4,
               .kind = Kind::kStep,
               .flags = static_cast<uint16_t>(step == 0)});
  }
  shard.add({.start_ns = 1, .end_ns = 2, .kind = Kind::kStep});
  shard.end();
  ReadInput read = read_input(process_shard_reader(), shard.bytes());
  const Trace trace = read.gather();
  ASSERT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.steps[0].step, 4);
  EXPECT_TRUE(trace.steps[0].warmup);
  EXPECT_EQ(trace.steps[1].start_ns, 10);
  EXPECT_FALSE(trace.steps[1].warmup);
  EXPECT_EQ(read.report.dropped.at("step without a number or an end"), 1);
}

constexpr const char* kKernelName = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

// A process that launched one kernel of NCCL.
ShardBuilder launched_kernel(const Who& who, int64_t call_ns, int64_t start_ns,
                             int64_t end_ns) {
  ShardBuilder process(header(who));
  process
      .add({.start_ns = call_ns,
            .end_ns = call_ns + 100,
            .correlation = 5,
            .stream = 1,
            .kind = Kind::kCall},
           "cudaLaunchKernelExC")
      .add({.start_ns = start_ns,
            .end_ns = end_ns,
            .correlation = 5,
            .stream = 20,
            .device = 0,
            .kind = Kind::kKernel},
           kKernelName);
  process.end();
  return process;
}

/// One rank with CUPTI's shard and the plugin's: the launch at 1000, the
/// kernel at 2000..3000, the plugin's record right after the launch.
void add_nccl_rank(const Shards& shards, int rank) {
  Who who{.process = 100 + rank, .rank = rank, .ranks = 2};
  ShardBuilder process(header(who));
  process
      .add({.start_ns = 1000,
            .end_ns = 1100,
            .correlation = 5,
            .stream = 100 + rank,
            .kind = Kind::kCall},
           "cudaLaunchKernelExC")
      .add({.start_ns = 2000,
            .end_ns = 3000,
            .correlation = 5,
            .stream = 20,
            .device = rank,
            .kind = Kind::kKernel},
           kKernelName);
  process.end();
  who.source = "nccl";
  ShardBuilder nccl(header(who));
  constexpr int64_t kFirst = int64_t{1} << 40;
  nccl.add({.start_ns = 1110,
            .end_ns = 1120,
            .correlation = kFirst + 1,
            .graph_node = kFirst + 9,
            .bytes = 1024,
            .stream = 100 + rank,
            .sequence = 3,
            .kind = Kind::kCollective},
           "AllReduce", call_info(rank))
      .add({.start_ns = 2100,
            .end_ns = 2900,
            .correlation = kFirst + 1,
            .bytes = 512,
            .kind = Kind::kNetworkStep},
           "send")
      .add({.start_ns = 900'000,
            .end_ns = 901'000,
            .correlation = kFirst + 1,
            .sequence = 3100,
            .kind = Kind::kDeviceTimer},
           "NCCL channel");
  nccl.end();
  shards.add(fmt::format("h0.{}.process.shard", 100 + rank), process.bytes());
  shards.add(fmt::format("h0.{}.nccl.shard", 100 + rank), nccl.bytes());
}

TEST(ProcessShard, KernelsOfNcclAreDescribedByItsPlugin) {
  const Shards shards;
  add_nccl_rank(shards, 0);
  add_nccl_rank(shards, 1);
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->files.size(), 2u);
  EXPECT_EQ(result->files[0].dialect, "nccl+process");
  const Trace trace = gather(*result);
  ASSERT_EQ(trace.ranks.size(), 2u);
  for (const uint32_t rank : {0u, 1u}) {
    const Event* kernel =
        find(trace, kKernelName, EventKind::kCollective, rank);
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->bytes, 1024);
    EXPECT_EQ(kernel->sequence, 3);
    EXPECT_EQ(kernel->start_ns, 2000);
    const CollectiveInfo& info =
        trace.collectives[static_cast<size_t>(kernel->detail)];
    const CollectiveInfo expected{.kind = CollectiveKind::kAllReduce,
                                  .communicator = "0xc",
                                  .type = PrimitiveType::kF32,
                                  .group = {0, 1},
                                  .group_size = 2,
                                  .input_elements = 256,
                                  .output_elements = 256};
    EXPECT_EQ(info, expected);
    EXPECT_EQ(trace.strings[static_cast<size_t>(kernel->attributes)],
              R"({"root":0,"algorithm":"RING","protocol":"LL","channels":2,)"
              R"("network_steps":1,"network_bytes":512,"network_ns":800})");
    const Event* call = find(trace, "AllReduce", EventKind::kHostOp, rank);
    ASSERT_NE(call, nullptr);
    EXPECT_EQ(stream_of(trace, *call).number, 100 + rank);
  }
  // No second event on the device for what has a kernel.
  EXPECT_EQ(std::count_if(trace.events.begin(), trace.events.end(),
                          [](const Event& e) {
                            return e.kind == EventKind::kCollective;
                          }),
            2);
}

// Call 1 has its kernel, which began at 2000 where the timer showed 500,000:
// the offset is -498,000, so call 2's timer 600,000..600,500 is 102,000.. on
// the host's clock.
TEST(ProcessShard, DeviceTimersAreAlignedByKernels) {
  const Shards shards;
  Who who;
  ShardBuilder process = launched_kernel(who, 1000, 2000, 3000);
  who.source = "nccl";
  ShardBuilder nccl(header(who));
  nccl.add({.start_ns = 1110,
            .end_ns = 1120,
            .correlation = 1,
            .bytes = 8,
            .stream = 1,
            .kind = Kind::kCollective},
           "AllReduce", call_info(0))
      .add({.start_ns = 500'000,
            .end_ns = 500'900,
            .correlation = 1,
            .kind = Kind::kDeviceTimer})
      .add({.start_ns = 99'000'000,
            .end_ns = 99'000'010,
            .correlation = 2,
            .bytes = 8,
            .stream = 1,
            .kind = Kind::kCollective},
           "AllReduce", call_info(0))
      .add({.start_ns = 600'000,
            .end_ns = 600'400,
            .correlation = 2,
            .kind = Kind::kDeviceTimer})
      .add({.start_ns = 600'100,
            .end_ns = 600'500,
            .correlation = 2,
            .kind = Kind::kDeviceTimer})
      .add({.start_ns = -1,
            .end_ns = -1,
            .correlation = 2,
            .kind = Kind::kDeviceTimer});
  nccl.end();
  shards.add("p.shard", process.bytes());
  shards.add("n.shard", nccl.bytes());
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  const Event* timed = find(trace, "AllReduce", EventKind::kCollective);
  ASSERT_NE(timed, nullptr);
  EXPECT_EQ(timed->start_ns, 102'000);
  EXPECT_EQ(timed->end_ns, 102'500);
  EXPECT_EQ(stream_of(trace, *timed).name, "communication");
  EXPECT_NE(missing_of(*result).find("by the kernels that CUPTI recorded"),
            std::string::npos);
}

// Without kernels the host's sight of ends bounds the clock: ends 1,000 and
// 2,100 were seen at 51,000 and 52,060, so the timer is behind by at most
// 49,960; the calls began at 50,000 and 51,000 and the timer's starts 500 and
// 1,600: by at least 49,500. It is taken as 49,960, sure to 0.46 us.
TEST(ProcessShard, DeviceTimersAloneAreBoundedByTheHost) {
  ShardBuilder nccl(header({.source = "nccl"}));
  for (int64_t i = 0; i < 2; ++i) {
    nccl.add({.start_ns = 50'000 + i * 1000,
              .end_ns = 50'010 + i * 1000,
              .correlation = i,
              .bytes = 8,
              .stream = 1,
              .sequence = i,
              .kind = Kind::kCollective},
             "AllReduce", call_info(0))
        .add({.start_ns = 500 + i * 1100,
              .end_ns = 1000 + i * 1100,
              .correlation = i,
              .sequence = 51'000 + i * 1060,
              .kind = Kind::kDeviceTimer});
  }
  nccl.end();
  ReadInput read = read_input(process_shard_reader(), nccl.bytes());
  const Trace trace = read.gather();
  const Event* first = find(trace, "AllReduce", EventKind::kCollective);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->start_ns, 50'460);
  EXPECT_EQ(first->end_ns, 50'960);
  EXPECT_EQ(first->enqueue_ns, 50'000);
  ASSERT_EQ(read.report.missing.size(), 1u);
  EXPECT_NE(read.report.missing[0].find(
                "by the smallest delay between both, to within 1 us"),
            std::string::npos);
}

// What frameworks make of an all-to-all: a send to and a receive from each of
// two ranks, launched by one kernel at the group's end.
TEST(ProcessShard, GroupsOfMessagesToAllAreAnAllToAll) {
  const Shards shards;
  Who who;
  ShardBuilder process(header(who));
  process
      .add({.start_ns = 500,
            .end_ns = 600,
            .correlation = 5,
            .stream = 1,
            .kind = Kind::kCall},
           "cudaLaunchKernelExC")
      .add({.start_ns = 700,
            .end_ns = 800,
            .correlation = 5,
            .stream = 20,
            .device = 0,
            .kind = Kind::kKernel},
           "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");
  process.end();
  who.source = "nccl";
  ShardBuilder nccl(header(who));
  for (int64_t i = 0; i < 4; ++i) {
    const bool send = i % 2 == 0;
    nccl.add({.start_ns = 610 + i,
              .end_ns = 611 + i,
              .correlation = i,
              .graph_node = 90,
              .bytes = 100,
              .stream = 1,
              .kind = Kind::kCollective},
             send ? "Send" : "Recv",
             fmt::format(R"({{"op":"{}","communicator":"0xc","rank":0,)"
                         R"("ranks":2,"data_type":"ncclInt8","peer":{}}})",
                         send ? "Send" : "Recv", i / 2));
  }
  nccl.end();
  shards.add("p.shard", process.bytes());
  shards.add("n.shard", nccl.bytes());
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  const auto kernel = std::find_if(
      trace.events.begin(), trace.events.end(),
      [](const Event& e) { return e.kind == EventKind::kCollective; });
  ASSERT_NE(kernel, trace.events.end());
  const CollectiveInfo& info =
      trace.collectives[static_cast<size_t>(kernel->detail)];
  EXPECT_EQ(info.kind, CollectiveKind::kAllToAll);
  EXPECT_EQ(info.peer, -1);
  EXPECT_EQ(kernel->bytes, 200);
  EXPECT_EQ(trace.strings[static_cast<size_t>(kernel->attributes)],
            R"({"calls":4})");
}

// Two calls, but only the second one's kernel was recorded: it goes to the
// nearer call, whatever came first.
TEST(ProcessShard, AKernelBelongsToTheNearestCall) {
  const Shards shards;
  Who who;
  ShardBuilder process = launched_kernel(who, 2000, 3000, 3100);
  who.source = "nccl";
  ShardBuilder nccl(header(who));
  for (int64_t i = 0; i < 2; ++i) {
    nccl.add({.start_ns = 1000 + i * 1110,
              .end_ns = 1005 + i * 1110,
              .correlation = i,
              .bytes = 100 + i,
              .stream = 1,
              .kind = Kind::kCollective},
             "AllReduce", call_info(0));
  }
  nccl.end();
  shards.add("p.shard", process.bytes());
  shards.add("n.shard", nccl.bytes());
  auto result = shards.import();
  ASSERT_TRUE(result);
  const Trace trace = gather(*result);
  EXPECT_EQ(find(trace, kKernelName, EventKind::kCollective)->bytes, 101);
  EXPECT_NE(missing_of(*result).find("Of 1 NCCL calls only the host's part"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise

// NCCL's calls in replayed CUDA graphs, from shards of two ranks as CUPTI and
// NCCL's plugin or the interposer leave them.
//
// Each rank captures a graph on its own thread: an all-reduce of 1,024 bytes
// alone (node 1), then two of 1,024 and 2,048 bytes in one group, which NCCL
// runs as one kernel (node 2). Instantiation clones the nodes (11 and 12). Then
// it launches the graph five times, at 100 ms, 200 ms, … Rank 1's kernels
// start 300 ns after rank 0's, and all end together.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "replay/collectives/collectives.h"
#include "tests/data/formats/recorded_process.h"

namespace reprise {
namespace {

using Kind = RecordKind;

constexpr int64_t kFirstId = int64_t{1} << 40;
constexpr int64_t kReplays = 5, kLate = 300;
constexpr int64_t kReplay = int64_t{1} << 32;
constexpr const char* kName = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

/// When the node of the first call, and that of the group, were created.
constexpr int64_t kFirstNode = 10'000, kSecondNode = 40'000'000;

int64_t thread_of(int rank) { return 100 + rank; }
int64_t launch_of(int64_t replay) { return 100'000'000 * (replay + 1); }

std::string info_of(int rank, int64_t bytes) {
  return fmt::format(
      R"({{"op":"AllReduce","communicator":"0xc","rank":{},"ranks":2,)"
      R"("data_type":"ncclFloat32","count":{},"algorithm":"RING"}})",
      rank, bytes / 4);
}

struct LostKernel {
  int rank = -1;
  int64_t node = 0, replay = 0;
};

void add_cupti(const Shards& shards, int rank, const LostKernel& lost = {}) {
  ShardBuilder shard(header({.process = 100 + rank, .rank = rank, .ranks = 2}));
  for (const auto& [node, created_ns] :
       {std::pair(1, kFirstNode), std::pair(2, kSecondNode)}) {
    shard.add({.start_ns = created_ns,
               .end_ns = created_ns,
               .graph_node = node,
               .stream = thread_of(rank),
               .kind = Kind::kGraphNode});
    shard.add(
        {.graph_node = 10 + node, .sequence = node, .kind = Kind::kGraphNode});
  }
  for (int64_t k = 0; k < kReplays; ++k) {
    shard.add({.start_ns = launch_of(k),
               .end_ns = launch_of(k) + 100,
               .correlation = 50 + k,
               .stream = thread_of(rank),
               .kind = Kind::kGraphLaunch},
              "cudaGraphLaunch");
    for (const int64_t node : {11, 12}) {
      if (lost.rank == rank && lost.node == node && lost.replay == k) continue;
      const int64_t start_ns = launch_of(k) + (node == 11 ? 1000 : 7000);
      shard.add({.start_ns = start_ns + rank * kLate,
                 .end_ns = start_ns + 4000,
                 .correlation = 50 + k,
                 .graph_node = node,
                 .stream = 20,
                 .device = rank,
                 .kind = Kind::kKernel},
                kName);
    }
  }
  shard.end();
  shards.add(fmt::format("h0.{}.process.shard", 100 + rank), shard.bytes());
}

/// What NCCL's part of a rank recorded.
void add_nccl(const Shards& shards, int rank,
              const std::function<void(ShardBuilder&)>& fill) {
  ShardBuilder shard(header(
      {.process = 100 + rank, .rank = rank, .ranks = 2, .source = "nccl"}));
  fill(shard);
  shard.end();
  shards.add(fmt::format("h0.{}.nccl.shard", 100 + rank), shard.bytes());
}

struct Call {
  int64_t id, start_ns, bytes, sequence, group = -1, api = -1, thread = -1;
  uint16_t flags = 0;
};
void add_call(ShardBuilder& shard, int rank, const Call& call) {
  shard.add({.start_ns = call.start_ns,
             .end_ns = call.start_ns + 50,
             .correlation = kFirstId + call.id,
             .external_id = call.api < 0 ? -1 : kFirstId + call.api,
             .graph_node = call.group < 0 ? -1 : kFirstId + call.group,
             .bytes = call.bytes,
             .stream = call.thread < 0 ? thread_of(rank) : call.thread,
             .sequence = call.sequence,
             .kind = Kind::kCollective,
             .flags = call.flags},
            "AllReduce", info_of(rank, call.bytes));
}

/// The calls as the capture made them, after the launches that it captured.
void add_captured_calls(ShardBuilder& shard, int rank, uint16_t flags = 0) {
  add_call(shard, rank, {1, kFirstNode + 10, 1024, 7, 30, -1, -1, flags});
  add_call(shard, rank, {2, kSecondNode + 10, 1024, 8, 31, -1, -1, flags});
  add_call(shard, rank, {3, kSecondNode + 70, 2048, 9, 31, -1, -1, flags});
}

std::vector<const Event*> kernels_of(const Trace& trace, uint32_t rank) {
  std::vector<const Event*> kernels;
  for (const Event& event : trace.events) {
    if (event.rank == rank && event.kind == EventKind::kCollective) {
      kernels.push_back(&event);
    }
  }
  return kernels;
}

std::string attributes_of(const Trace& trace, const Event& event) {
  return trace.strings[static_cast<size_t>(event.attributes)];
}

/// Both nodes of all replays, with the bytes, sequence and communicator of the
/// calls that were captured.
void expect_attributed(const Trace& trace, uint32_t rank) {
  const auto kernels = kernels_of(trace, rank);
  ASSERT_EQ(kernels.size(), 2 * kReplays);
  for (int64_t k = 0; k < kReplays; ++k) {
    const Event& alone = *kernels[static_cast<size_t>(2 * k)];
    const Event& grouped = *kernels[static_cast<size_t>(2 * k + 1)];
    EXPECT_EQ(alone.graph_node, 11);
    EXPECT_EQ(alone.bytes, 1024);
    EXPECT_EQ(alone.sequence, (k + 1) * kReplay + 7);
    EXPECT_EQ(grouped.graph_node, 12);
    EXPECT_EQ(grouped.bytes, 1024 + 2048);
    EXPECT_EQ(grouped.sequence, (k + 1) * kReplay + 8);
    for (const Event* kernel : {&alone, &grouped}) {
      const CollectiveInfo& info =
          trace.collectives[static_cast<size_t>(kernel->detail)];
      EXPECT_EQ(info.kind, CollectiveKind::kAllReduce);
      EXPECT_EQ(info.communicator, "0xc");
      EXPECT_EQ(info.group, (std::vector<uint32_t>{0, 1}));
      EXPECT_EQ(info.type, PrimitiveType::kF32);
    }
  }
}

/// Rank 0 waits 300 ns for rank 1 each time; then 4,000 - 300 are left.
void expect_matched(const Trace& trace, size_t collectives) {
  const CollectiveMatching matching = match_collectives(trace);
  ASSERT_EQ(matching.collectives.size(), collectives);
  EXPECT_TRUE(matching.notes.empty()) << matching.notes.front();
  for (const MatchedCollective& collective : matching.collectives) {
    if (collective.members.size() != 2) continue;
    const Event& first = trace.events[collective.members[0].event];
    const Event& second = trace.events[collective.members[1].event];
    EXPECT_EQ(first.start_ns + kLate, second.start_ns);
    EXPECT_EQ(collective.bytes, first.bytes);
    const CollectiveTimes times = times_of(collective, trace);
    EXPECT_EQ(times.wait_ns, (std::vector<int64_t>{kLate, 0}));
    EXPECT_EQ(times.transfer_ns, 4000 - kLate);
  }
}

int64_t host_calls(const Trace& trace) {
  return std::count_if(
      trace.events.begin(), trace.events.end(),
      [](const Event& event) { return event.kind == EventKind::kHostOp; });
}

TEST(ProcessShardGraphs, ReplaysRanWhatTheCaptureCalled) {
  const Shards shards;
  for (const int rank : {0, 1}) {
    add_cupti(shards, rank);
    add_nccl(shards, rank, [&](ShardBuilder& nccl) {
      add_captured_calls(nccl, rank);
      // Of all replays together, which says nothing of one.
      nccl.add({.start_ns = launch_of(0),
                .end_ns = launch_of(4),
                .correlation = kFirstId + 1,
                .bytes = 99,
                .kind = Kind::kNetworkStep},
               "send");
      nccl.add({.start_ns = 900'000,
                .end_ns = 9'000'000,
                .correlation = kFirstId + 1,
                .kind = Kind::kDeviceTimer});
    });
  }
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  for (const uint32_t rank : {0u, 1u}) expect_attributed(trace, rank);
  EXPECT_EQ(attributes_of(trace, *kernels_of(trace, 0)[0]),
            R"({"algorithm":"RING"})");
  EXPECT_EQ(attributes_of(trace, *kernels_of(trace, 0)[1]),
            R"({"algorithm":"RING","calls":2})");
  expect_matched(trace, 2 * kReplays);
  EXPECT_EQ(host_calls(trace), 6);
  EXPECT_EQ(missing_of(*result), "");
}

// Calls before the capture, with kernels of their own, are told apart from it:
// sequences 5 and 6 of the same communicator.
TEST(ProcessShardGraphs, CallsWithoutAGraphKeepTheirSequences) {
  const Shards shards;
  for (const int rank : {0, 1}) {
    add_cupti(shards, rank);
    const Who who{.process = 100 + rank, .rank = rank, .ranks = 2};
    ShardBuilder eager(header(who));
    for (int64_t i = 0; i < 2; ++i) {
      eager
          .add({.start_ns = 1000 + i * 2000,
                .end_ns = 1100 + i * 2000,
                .correlation = 5 + i,
                .stream = thread_of(rank),
                .kind = Kind::kCall},
               "cudaLaunchKernelExC")
          .add({.start_ns = 1500 + i * 2000 + rank * kLate,
                .end_ns = 5500 + i * 2000,
                .correlation = 5 + i,
                .stream = 20,
                .device = rank,
                .kind = Kind::kKernel},
               kName);
    }
    eager.end();
    shards.add(fmt::format("h0.{}.process.0.shard", 100 + rank), eager.bytes());
    add_nccl(shards, rank, [&](ShardBuilder& nccl) {
      add_call(nccl, rank, {20, 1110, 512, 5});
      add_call(nccl, rank, {21, 3110, 512, 6});
      add_captured_calls(nccl, rank);
    });
  }
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  for (const uint32_t rank : {0u, 1u}) {
    const auto kernels = kernels_of(trace, rank);
    ASSERT_EQ(kernels.size(), 2 + 2 * kReplays);
    EXPECT_EQ(kernels[0]->sequence, 5);
    EXPECT_EQ(kernels[0]->bytes, 512);
    EXPECT_EQ(kernels[1]->sequence, 6);
    EXPECT_EQ(kernels[2]->sequence, kReplay + 7);
    EXPECT_EQ(kernels[2]->bytes, 1024);
  }
  expect_matched(trace, 2 + 2 * kReplays);
}

// Rank 1 lost the record of its third replay of node 11. The launch is known by
// the other node's, so that the fourth is no third.
TEST(ProcessShardGraphs, ALostKernelShiftsNoOther) {
  const Shards shards;
  for (const int rank : {0, 1}) {
    add_cupti(shards, rank, {.rank = 1, .node = 11, .replay = 2});
    add_nccl(shards, rank,
             [&](ShardBuilder& nccl) { add_captured_calls(nccl, rank); });
  }
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  EXPECT_EQ(kernels_of(trace, 1).size(), 2 * kReplays - 1);
  expect_matched(trace, 2 * kReplays);
}

// The window opened after the capture: the calls are there for the replays.
TEST(ProcessShardGraphs, CapturedCallsOutsideTheWindowAreNoEvents) {
  const Shards shards;
  for (const int rank : {0, 1}) {
    add_cupti(shards, rank);
    add_nccl(shards, rank, [&](ShardBuilder& nccl) {
      add_captured_calls(nccl, rank, kOutsideWindow);
      nccl.add({.start_ns = kSecondNode,
                .end_ns = kSecondNode + 200,
                .correlation = kFirstId + 31,
                .stream = thread_of(rank),
                .kind = Kind::kRange,
                .flags = kOutsideWindow},
               "NCCL group");
    });
  }
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  for (const uint32_t rank : {0u, 1u}) expect_attributed(trace, rank);
  EXPECT_EQ(host_calls(trace), 0);
  EXPECT_EQ(find(trace, "NCCL group", EventKind::kAnnotation), nullptr);
}

// The interposer sees the calls; NCCL launches those of a group when it ends,
// here 30 ms later.
TEST(ProcessShardGraphs, AGroupIsLaunchedAtItsEnd) {
  const Shards shards;
  for (const int rank : {0, 1}) {
    add_cupti(shards, rank);
    add_nccl(shards, rank, [&](ShardBuilder& nccl) {
      add_call(nccl, rank, {1, kFirstNode - 20, 1024, 7});
      constexpr int64_t kBefore = kSecondNode - 30'000'000;
      add_call(nccl, rank, {2, kBefore, 1024, 8, 31});
      add_call(nccl, rank, {3, kBefore + 60, 2048, 9, 31});
      nccl.add({.start_ns = kBefore - 10,
                .end_ns = kSecondNode + 10,
                .correlation = kFirstId + 31,
                .stream = thread_of(rank),
                .kind = Kind::kRange},
               "ncclGroup");
    });
  }
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  for (const uint32_t rank : {0u, 1u}) expect_attributed(trace, rank);
}

// With host work at each replay NCCL's plugin hears of the calls then, on a
// thread of the driver's. Version 5 of its table names the captured calls (40,
// 41, 42); of version 4 only the sequence comes back.
class ReplayedCalls : public ::testing::TestWithParam<bool> {};

TEST_P(ReplayedCalls, BelongToTheirReplays) {
  const bool names_capture = GetParam();
  constexpr int64_t kDriverThread = 999;
  const Shards shards;
  for (const int rank : {0, 1}) {
    add_cupti(shards, rank);
    add_nccl(shards, rank, [&](ShardBuilder& nccl) {
      for (int64_t api = 40; names_capture && api < 43; ++api) {
        const int64_t at = api == 40 ? kFirstNode : kSecondNode;
        nccl.add({.start_ns = at - 30 + api,
                  .end_ns = at + 30 + api,
                  .correlation = kFirstId + api,
                  .external_id = kFirstId + api,
                  .stream = thread_of(rank),
                  .kind = Kind::kRange},
                 "ncclAllReduce", R"({"op":"AllReduce","graph_captured":1})");
      }
      for (int64_t k = 0; k < kReplays; ++k) {
        const int64_t id = 1000 + 10 * k;
        const auto call = [&](int64_t number, int64_t bytes, int64_t sequence,
                              int64_t group) {
          add_call(nccl, rank,
                   {.id = id + number,
                    .start_ns = launch_of(k) + 200 + 100 * number,
                    .bytes = bytes,
                    .sequence = sequence,
                    .group = id + group,
                    .api = names_capture ? 40 + number : -1,
                    .thread = kDriverThread});
        };
        call(0, 1024, 7, 5);
        call(1, 1024, 8, 6);
        call(2, 2048, 9, 6);
        nccl.add({.start_ns = launch_of(k) + 1100,
                  .end_ns = launch_of(k) + 1200,
                  .correlation = kFirstId + id,
                  .bytes = 100 * (k + 1),
                  .kind = Kind::kNetworkStep},
                 "send");
        // The GPU's timer is 70 ms ahead of the host's clock.
        nccl.add({.start_ns = 70'000'000 + launch_of(k) + 1000 + rank * kLate,
                  .end_ns = 70'000'000 + launch_of(k) + 4900,
                  .correlation = kFirstId + id,
                  .kind = Kind::kDeviceTimer});
      }
    });
  }
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  for (const uint32_t rank : {0u, 1u}) expect_attributed(trace, rank);
  // The network's part is of the replay, not of the capture.
  const auto kernels = kernels_of(trace, 1);
  for (int64_t k = 0; k < kReplays; ++k) {
    EXPECT_EQ(attributes_of(trace, *kernels[static_cast<size_t>(2 * k)]),
              fmt::format(R"({{"algorithm":"RING","network_steps":1,)"
                          R"("network_bytes":{},"network_ns":100}})",
                          100 * (k + 1)));
  }
  expect_matched(trace, 2 * kReplays);
  EXPECT_NE(missing_of(*result).find("by the kernels that CUPTI recorded of "
                                     "the same calls, to within 1 us"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Versions, ReplayedCalls, ::testing::Bool(),
                         [](const auto& version) {
                           return std::string(version.param ? "V5" : "V4");
                         });

// Of two communicators a node could be of either; nothing is guessed.
TEST(ProcessShardGraphs, WhatIsNotSureStaysUnknown) {
  const Shards shards;
  add_cupti(shards, 0);
  add_nccl(shards, 0, [](ShardBuilder& nccl) {
    for (int64_t k = 0; k < kReplays; ++k) {
      for (const int64_t number : {0, 1}) {
        nccl.add({.start_ns = launch_of(k) + 200 + number * 100,
                  .end_ns = launch_of(k) + 250 + number * 100,
                  .correlation = kFirstId + 10 * k + number,
                  .bytes = 1024,
                  .stream = 999,
                  .sequence = 3,
                  .kind = Kind::kCollective},
                 "AllReduce",
                 fmt::format(R"({{"op":"AllReduce","communicator":"0x{}"}})",
                             number));
      }
    }
  });
  auto result = shards.import();
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = gather(*result);
  for (const Event* kernel : kernels_of(trace, 0)) {
    EXPECT_EQ(kernel->bytes, 0);
    EXPECT_EQ(kernel->sequence, -1);
  }
  EXPECT_NE(missing_of(*result).find("10 collectives ran in CUDA graphs of "
                                     "which NCCL's calls are not known"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise

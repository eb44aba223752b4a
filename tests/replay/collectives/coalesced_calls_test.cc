// Kernels that are launched behind the ranges which describe what they do.
#include "replay/collectives/coalesced_calls.h"

#include <gtest/gtest.h>

#include <string>

#include "replay/collectives/collectives.h"
#include "tests/replay/collectives/collective_text.h"

namespace reprise {
namespace {

/// A call that PyTorch describes, in its operator, and launches nothing for.
std::string described(int rank, int64_t at, const std::string& what) {
  return fmt::format(
      "{0} host t1 {1} {2} c10d::call\n"
      "{0} host t1 {3} {4} record_param_comms comm=g group=0,1,2 type=f32 "
      "{5}\n",
      rank, at, at + 8, at + 1, at + 7, what);
}

std::string sends(int rank, int64_t at, int peer) {
  return described(rank, at, fmt::format("op=send in=25 peer={}", peer));
}

std::string receives(int rank, int64_t at, int peer) {
  return described(rank, at, fmt::format("op=receive in=25 peer={}", peer));
}

/// The batch's end: its launch, in a range that tells nothing, and its kernel.
std::string kernel(int rank, int64_t at, int64_t start, int64_t end,
                   const std::string& name = "ncclDevKernel_SendRecv") {
  return fmt::format(
      "{0} range t1 {1} {2} nccl:coalesced\n"
      "{0} launch t1 {1} {2} cudaLaunchKernelExC corr={1}\n"
      "{0} collective d7 {3} {4} {5} corr={1}\n",
      rank, at, at + 5, start, end, name);
}

/// "kind bytes from sender: members" of every collective, as rank@start.
std::string summary(const std::string& text) {
  const Trace trace = collective_trace(text);
  std::string found;
  for (const MatchedCollective& one : match_collectives(trace).collectives) {
    found += fmt::format("{} {} from {}{}:", name_of(one.kind), one.bytes,
                         one.sender, one.both_ways ? " and back" : "");
    for (const CollectiveMember& member : one.members)
      found += fmt::format(" {}@{}", member.rank, member.start_ns);
    found += '\n';
  }
  return found;
}

/// A message of a group of NCCL's between two ranks, as Nsight sees PyTorch
/// make it: its range does not tell the size.
std::string grouped(int rank, int64_t at, bool is_send) {
  const int peer = 1 - rank;
  return fmt::format(
      "{0} range t1 {1} {2} nccl:{3}_{0}{4}{5} op={6}\n"
      "{0} host t1 {7} {8} {9} op={6} comm=c bytes=64 attr={{\"peer\":{5}}}\n",
      rank, at, at + 8, is_send ? "send" : "recv", is_send ? "->" : "<-", peer,
      is_send ? "send" : "receive", at + 2, at + 4,
      is_send ? "ncclSend" : "ncclRecv");
}

TEST(CoalescedCalls, AGroupOfNcclTellsItsMessages) {
  std::string text;
  for (const int rank : {0, 1}) {
    text += grouped(rank, 0, true) + grouped(rank, 10, false) +
            kernel(rank, 20, 100 + rank, 200);
  }
  EXPECT_EQ(summary(text), "send 64 from -1 and back: 0@100 1@101\n");
}

TEST(CoalescedCalls, LoneMessagesKeepTheOrderOfTheirDirection) {
  // Rank 0 sends twice before it receives, rank 1 sends in between.
  EXPECT_EQ(summary(grouped(0, 0, true) + kernel(0, 10, 100, 110) +
                    grouped(0, 20, true) + kernel(0, 30, 120, 220) +
                    grouped(0, 40, false) + kernel(0, 50, 230, 240) +
                    grouped(1, 0, false) + kernel(1, 10, 90, 110) +
                    grouped(1, 20, true) + kernel(1, 30, 150, 240) +
                    grouped(1, 40, false) + kernel(1, 50, 210, 220)),
            "send 64 from 0: 0@100 1@90\n"
            "send 64 from 0: 0@120 1@210\n"
            "send 64 from 1: 0@230 1@150\n");
}

TEST(CoalescedCalls, APeerIsCountedInTheCommunicatorThatItStandsBeside) {
  // Ranks 1 and 2 of PyTorch's group are 0 and 1 of the pair's communicator.
  EXPECT_EQ(summary(R"(
    1 range t1 0 20 nccl:send_1->2 op=send
    1 host t1 8 18 ncclGroupEnd comm=pair size=2 bytes=64 attr={"peer":1}
    1 launch t1 10 11 cudaLaunchKernelExC corr=1
    1 collective d7 30 40 ncclDevKernel_SendRecv corr=1
    2 range t1 0 20 nccl:recv_2<-1 op=receive
    2 host t1 8 18 ncclGroupEnd comm=pair size=2 attr={"peer":0}
    2 launch t1 10 11 cudaLaunchKernelExC corr=1
    2 collective d7 32 40 ncclDevKernel_SendRecv corr=1)"),
            "send 64 from 1: 1@30 2@32\n");
}

// One forward and one backward of three stages: the middle one exchanges with
// its neighbours, so that its sends and receives have no order of their own.
TEST(CoalescedCalls, ABatchOfMessagesMeetsThePeersBatch) {
  EXPECT_EQ(
      summary(sends(0, 0, 1) + kernel(0, 10, 100, 200) + receives(1, 0, 0) +
              kernel(1, 10, 50, 200) + sends(1, 20, 2) + receives(1, 30, 2) +
              kernel(1, 40, 300, 500) + receives(2, 0, 1) + sends(2, 10, 1) +
              kernel(2, 20, 400, 500) + sends(1, 50, 0) +
              kernel(1, 60, 600, 700) + receives(0, 20, 1) +
              kernel(0, 30, 250, 700)),
      "send 100 from 0: 0@100 1@50\n"
      "send 100 from 1: 0@250 1@600\n"
      "send 100 from -1 and back: 1@300 2@400\n");
}

// Two stages on ranks 1 and 2 of three, as ranges of PyTorch 2.1 name them.
TEST(CoalescedCalls, PeersThatRangesNameAreOfTheirGroup) {
  const auto exchange = [](int rank, int own, const std::string& known) {
    std::string text;
    for (const char* way : {"send_{}->{} op=send", "recv_{}<-{} op=receive"}) {
      text += fmt::format("{0} range t1 {1} {2} nccl:", rank, text.size(),
                          text.size() + 5) +
              fmt::format(fmt::runtime(way), own, 1 - own) + " in=25 type=f32" +
              known + "\n";
    }
    return text + kernel(rank, 900, 1000 + rank, 2000);
  };
  const std::string alone = "0 collective d7 5 6 ncclDevKernel_AllReduce\n";
  EXPECT_EQ(summary(alone + exchange(1, 0, " comm=p group=1,2") +
                    exchange(2, 1, " comm=p group=1,2")),
            "all-reduce 0 from -1: 0@5\n"
            "send 100 from -1 and back: 1@1001 2@1002\n");
  // Of a group that nothing describes 0 and 1 may be any ranks.
  const std::string unknown = alone + exchange(1, 0, "") + exchange(2, 1, "");
  EXPECT_EQ(summary(unknown),
            "all-reduce 0 from -1: 0@5\n 100 from -1: 1@1001 2@1002\n");
  EXPECT_EQ(match_collectives(collective_trace(unknown)).notes.front(),
            "2 messages name a peer in a group that nothing describes: it is "
            "not taken for a rank.");
}

// A ring's kernel has two peers: nobody's alone, but of its group's.
TEST(CoalescedCalls, ABatchWithSeveralPeersIsItsGroups) {
  std::string ring;
  for (const int rank : {0, 1, 2}) {
    ring += sends(rank, 0, (rank + 1) % 3) +
            receives(rank, 10, (rank + 2) % 3) +
            kernel(rank, 20, 100 + rank, 200);
  }
  EXPECT_EQ(summary(ring), "send 100 from -1: 0@100 1@101 2@102\n");
  const CollectiveMatching found = match_collectives(collective_trace(ring));
  ASSERT_EQ(found.collectives.front().exchange, 0);
  EXPECT_EQ(found.exchanges,
            (std::vector<std::vector<RankGroup>>{{{2}, {0}, {1}}}));
}

// A line's ends have one peer: who sends what nobody receives met another.
TEST(CoalescedCalls, BatchesThatDoNotAnswerEachOtherAreNoExchange) {
  std::string text;
  for (const int rank : {0, 1, 2}) {
    text += sends(rank, 0, (rank + 1) % 3) +
            receives(rank, 10, (rank + (rank == 0 ? 1 : 2)) % 3) +
            sends(rank, 20, (rank + 2) % 3) + kernel(rank, 30, 100 + rank, 200);
  }
  const CollectiveMatching found = match_collectives(collective_trace(text));
  EXPECT_EQ(found.collectives.front().exchange, -1);
  EXPECT_TRUE(found.exchanges.empty());
}

// The first micro-batches of three stages, which receive the next one in the
// kernel that sends the last: rank 1's second holds messages with both others.
std::string line_of_three() {
  return sends(0, 0, 1) + kernel(0, 10, 100, 120) + sends(0, 20, 1) +
         kernel(0, 30, 130, 210) + receives(1, 0, 0) + kernel(1, 10, 90, 120) +
         sends(1, 20, 2) + receives(1, 30, 0) + kernel(1, 40, 140, 310) +
         sends(1, 50, 2) + kernel(1, 60, 320, 410) + receives(2, 0, 1) +
         kernel(2, 10, 300, 310) + receives(2, 20, 1) + kernel(2, 30, 400, 410);
}

TEST(CoalescedCalls, KernelsMeetAlongTheirMessages) {
  EXPECT_EQ(summary(line_of_three()),
            "send 100 from 0: 0@100 1@90\n"
            "send 100 from -1: 0@130 1@140 2@300\n"
            "send 100 from 1: 1@320 2@400\n");
  const CollectiveMatching found =
      match_collectives(collective_trace(line_of_three()));
  EXPECT_EQ(found.exchanges,
            (std::vector<std::vector<RankGroup>>{{{}, {0}, {1}}}));
  EXPECT_EQ(found.collectives[1].group_size, 3);
  EXPECT_TRUE(found.notes.empty()) << found.notes.front();
}

// A recording without rank 2 says who is missing, one that lacks a kernel says
// nothing of the order of the rest.
TEST(CoalescedCalls, KernelsThatLackAnEndAreSaid) {
  std::string text = line_of_three();
  const CollectiveMatching two =
      match_collectives(collective_trace(text.substr(0, text.find("\n2 "))));
  ASSERT_EQ(two.collectives.size(), 3U);
  EXPECT_EQ(two.collectives[1].members.size(), 2U);
  EXPECT_EQ(two.collectives[1].missing, (std::vector<uint32_t>{2}));
  text += sends(2, 40, 0) + kernel(2, 50, 500, 510);
  EXPECT_TRUE(match_collectives(collective_trace(text)).exchanges.empty());
}

// What torch.distributed._coalescing_manager gathers is one kernel's.
TEST(CoalescedCalls, CoalescedGathersAreOneKernels) {
  std::string text;
  for (const int rank : {0, 1, 2}) {
    const std::string gather = "op=all-gather in=25 out=75";
    text += described(rank, 0, gather) + described(rank, 10, gather) +
            described(rank, 20, "op=barrier in=1") +
            kernel(rank, 30, 100, 200, "ncclDevKernel_AllGather_RING_LL");
  }
  EXPECT_EQ(summary(text), "all-gather 600 from -1: 0@100 1@100 2@100\n");
}

// XCCL ends the record of a call before it launches the call's kernels, within
// the operator: all are of its ranks, and one moves its bytes.
TEST(CoalescedCalls, KernelsLaunchedBehindARecordAreItsOperators) {
  std::string text;
  for (const int rank : {0, 1, 2, 3}) {
    text += fmt::format(
        "{0} host t1 0 100 c10d::allreduce_\n"
        "{0} host t1 1 7 record_param_comms comm={1} group={1} type=f32 "
        "op=all-reduce in=25 out=25 seq=4\n",
        rank, rank < 2 ? "0,1" : "2,3");
    int correlation = 0;
    for (const char* name :
         {"oneccl_invoke_barrier", "oneccl_reduce_base", "oneccl_barrier"}) {
      const int at = 10 + 20 * correlation++;
      text += fmt::format(
          "{0} launch t1 {1} {2} urEnqueueKernelLaunch corr={3}\n"
          "{0} collective d7 {4} {5} {6} corr={3}\n",
          rank, at, at + 5, correlation, 10 * at + rank, 10 * at + 100, name);
    }
  }
  EXPECT_EQ(summary(text),
            "barrier 0 from -1: 0@100 1@101\n"
            "barrier 0 from -1: 2@102 3@103\n"
            "all-reduce 100 from -1: 0@300 1@301\n"
            "all-reduce 100 from -1: 2@302 3@303\n"
            "barrier 0 from -1: 0@500 1@501\n"
            "barrier 0 from -1: 2@502 3@503\n");
}

// Its own range is around the launch of the second kernel.
TEST(CoalescedCalls, ADescribedKernelHasNoOthersCalls) {
  std::string text;
  for (const int rank : {0, 1}) {
    const char* op = rank == 0 ? "send" : "receive";
    text += fmt::format(
        "{0} host t1 20 40 record_param_comms comm=g group=0,1,2 type=f32 "
        "op={1} in=9 peer={2}\n"
        "{0} launch t1 25 30 cudaLaunchKernelExC corr=3\n"
        "{0} collective d7 300 400 ncclDevKernel_SendRecv corr=3\n",
        rank, op, 1 - rank);
    text += rank == 0 ? sends(0, 0, 1) : receives(1, 0, 0);
  }
  EXPECT_EQ(summary(text), "send 36 from 0: 0@300 1@300\n");
}

}  // namespace
}  // namespace reprise

#include "replay/collectives/collectives.h"

#include <gtest/gtest.h>

#include <string>

#include "replay/collectives/collective_name.h"
#include "tests/replay/collectives/collective_text.h"

namespace reprise {
namespace {

// "op bytes group>members" of every collective, members as rank@start.
std::string summary(const Trace& trace) {
  std::string text;
  for (const MatchedCollective& collective :
       match_collectives(trace).collectives) {
    text += fmt::format("{} {} [", name_of(collective.kind), collective.bytes);
    for (const uint32_t rank : collective.group)
      text += fmt::format("{} ", rank);
    text.back() = ']';
    for (const CollectiveMember& member : collective.members) {
      text += fmt::format(" {}@{}", member.rank,
                          trace.events[member.event].start_ns);
    }
    text += '\n';
  }
  return text;
}

TEST(CollectiveName, ALibraryOrAFrameworkGaveIt) {
  EXPECT_TRUE(names_collective("ncclDevKernel_Generic_1(…)"));
  EXPECT_FALSE(names_collective("void reduce_kernel<512, 1>(…)"));
  EXPECT_TRUE(describes_collective("record_param_comms"));
  EXPECT_FALSE(describes_collective("## alltoall_fwd_single ##"));
}

/// [event] Its place in the matching, or -1.
std::vector<int32_t> places(const CollectiveMatching& matching,
                            uint32_t events) {
  std::vector<int32_t> found;
  for (uint32_t event = 0; event < events; ++event)
    found.push_back(matching.place_of(event));
  return found;
}

// Of 2 ranks; Gloo's thread begins the second call when the first has ended,
// long after both operators.
std::string gathers(const char* first, const char* second) {
  std::string text;
  for (const int rank : {0, 1}) {
    text += fmt::format(
        "{0} host t1 10 12 c10d::{1}\n"
        "{0} host t1 14 16 c10d::{2}\n"
        "{0} collective t2 11 30 gloo:all_gather op=all-gather in=8 type=f32\n"
        "{0} collective t2 31 40 gloo:all_gather op=all-gather in=2 type=f32\n",
        rank, first, second);
  }
  return text;
}

TEST(MatchCollectives, GloosAllGatherCountsTheWhole) {
  // Of its operator's tensors, where one is the whole; else by the group: what
  // Gloo tells is 32 and 8 bytes, the part of one of two ranks.
  EXPECT_EQ(
      summary(collective_trace(gathers(
          R"(_allgather_base_ attr={"input_dims":[[16],[8]],"input_types":["float","float"]})",
          R"(allgather_ attr={"input_dims":[[],[[2]]],"input_types":["","TensorList"]})"))),
      "all-gather 64 [0 1] 0@11 1@11\n"
      "all-gather 16 [0 1] 0@31 1@31\n");
  // An operator without a call of Gloo's, of fewer elements, is passed over.
  EXPECT_EQ(
      summary(collective_trace(gathers(
          R"(_allgather_base_ attr={"input_dims":[[4],[2]],"input_types":["float","float"]})",
          "send"))),
      "all-gather 64 [0 1] 0@11 1@11\n"
      "all-gather 16 [0 1] 0@31 1@31\n");
}

TEST(MatchCollectives, GloosReduceScatterIsNoAllReduce) {
  // Each call has the operator before it, however many are under way.
  std::string text;
  for (const int rank : {0, 1}) {
    text += fmt::format(
        "{0} host t1 10 11 c10d::_reduce_scatter_base_\n"
        "{0} host t1 12 13 c10d::allreduce_\n"
        "{0} host t1 14 15 c10d::_reduce_scatter_base_\n"
        "{0} collective t2 20 30 gloo:all_reduce op=all-reduce in=8 type=f32\n"
        "{0} collective t3 21 40 gloo:all_reduce op=all-reduce in=4 type=f32\n"
        "{0} collective t2 31 40 gloo:all_reduce op=all-reduce in=2 type=f32\n"
        "{0} collective t2 50 60 gloo:all_reduce op=all-reduce in=1 type=f32\n",
        rank);
  }
  EXPECT_EQ(summary(collective_trace(text)),
            "reduce-scatter 32 [0 1] 0@20 1@20\n"
            "all-reduce 16 [0 1] 0@21 1@21\n"
            "reduce-scatter 8 [0 1] 0@31 1@31\n"
            "all-reduce 4 [0 1] 0@50 1@50\n");
}

/// A message of Gloo's with its operator, which names the peer.
std::string gloo_message(int rank, int at_ns, const char* what, int peer) {
  return fmt::format(
      "{0} host t1 {1} {2} c10d::{3} "
      R"(attr={{"concrete_inputs":["","","{4}","0"]}})"
      "\n{0} collective t1 {5} {6} gloo:{3} in=8 type=f32\n",
      rank, at_ns, at_ns + 2, what, peer, at_ns + 1, at_ns + 10);
}

TEST(MatchCollectives, GloosMessagesMeetWhomTheirOperatorsName) {
  // Around a ring of three, each first sends: by order alone the sends met.
  std::string text;
  for (const int rank : {0, 1, 2}) {
    text += gloo_message(rank, 10, "send", (rank + 1) % 3) +
            gloo_message(rank, 30 + rank, "recv_", (rank + 2) % 3);
  }
  const Trace trace = collective_trace(text);
  EXPECT_EQ(summary(trace),
            "send 32 [0 1] 0@11 1@32\n"
            "send 32 [1 2] 1@11 2@33\n"
            "send 32 [0 2] 0@31 2@11\n");
  // It is under way from its operator on.
  EXPECT_EQ(match_collectives(trace).collectives[0].members[1].start_ns, 31);
}

TEST(MatchCollectives, MessagesToNobodyKnownAreNoCollectiveOfAll) {
  // The same ring, recorded without the operators' arguments.
  std::string text;
  for (const int rank : {0, 1, 2}) {
    text += fmt::format(
        "{0} collective t1 {1} {2} gloo:send\n"
        "{0} collective t1 {3} {4} gloo:recv\n",
        rank, 10 + rank, 20 + rank, 30 + rank, 40 + rank);
  }
  const CollectiveMatching matching = match_collectives(collective_trace(text));
  EXPECT_TRUE(matching.collectives.empty());
  ASSERT_EQ(matching.notes.size(), 1u);
  EXPECT_NE(matching.notes[0].find("record_shapes=True"), std::string::npos);
}

// Of two workers of BytePS neither meets the other: servers are no ranks.
TEST(MatchCollectives, MessagesToServersMeetNobody) {
  const Trace trace = collective_trace(R"(
      0 collective t1 10 20 grad.PUSH op=send comm=byteps size=1
      0 collective t1 20 30 grad.PULL op=receive comm=byteps size=1
      1 collective t1 11 21 grad.PUSH op=send comm=byteps size=1
      1 collective t1 21 31 grad.PULL op=receive comm=byteps size=1)");
  EXPECT_EQ(summary(trace),
            "send 0 [0] 0@10\n"
            "send 0 [1] 1@11\n"
            "receive 0 [0] 0@20\n"
            "receive 0 [1] 1@21\n");
}

TEST(MatchCollectives, PeersInAGroupOfSomeRanksAreNotTakenForRanks) {
  // Ranks 1 and 2 are ranks 0 and 1 of a group: "to 1", "from 0". Rank 0 sends
  // nothing.
  const Trace trace = collective_trace("0 collective t1 5 6 gloo:barrier\n" +
                                       gloo_message(1, 10, "send", 1) +
                                       gloo_message(2, 10, "recv_", 0));
  EXPECT_EQ(match_collectives(trace).notes.front(),
            "2 messages name a peer in a group that nothing describes: it is "
            "not taken for a rank.");
}

TEST(MatchCollectives, MatchesACommunicatorByRecordedSequence) {
  // Rank 1's capture began one call later.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=all-reduce comm=a group=0,1 seq=4 in=2 out=2 type=f32
      0 collective d7 30 40 k op=all-reduce comm=a group=0,1 seq=5 in=4 out=4 type=f32
      1 collective d7 32 40 k op=all-reduce comm=a group=0,1 seq=5 in=4 out=4 type=f32)");
  EXPECT_EQ(summary(trace),
            "all-reduce 8 [0 1] 0@10\n"
            "all-reduce 16 [0 1] 0@30 1@32\n");
  const CollectiveMatching matching = match_collectives(trace);
  EXPECT_EQ(matching.collectives[0].missing, std::vector<uint32_t>{1});
  EXPECT_EQ(matching.collectives[1].sequence, 5);
  EXPECT_EQ(places(matching, 3), (std::vector<int32_t>{0, 1, 1}));
}

TEST(MatchCollectives, KeepsSequencesOfOperationsApart) {
  // Some libraries count each operation of a communicator on its own.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=all-reduce comm=a group=0,1 seq=0
      0 collective d7 30 40 k op=all-gather comm=a group=0,1 seq=0
      1 collective d7 11 20 k op=all-reduce comm=a group=0,1 seq=0
      1 collective d7 31 40 k op=all-gather comm=a group=0,1 seq=0)");
  EXPECT_EQ(summary(trace),
            "all-reduce 0 [0 1] 0@10 1@11\n"
            "all-gather 0 [0 1] 0@30 1@31\n");
}

TEST(MatchCollectives, TellsGroupsOfOneNameApart) {
  // Tensor parallelism on ranks (0, 1) and (2, 3), both called "tp".
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=all-reduce comm=tp group=0,1
      1 collective d7 11 20 k op=all-reduce comm=tp group=0,1
      2 collective d7 12 20 k op=all-reduce comm=tp group=2,3
      3 collective d7 13 20 k op=all-reduce comm=tp group=2,3)");
  EXPECT_EQ(summary(trace),
            "all-reduce 0 [0 1] 0@10 1@11\n"
            "all-reduce 0 [2 3] 2@12 3@13\n");
}

TEST(MatchCollectives, DoesNotGuessWhichRanksAreAGroupWithoutAName) {
  // Groups of two among three ranks, and one of all three.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=all-reduce size=2 in=4 out=4 type=f32
      1 collective d7 11 20 k op=all-reduce size=2 in=4 out=4 type=f32
      2 collective d7 12 20 k op=all-reduce size=2 in=4 out=4 type=f32
      0 collective d7 30 40 k op=all-reduce size=3 in=4 out=4 type=f32
      1 collective d7 31 40 k op=all-reduce size=3 in=4 out=4 type=f32
      2 collective d7 32 40 k op=all-reduce size=3 in=4 out=4 type=f32)");
  EXPECT_EQ(summary(trace), "all-reduce 16 [0 1 2] 0@30 1@31 2@32\n");
  EXPECT_EQ(match_collectives(trace).notes[0],
            "3 collectives without a communicator could not be matched: 3 "
            "ranks are in groups of 2, and nothing says which, so their order "
            "says nothing.");
}

TEST(MatchCollectives, GivesACommunicatorItsGroupWhereACallLacksIt) {
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=all-reduce comm=a group=0,1
      0 collective d7 30 40 k op=all-reduce comm=a
      1 collective d7 11 20 k op=all-reduce comm=a
      1 collective d7 31 40 k op=all-reduce comm=a)");
  EXPECT_EQ(summary(trace),
            "all-reduce 0 [0 1] 0@10 1@11\n"
            "all-reduce 0 [0 1] 0@30 1@31\n");
}

TEST(MatchCollectives, StatesMissingRanksAndGroupsOfOne) {
  const Trace trace = collective_trace(R"(
      5 collective d7 10 20 k op=all-reduce comm=a group=0,5,9
      5 collective d7 30 40 k op=all-reduce comm=b group=5)");
  const CollectiveMatching matching = match_collectives(trace);
  ASSERT_EQ(matching.collectives.size(), 2u);
  EXPECT_EQ(matching.collectives[0].missing, (std::vector<uint32_t>{0, 9}));
  EXPECT_EQ(matching.collectives[0].group_size, 3);
  EXPECT_TRUE(matching.collectives[1].missing.empty());
  EXPECT_EQ(matching.collectives[1].group_size, 1);
}

TEST(MatchCollectives, ReadsTheRangesThatALaunchLiesIn) {
  // As PyTorch 2.0 writes an all-to-all: the kernel names neither operation nor
  // size, its external id is the correlation. The uneven sizes do not matter.
  const Trace trace = collective_trace(R"(
      0 host t1 100 190 c10d::alltoall_base_ attr={"Input Dims": [[768], [3392], []], "Input type": ["int", "int", ""]}
      0 host t1 110 180 record_param_comms attr={"Input Dims": [[3392], []], "Input type": ["int", "Scalar"]}
      0 range t1 115 175 nccl:all_to_all attr={"Input Dims": [[3392]], "Input type": ["int"]}
      0 launch t1 120 130 cudaLaunchKernel corr=7
      0 collective d84 140 300 ncclKernel_SendRecv_RING corr=7 ext=7
      0 host t1 200 210 record_param_comms
      1 host t1 100 190 c10d::alltoall_base_ attr={"Input Dims": [[3392], [768], []], "Input type": ["int", "int", ""]}
      1 launch t1 120 130 cudaLaunchKernel corr=9
      1 collective d84 145 300 ncclKernel_SendRecv_RING corr=9 ext=9)");
  EXPECT_EQ(summary(trace), "all-to-all 13568 [0 1] 0@140 1@145\n");
}

TEST(MatchCollectives, TiesByExternalIdAndElseByOrder) {
  const std::string host = R"(
      0 host t1 100 110 record_param_comms ext=3 op=broadcast in=2 out=2 type=s64 comm=a group=0,1
      0 host t1 120 130 record_param_comms ext=4 op=broadcast in=8 out=8 type=s64 comm=a group=0,1
      0 host t1 140 150 record_param_comms ext=5 op=wait)";
  const std::string expected =
      "broadcast 16 [0 1] 0@200\nbroadcast 64 [0 1] 0@300\n";
  EXPECT_EQ(summary(collective_trace(host + R"(
      0 collective d7 200 210 ncclKernel_Broadcast corr=8 ext=3
      0 collective d7 300 310 ncclKernel_Broadcast corr=9 ext=4)")),
            expected);
  EXPECT_EQ(summary(collective_trace(host + R"(
      0 collective d7 200 210 ncclKernel_Broadcast corr=8 ext=8
      0 collective d7 300 310 ncclKernel_Broadcast corr=9 ext=9)")),
            expected);
  // Three kernels for two descriptions: none can be told.
  EXPECT_EQ(summary(collective_trace(host + R"(
      0 collective d7 200 210 ncclKernel_Broadcast corr=8 ext=8
      0 collective d7 220 230 ncclKernel_Broadcast corr=9 ext=9
      0 collective d7 300 310 ncclKernel_Broadcast corr=10 ext=10)")),
            "broadcast 0 [0] 0@200\nbroadcast 0 [0] 0@220\n"
            "broadcast 0 [0] 0@300\n");
}

TEST(MatchCollectives, CountsAHostCallOnceWhereTheDeviceRanIt) {
  const Trace trace = collective_trace(R"(
      0 collective t1 100 150 ncclAllReduce op=all-reduce in=2 out=2 type=f32
      0 launch t1 110 120 cudaLaunchKernel corr=7
      0 collective d7 140 300 ncclDevKernel_Generic_1 corr=7
      0 collective t1 400 450 gloo:all_reduce op=all-reduce)");
  EXPECT_EQ(summary(trace),
            "all-reduce 8 [0] 0@140\n"
            "all-reduce 0 [0] 0@400\n");
}

TEST(MatchCollectives, PairsSendsWithTheirReceives) {
  // Rank 1 receives twice from 0 and sends once to 2, which has no trace.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=send peer=1 comm=p in=2 out=2 type=f32
      0 collective d7 30 40 k op=send peer=1 comm=p in=4 out=4 type=f32
      1 collective d7 12 20 k op=receive peer=0 comm=p in=2 out=2 type=f32
      1 collective d7 22 25 k op=send peer=2 comm=p in=2 out=2 type=f32
      1 collective d7 33 40 k op=receive peer=0 comm=p in=4 out=4 type=f32)");
  EXPECT_EQ(summary(trace),
            "send 8 [0 1] 0@10 1@12\n"
            "send 8 [1 2] 1@22\n"
            "send 16 [0 1] 0@30 1@33\n");
}

TEST(MatchCollectives, PairsMessagesThatEachRankCountsByItself) {
  // The middle stage of a pipeline counts its messages to both neighbours.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=send peer=1 comm=p group=0,1,2 seq=1 in=2 out=2 type=f32
      0 collective d7 30 40 k op=send peer=1 comm=p group=0,1,2 seq=2 in=2 out=2 type=f32
      1 collective d7 12 20 k op=receive peer=0 comm=p group=0,1,2 seq=1 in=2 out=2 type=f32
      1 collective d7 22 25 k op=send peer=2 comm=p group=0,1,2 seq=2 in=2 out=2 type=f32
      1 collective d7 33 40 k op=receive peer=0 comm=p group=0,1,2 seq=3 in=2 out=2 type=f32
      2 collective d7 21 25 k op=receive peer=1 comm=p group=0,1,2 seq=1 in=2 out=2 type=f32)");
  EXPECT_EQ(summary(trace),
            "send 8 [0 1] 0@10 1@12\n"
            "send 8 [1 2] 1@22 2@21\n"
            "send 8 [0 1] 0@30 1@33\n");
}

/// A message's kernel, which names nothing, and the range that launched it.
std::string nccl_message(int rank, int at_ns, const std::string& range,
                         const std::string& known = "") {
  return fmt::format(
      "{0} range t1 {1} {2} nccl:{3} {4}\n"
      "{0} launch t1 {5} {6} cudaLaunchKernel corr={1}\n"
      "{0} collective d7 {6} {7} ncclKernel_SendRecv_RING corr={1}\n",
      rank, at_ns, at_ns + 4, range, known, at_ns + 1, at_ns + 2, at_ns + 9);
}

TEST(MatchCollectives, MessagesMeetWhomTheirRangesName) {
  // Around a ring of three, as PyTorch 2.1 writes it.
  std::string text;
  for (const int rank : {0, 1, 2}) {
    text += nccl_message(rank, 10,
                         fmt::format("send_{}->{}", rank, (rank + 1) % 3));
    text += nccl_message(rank, 30 + rank,
                         fmt::format("recv_{}<-{}", rank, (rank + 2) % 3));
  }
  EXPECT_EQ(summary(collective_trace(text)),
            "send 0 [0 1] 0@12 1@33\n"
            "send 0 [1 2] 1@12 2@34\n"
            "send 0 [0 2] 0@32 2@12\n");
  // In a group that is known they count its ranks.
  const std::string pair = "comm=p group=1,2 in=2 type=f32";
  EXPECT_EQ(summary(collective_trace(
                "0 collective t1 5 6 gloo:barrier\n" +
                nccl_message(1, 10, "send_0->1", "op=send " + pair) +
                nccl_message(2, 10, "recv_1<-0", "op=receive " + pair))),
            "barrier 0 [0] 0@5\n"
            "send 8 [1 2] 1@12 2@12\n");
}

/// A call of NCCL, as Nsight's NVTX tells it, and its kernel.
std::string nccl_call(int rank, int at_ns, const std::string& call) {
  return fmt::format(
      "{0} host t1 {1} {2} {4}\n"
      "{0} launch t1 {3} {3} cudaLaunchKernel corr={1}\n"
      "{0} collective d7 {2} {5} ncclDevKernel_SendRecv corr={1}\n",
      rank, at_ns, at_ns + 4, at_ns + 1, call, at_ns + 9);
}

// Three stages with a communicator for each link, whose ranks are 0 and 1.
std::string linked_stages(const std::string& size) {
  const std::string from = " bytes=64" + size + R"( attr={"peer":0})";
  const std::string to = " bytes=64" + size + R"( attr={"peer":1})";
  return nccl_call(0, 10, "ncclSend op=send comm=a" + to) +
         nccl_call(1, 10, "ncclRecv op=receive comm=a" + from) +
         nccl_call(1, 30, "ncclSend op=send comm=b" + to) +
         nccl_call(2, 30, "ncclRecv op=receive comm=b" + from);
}

TEST(MatchCollectives, CallsOfNcclTellPeersOfTheirCommunicator) {
  const char* const met = "send 64 [0 1] 0@14 1@14\nsend 64 [1 2] 1@34 2@34\n";
  EXPECT_EQ(summary(collective_trace(linked_stages(" size=2"))), met);
  // Where its making was not recorded, who calls it tells its ranks.
  EXPECT_EQ(summary(collective_trace(linked_stages(""))), met);
}

TEST(MatchCollectives, CallsOfNcclCountParts) {
  std::string text;
  for (const int rank : {0, 1, 2}) {
    text += nccl_call(rank, 10, "ncclAllGather op=all-gather comm=w bytes=8") +
            nccl_call(rank, 30, "ncclAllReduce op=all-reduce comm=w bytes=8");
  }
  EXPECT_EQ(summary(collective_trace(text)),
            "all-gather 24 [0 1 2] 0@14 1@14 2@14\n"
            "all-reduce 8 [0 1 2] 0@34 1@34 2@34\n");
}

// A pipeline of Gloo, whose calls do not say whom they meet.
TEST(MatchCollectives, PairsSendsOfTwoRanksWithTheOther) {
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=send in=2 out=2 type=f32
      0 collective d7 21 60 k op=receive in=2 out=2 type=f32
      1 collective d7 5 20 k op=receive in=2 out=2 type=f32
      1 collective d7 50 60 k op=send in=2 out=2 type=f32)");
  EXPECT_EQ(summary(trace),
            "send 8 [0 1] 0@10 1@5\n"
            "send 8 [0 1] 0@21 1@50\n");
}

TEST(MatchCollectives, MatchesKindsWhereCommunicatorsAreUnknownAndInterleave) {
  // Two communicators on two streams: each rank overlaps them differently.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 ncclKernel_AllReduce bytes=8
      0 collective d9 15 20 ncclKernel_AllGather bytes=64
      0 collective d7 30 40 ncclKernel_AllReduce bytes=8
      1 collective d9 11 20 ncclKernel_AllGather bytes=64
      1 collective d7 16 20 ncclKernel_AllReduce bytes=8
      1 collective d7 31 40 ncclKernel_AllReduce bytes=8)");
  EXPECT_EQ(summary(trace),
            "all-reduce 8 [0 1] 0@10 1@16\n"
            "all-gather 64 [0 1] 0@15 1@11\n"
            "all-reduce 8 [0 1] 0@30 1@31\n");
  ASSERT_EQ(match_collectives(trace).notes.size(), 1u);
  EXPECT_EQ(match_collectives(trace).notes[0],
            "3 collectives name no communicator: each is taken to span all "
            "ranks that recorded its like.");
}

TEST(MatchCollectives, MatchesOnlyWhatIsSureWhereCallsWereDropped) {
  // Rank 1 lost one of the two calls of 8 bytes: which one, nothing tells. The
  // call of 64 bytes is one of a kind on both.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 ncclKernel_AllReduce bytes=8
      0 collective d7 30 40 ncclKernel_AllReduce bytes=64
      0 collective d7 50 60 ncclKernel_AllReduce bytes=8
      1 collective d7 31 40 ncclKernel_AllReduce bytes=64
      1 collective d7 51 60 ncclKernel_AllReduce bytes=8)");
  EXPECT_EQ(summary(trace), "all-reduce 64 [0 1] 0@30 1@31\n");
  const CollectiveMatching matching = match_collectives(trace);
  EXPECT_EQ(places(matching, 5), (std::vector<int32_t>{-1, 0, -1, 0, -1}));
  EXPECT_EQ(matching.notes[0],
            "3 collectives without a communicator could not be matched: rank 1 "
            "recorded 2 and rank 0 3, so their order says nothing.");
}

TEST(MatchCollectives, MatchesStepsThatAgreeWhereTheWholeDoesNot) {
  // Rank 1's capture ended in step 2.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 k op=all-reduce comm=a group=0,1 step=1
      0 collective d7 30 40 k op=all-reduce comm=a group=0,1 step=1
      0 collective d7 50 60 k op=all-reduce comm=a group=0,1 step=2
      0 collective d7 70 80 k op=all-reduce comm=a group=0,1 step=2
      1 collective d7 11 20 k op=all-reduce comm=a group=0,1 step=1
      1 collective d7 31 40 k op=all-reduce comm=a group=0,1 step=1
      1 collective d7 51 60 k op=all-reduce comm=a group=0,1 step=2)");
  EXPECT_EQ(summary(trace),
            "all-reduce 0 [0 1] 0@10 1@11\n"
            "all-reduce 0 [0 1] 0@30 1@31\n");
}

TEST(MatchCollectives, APermutationOfTwoIsAMeeting) {
  const CollectiveMatching found = match_collectives(collective_trace(R"(
    0 collective d7 10 20 a op=collective-permute comm=x group(0,1) bytes=8
    1 collective d7 11 20 a op=collective-permute comm=x group(0,1) bytes=8
  )"));
  ASSERT_EQ(found.collectives.size(), 1U);
  EXPECT_TRUE(found.collectives[0].both_ways);
}

// Rank 1's scatter begins before its second gather: nothing tells that it was
// not launched so, but each stream has an order.
TEST(MatchCollectives, MatchesOperationsOfStreamsWhoseOrderIsNotTold) {
  EXPECT_EQ(summary(collective_trace(R"(
    0 collective d7 10 20 a op=all-gather comm=x group(0,1) out=8 type=f32
    0 collective d7 30 40 b op=all-gather comm=x group(0,1) out=4 type=f32
    0 collective d8 31 50 c op=reduce-scatter comm=x group(0,1) in=4 type=f32
    1 collective d7 11 20 a op=all-gather comm=x group(0,1) out=8 type=f32
    1 collective d8 32 50 c op=reduce-scatter comm=x group(0,1) in=4 type=f32
    1 collective d7 33 40 b op=all-gather comm=x group(0,1) out=4 type=f32
  )")),
            "all-gather 32 [0 1] 0@10 1@11\n"
            "all-gather 16 [0 1] 0@30 1@33\n"
            "reduce-scatter 16 [0 1] 0@31 1@32\n");
}

TEST(MatchCollectives, LeavesExchangesOfUnknownPartnersAlone) {
  // A pipeline's middle stage sends and receives: SendRecv kernels tell
  // neither.
  const Trace trace = collective_trace(R"(
      0 collective d7 10 20 ncclDevKernel_SendRecv
      0 collective d7 30 40 ncclKernel_AllReduce bytes=8
      1 collective d7 11 20 ncclDevKernel_SendRecv
      1 collective d7 21 25 ncclDevKernel_SendRecv
      1 collective d7 31 40 ncclKernel_AllReduce bytes=8
      2 collective d7 22 25 ncclDevKernel_SendRecv
      2 collective d7 32 40 ncclKernel_AllReduce bytes=8)");
  EXPECT_EQ(summary(trace), "all-reduce 8 [0 1 2] 0@30 1@31 2@32\n");
}

TEST(MatchCollectives, MatchesOurTrainersUnits) {
  Trace trace = collective_trace(R"(
      0 collective t1 10 20 all-reduce.4 step=1 bytes=8
      0 collective t1 30 40 b0 step=2 bytes=4
      1 collective t1 11 20 all-reduce.4 step=1 bytes=8
      1 collective t1 31 40 b0 step=2 bytes=4)");
  for (Event& event : trace.events) event.unit = event.step;
  EXPECT_EQ(summary(trace),
            "all-reduce 8 [0 1] 0@10 1@11\n"
            " 4 [0 1] 0@30 1@31\n");
  EXPECT_TRUE(match_collectives(trace).notes.empty());
}

TEST(MatchCollectives, IgnoresGroupsOfOtherNumbers) {
  const Trace trace = collective_trace(R"(
      4 collective d7 10 20 k op=all-reduce comm=a group=0,1
      5 collective d7 11 20 k op=all-reduce comm=a group=0,1)");
  EXPECT_EQ(summary(trace), "all-reduce 0 [4 5] 4@10 5@11\n");
}

TEST(TimesOf, SplitsWaitFromTransfer) {
  // Rank 1 arrives last, at 1500 of rank 0's clock (its own is 500 behind). The
  // transfer lasts until rank 0's end at 2500: 1000 ns for 8000 bytes on 2
  // ranks, bus factor 2 (n - 1) / n = 1, so 8 bytes a ns.
  Trace trace = collective_trace(R"(
      0 collective d7 1100 2500 k op=all-reduce comm=a group=0,1 in=2000 out=2000 type=f32
      1 collective d7 1000 1900 k op=all-reduce comm=a group=0,1 in=2000 out=2000 type=f32)");
  trace.ranks[1].clock_offset_ns = 500;
  const CollectiveTimes times =
      times_of(match_collectives(trace).collectives.at(0), trace);
  EXPECT_EQ(times.wait_ns, (std::vector<int64_t>{400, 0}));
  EXPECT_EQ(times.arrival_ns, 1500);
  EXPECT_EQ(times.transfer_ns, 1000);
  EXPECT_DOUBLE_EQ(times.bus_bandwidth_bytes_per_s, 8e9);
}

TEST(TimesOf, CountsTheGatheredWholeAsSize) {
  // Four ranks gather 1000 f32 each: 16000 bytes, factor 3/4, in 100 ns.
  const Trace trace = collective_trace(R"(
      0 collective d7 0 100 k op=all-gather comm=a group=0,1,2,3 in=1000 out=4000 type=f32
      1 collective d7 0 100 k op=all-gather comm=a group=0,1,2,3 in=1000 out=4000 type=f32)");
  const CollectiveTimes times =
      times_of(match_collectives(trace).collectives.at(0), trace);
  EXPECT_DOUBLE_EQ(times.bus_bandwidth_bytes_per_s, 12000 / 100e-9);
}

}  // namespace
}  // namespace reprise

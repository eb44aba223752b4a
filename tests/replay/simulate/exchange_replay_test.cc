// Kernels of messages with several peers, as a pipeline's stages launch them:
// each waits for its own messages' other ends alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "replay/simulate/decide.h"
#include "replay/simulate/rank_count.h"
#include "tests/replay/collectives/collective_text.h"
#include "tests/replay/simulate/replayed_text.h"

namespace reprise {
namespace {

/// A call that PyTorch describes, of a batch.
std::string stage_message(int rank, int at, const char* operation, int peer) {
  return fmt::format(
      "{0} host t1 {1} {2} record_param_comms comm=g group=0,1,2 type=f32 "
      "in=25 op={3} peer={4}\n",
      rank, at, at + 8, operation, peer);
}

/// The batch's kernel, from and to microseconds.
std::string stage_kernel(int rank, int start, int end) {
  return fmt::format(
      "{0} launch t1 90 95 cudaLaunchKernelExC corr=1\n"
      "{0} collective d7 {1}000 {2}000 ncclDevKernel_SendRecv corr=1\n",
      rank, start, end);
}

std::string stage_work(int rank, int start, int end) {
  return fmt::format("{} compute d7 {}000 {}000 gemm\n", rank, start, end);
}

// Rank 1 comes after 20 us and rank 2 after 100: each message takes 10 more.
// Rank 0 is done with rank 1's at 31, and computes for 200.
std::string three_stages() {
  return stage_message(0, 0, "send", 1) + stage_kernel(0, 1, 31) +
         stage_work(0, 31, 231) + stage_message(1, 0, "receive", 0) +
         stage_message(1, 10, "send", 2) + stage_work(1, 1, 21) +
         stage_kernel(1, 21, 111) + stage_message(2, 0, "receive", 1) +
         stage_work(2, 1, 101) + stage_kernel(2, 101, 111);
}

TEST(ExchangeReplay, AKernelWaitsForItsOwnMessages) {
  const Trace trace = collective_trace(three_stages());
  EXPECT_EQ(replayed(trace, {}).predicted_us(), 231);
  // Rank 1 comes at 11, rank 0 leaves at 21 and computes for 100.
  EXPECT_EQ(replayed(trace, {"device=0.5x"}).predicted_us(), 121);
  // At twice the time rank 1 comes at 41 and rank 2 at 201.
  EXPECT_EQ(replayed(trace, {"device=2x"}).predicted_us(), 451);
  EXPECT_EQ(replayed(trace, {"device=2x", "op:gemm=0.5x"}).predicted_us(), 231);
}

// Stages alone: of a job of more ranks they tell nothing.
TEST(ExchangeReplay, MoreRanksAreNoLongerPipeline) {
  Replayed found = replayed(collective_trace(three_stages()), {});
  const Status grown = change_rank_count(6, found.graph);
  ASSERT_FALSE(grown);
  EXPECT_NE(grown.error().message.find("messages alone"), std::string::npos);
}

TEST(ExchangeReplay, DecidesAsItEvaluates) {
  const Replayed found = replayed(collective_trace(three_stages()), {});
  ASSERT_EQ(found.graph.partners.size(), 4U);
  const GraphTimes decided = decide(found.graph),
                   evaluated = evaluate(found.graph);
  EXPECT_EQ(decided.start_ns, evaluated.start_ns);
  EXPECT_EQ(decided.end_ns, evaluated.end_ns);
}

}  // namespace
}  // namespace reprise

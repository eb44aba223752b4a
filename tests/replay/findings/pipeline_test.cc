// The stages of a pipeline wait for each other: that is the pipeline's bubble,
// no late rank, and no communication that could run beside something.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "replay/clocks/aligned_trace.h"
#include "replay/findings/findings.h"
#include "replay/simulate/trace_replay.h"
#include "tests/replay/collectives/collective_text.h"
#include "tests/replay/findings/injected_step.h"
#include "tests/replay/graph/trace_text.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

constexpr int64_t kForward = 400 * kUs, kBackward = 800 * kUs;
constexpr int kBatches = 4;

// All micro-batches forward, then all backward; of two stages the second one
// waits kForward before, the first one kBackward between its two halves and
// kForward for the second stage's last forward.
void pipeline(InjectedStep& step, int64_t transfer_ns) {
  for (int batch = 0; batch < kBatches; ++batch) {
    step.kernel_on(0, "gemm", kForward);
    step.send(0, 1, 50'000'000, transfer_ns);
    step.kernel_on(1, "gemm", kForward);
  }
  for (int batch = 0; batch < kBatches; ++batch) {
    step.kernel_on(1, "gemm_backward", kBackward);
    step.send(1, 0, 50'000'000, transfer_ns);
    step.kernel_on(0, "gemm_backward", kBackward);
  }
}

TEST(Pipeline, TheBubbleIsFoundAndNobodyIsLate) {
  InjectedStep step(2);
  pipeline(step, 10 * kUs);
  const AlignedTrace recorded = AlignedTrace::as_recorded(step.trace());
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const Straggler& one : analysis->stragglers) EXPECT_EQ(one.last, 0);
  const Findings findings = find_findings(recorded.by_rank(), *analysis);
  ASSERT_FALSE(findings.list.empty());
  EXPECT_EQ(findings.list[0].kind, "pipeline-bubble");
  // Of each stage's 4 (400 + 800) us and 8 transfers; launches of a few us.
  constexpr int64_t kBubble = kForward + kBackward;
  EXPECT_NEAR(static_cast<double>(findings.list[0].gain_ns),
              static_cast<double>(kBubble), 0.05 * kBubble);
}

// BytePS's workers send to servers and wait for what these answer.
TEST(Pipeline, WorkersAndTheirServersAreNone) {
  InjectedStep step(2);
  pipeline(step, 2 * kMs);
  Trace trace = step.trace();
  for (CollectiveInfo& one : trace.collectives) one.communicator = "byteps";
  const AlignedTrace recorded = AlignedTrace::as_recorded(std::move(trace));
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  const Findings findings = find_findings(recorded.by_rank(), *analysis);
  bool bound = false;
  for (const Finding& one : findings.list) {
    EXPECT_NE(one.kind, "pipeline-bubble");
    EXPECT_NE(one.kind, "unequal-stages");
    EXPECT_EQ(one.action.find("micro-batch computes"), std::string::npos);
    bound |= one.kind == "communication-bound";
  }
  EXPECT_TRUE(bound);
}

TEST(Pipeline, IdealOverlapHidesTransfersAndNotTheBubble) {
  InjectedStep step(2), at_once(2);
  pipeline(step, 100 * kUs);
  pipeline(at_once, 0);
  const AlignedTrace recorded = AlignedTrace::as_recorded(step.trace());
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  const auto what_if = parse_what_if("overlap=ideal");
  ASSERT_TRUE(what_if);
  const auto replayed =
      replay_trace(recorded.trace(), *analysis->graph, {&*what_if, 1});
  ASSERT_TRUE(replayed) << replayed.error().message;
  const auto truth = static_cast<double>(at_once.span_ns());
  EXPECT_NEAR(static_cast<double>(replayed->predicted_ns), truth, 0.01 * truth);
}

struct Message {
  const char* operation;
  int peer;
};

// What `rank` sends and receives in one kernel, from and to microseconds: its
// `number`th.
std::string batch(int rank, int number, int start, int end,
                  std::initializer_list<Message> messages) {
  int at = number * 100;
  std::string text;
  for (const Message& message : messages) {
    text += fmt::format(
        "{} host t1 {} {} record_param_comms comm=g group=0,1,2 type=f32 "
        "in=25 op={} peer={}\n",
        rank, at, at + 8, message.operation, message.peer);
    at += 10;
  }
  return text + fmt::format(
                    "{0} launch t1 {1} {2} cudaLaunchKernelExC corr={3}\n"
                    "{0} collective d7 {4}000 {5}000 ncclDevKernel_SendRecv "
                    "corr={3}\n",
                    rank, number * 100 + 90, number * 100 + 95, number + 1,
                    start, end);
}

std::string forward(int rank, int start) {
  return fmt::format("{} compute d7 {}000 {}000 gemm\n", rank, start,
                     start + 100);
}

// Two micro-batches forward through three stages; the middle one sends on the
// first and receives the second in one kernel, in which all meet. Rank 1 waits
// least: 100 us for the first and, all done, 100 for the last stage's end.
TEST(Pipeline, TheBubbleOfBatchedMessagesIsFound) {
  const std::string text =
      forward(0, 1) + batch(0, 0, 101, 111, {{"send", 1}}) + forward(0, 111) +
      batch(0, 1, 211, 221, {{"send", 1}}) +
      batch(1, 0, 1, 111, {{"receive", 0}}) + forward(1, 111) +
      batch(1, 1, 211, 221, {{"send", 2}, {"receive", 0}}) + forward(1, 221) +
      batch(1, 2, 321, 331, {{"send", 2}}) +
      batch(2, 0, 1, 221, {{"receive", 1}}) + forward(2, 221) +
      batch(2, 1, 321, 331, {{"receive", 1}}) + forward(2, 331);
  const AlignedTrace recorded =
      AlignedTrace::as_recorded(collective_trace(text));
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const MatchedCollective& one : analysis->matching.collectives) {
    EXPECT_EQ(name_of(one.kind), "send");
  }
  for (const Straggler& one : analysis->stragglers) EXPECT_EQ(one.last, 0);
  const Findings findings = find_findings(recorded.by_rank(), *analysis);
  ASSERT_FALSE(findings.list.empty());
  EXPECT_EQ(findings.list[0].kind, "pipeline-bubble");
  EXPECT_NEAR(static_cast<double>(findings.list[0].gain_ns), 200 * kUs,
              2 * kUs);
}

// Two ranks exchange what they have; one computes longer: the other waits for
// it, and it waits for nobody.
TEST(Pipeline, ARankThatOthersWaitForIsNoBubble) {
  InjectedStep step(2);
  for (int layer = 0; layer < 8; ++layer) {
    step.kernel_on(0, "gemm", 800 * kUs);
    step.kernel_on(1, "gemm", 400 * kUs);
    step.send(0, 1, 1'000'000, 10 * kUs);
    step.send(1, 0, 1'000'000, 10 * kUs);
  }
  const AlignedTrace recorded = AlignedTrace::as_recorded(step.trace());
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const Finding& finding :
       find_findings(recorded.by_rank(), *analysis).list) {
    EXPECT_NE(finding.kind, "pipeline-bubble");
  }
}

// Around a ring of three every rank computes, sends that on and awaits what
// comes; rank 0 computes most. There are no layers to move.
TEST(Pipeline, ARingIsNoPipeline) {
  constexpr std::array<int, 3> kWork = {900, 400, 400};
  std::array<int, 3> start = {0, 0, 0}, sent = {};
  std::string text;
  for (int round = 0; round < 8; ++round) {
    for (size_t rank = 0; rank < 3; ++rank) {
      sent[rank] = start[rank] + kWork[rank];
      text += fmt::format("h{} host-op aten::mm {}-{}\n", rank, start[rank],
                          sent[rank]);
    }
    for (size_t rank = 0; rank < 3; ++rank) {
      const size_t before = (rank + 2) % 3;
      start[rank] = std::max(sent[rank], sent[before]) + 200;
      text += fmt::format(
          "h{0} collective send {1}-{2} peer={3}\n"
          "h{0} collective receive {2}-{4} peer={5}\n",
          rank, sent[rank], sent[rank] + 2, (rank + 1) % 3, start[rank],
          before);
    }
  }
  const AlignedTrace recorded =
      AlignedTrace::as_recorded(parse_trace_text(text));
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->matching.collectives.size(), 24u);
  for (const Finding& finding :
       find_findings(recorded.by_rank(), *analysis).list) {
    EXPECT_EQ(finding.action.find("micro-batch"), std::string::npos)
        << finding.action;
    EXPECT_NE(finding.kind, "unequal-stages");
    EXPECT_NE(finding.kind, "pipeline-bubble");
  }
}

}  // namespace
}  // namespace reprise

#include "replay/collectives/call_steps.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "replay/collectives/collectives.h"
#include "tests/replay/collectives/collective_text.h"

namespace reprise {
namespace {

constexpr int64_t kStep = 1000;

/// Two ranks with two all-reduces of one size a step, launched in it and run a
/// step later; rank 1's recording began with step 1 and ended with `last`, and
/// its clock is ahead.
Trace cut_trace(int64_t ahead_ns, int32_t last = 2) {
  std::string text;
  std::vector<StepMark> steps;
  int corr = 0;
  for (const uint32_t rank : {0U, 1U}) {
    const int32_t end = rank == 0 ? 2 : last;
    for (int32_t step = static_cast<int32_t>(rank); step <= end; ++step) {
      const int64_t begin_ns = step * kStep + rank * ahead_ns;
      steps.push_back({.rank = rank,
                       .step = step,
                       .start_ns = begin_ns,
                       .end_ns = begin_ns + kStep});
      for (const int64_t at_ns : {begin_ns + 100, begin_ns + 200}) {
        text += fmt::format(
            "{0} launch t1 {1} {2} cudaLaunchKernel corr={3}\n"
            "{0} collective d7 {4} {5} ncclDevKernel_AllReduce op=all-reduce "
            "comm=g bytes=64 size=2 corr={3}\n",
            rank, at_ns, at_ns + 10, ++corr, at_ns + kStep, at_ns + kStep + 50);
      }
    }
  }
  Trace trace = collective_trace(text);
  trace.steps = steps;
  return trace;
}

/// Collectives of both ranks.
int64_t met(const Trace& trace) {
  int64_t count = 0;
  for (const MatchedCollective& one : match_collectives(trace).collectives)
    count += one.members.size() == 2;
  return count;
}

TEST(CallSteps, TellWhichCallsMeetWhereARecordingWasCut) {
  EXPECT_EQ(met(cut_trace(300)), 4);
}

// As many calls, but of steps 0 to 2 and 1 to 3.
TEST(CallSteps, TellThatRecordingsBeganWithDifferentSteps) {
  const Trace trace = cut_trace(300, 3);
  EXPECT_EQ(met(trace), 4);
  const CollectiveMatching matching = match_collectives(trace);
  ASSERT_EQ(matching.notes.size(), 1U);
  EXPECT_NE(matching.notes[0].find("4 collectives of communicator 'g'"),
            std::string::npos);
  EXPECT_NE(matching.notes[0].find("ranks recorded different steps"),
            std::string::npos);
}

// "train_step" without a number is counted from where each recording began.
TEST(CallSteps, AreNotTrustedWhereTheyBeginFarApart) {
  EXPECT_EQ(met(cut_trace(700)), 0);
}

}  // namespace
}  // namespace reprise

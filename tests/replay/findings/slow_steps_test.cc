// Steps that last longer than the others, and what they alone hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "replay/clocks/aligned_trace.h"
#include "replay/findings/finding_kinds.h"
#include "replay/findings/findings.h"
#include "tests/replay/graph/trace_text.h"

namespace reprise {
namespace {

const Finding* slow_steps(const Findings& findings) {
  for (const Finding& each : findings.list) {
    if (each.kind == kSlowSteps) return &each;
  }
  return nullptr;
}

// Eight steps of 10 ms on two ranks; two of them take 8 ms more on rank 0, in a
// range or in nothing that was recorded.
Findings with_slow_steps(bool named) {
  std::string text;
  for (int number = 0; number < 8; ++number) {
    const int begin = 20'000 * number;
    for (int rank = 0; rank < 2; ++rank) {
      const bool slow = number % 4 == 3 && rank == 0;
      const int end = begin + (slow ? 18'000 : 10'000);
      text += fmt::format("step {} {} {}-{}\n", rank, number, begin, end);
      text += fmt::format("h{} annotation train {}-{}\n", rank, begin, end);
      text += fmt::format("h{} host-op aten::mm {}-{}\n", rank, begin + 100,
                          begin + 9'900);
      if (!slow || !named) continue;
      text +=
          fmt::format("h0 annotation save {}-{}\n", begin + 9'950, end - 10);
    }
  }
  const AlignedTrace recorded =
      AlignedTrace::as_recorded(parse_trace_text(text));
  return find_all_findings(recorded, analyze(recorded).value());
}

TEST(Findings, SlowStepsByWhatTheyAloneHold) {
  const Findings with = with_slow_steps(true);
  const Findings without = with_slow_steps(false);
  ASSERT_NE(slow_steps(with), nullptr);
  ASSERT_NE(slow_steps(without), nullptr);
  const Finding& named = *slow_steps(with);
  EXPECT_EQ(named.what,
            "2 of 8 steps take 18 ms, the others 10 ms: save on rank 0 takes "
            "8.04 ms in these, 0 us in the others");
  EXPECT_EQ(named.where.ranks, std::vector<uint32_t>{0});
  EXPECT_NEAR(named.gain_share, 2.0 / 12, 0.001);  // Of the mean step.
  EXPECT_TRUE(named.action.starts_with("have it done less often"));
  const Finding& unnamed = *slow_steps(without);
  EXPECT_TRUE(unnamed.what.ends_with("nothing that was recorded says why"))
      << unnamed.what;
}

// Eight steps of four kernels of 2 ms. In two of them each takes 6 ms, in steps
// of 28 ms, for which the host waits in an operator; or eight of another name
// follow.
Findings with_slow_kernels(bool longer) {
  std::vector<std::string> names(12, "evaluate");
  for (size_t kernel = 0; kernel < 4; ++kernel)
    names[kernel] = kernel % 2 == 0 ? "forward" : "backward";
  std::string text;
  for (int number = 0; number < 8; ++number) {
    const int begin = 40'000 * number;
    const bool slow = number % 4 == 3;
    const int kernels = slow && !longer ? 12 : 4;
    const int kernel_us = slow && longer ? 6'000 : 2'000;
    const int end = begin + 1'000 + kernels * kernel_us + 3'000;
    text += fmt::format("step 0 {} {}-{}\n", number, begin, end);
    text += fmt::format("h0 host-op aten::item {}-{}\n", begin + 1'000,
                        end - 3'000);
    for (int kernel = 0; kernel < kernels; ++kernel) {
      const int start = begin + 1'000 + kernel * kernel_us;
      text += fmt::format(
          "h0 runtime cudaLaunchKernel {0}-{1} #{2}\n"
          "d0 compute {3} {4}-{5} #{2}\n",
          begin + 10 * kernel, begin + 10 * kernel + 5, 100 * number + kernel,
          names[static_cast<size_t>(kernel)], start, start + kernel_us);
    }
  }
  const AlignedTrace recorded =
      AlignedTrace::as_recorded(parse_trace_text(text));
  return find_all_findings(recorded, analyze(recorded).value());
}

TEST(Findings, SlowStepsOfLongerKernelsAskForClocks) {
  const Findings longer = with_slow_kernels(true);
  ASSERT_NE(slow_steps(longer), nullptr);
  EXPECT_EQ(slow_steps(longer)->what,
            "2 of 8 steps take 28 ms, the others 12 ms: kernels on rank 0 take "
            "3 times as long and run no more often (24 ms in these, 8 ms in "
            "the others, above all forward)");
  EXPECT_TRUE(
      slow_steps(longer)->action.starts_with("compare the device's clocks"))
      << slow_steps(longer)->action;
  const Findings more = with_slow_kernels(false);
  ASSERT_NE(slow_steps(more), nullptr);
  EXPECT_TRUE(slow_steps(more)->action.starts_with("have it done less often"))
      << slow_steps(more)->action;
}

// Eight steps of 10 ms. Behind the host's end of two of them, beside the next
// one, the device copies for 8 ms; these two may last 8 ms longer themselves.
Findings with_copies(bool costly) {
  std::string text;
  int begin = 0;
  for (int number = 0; number < 8; ++number) {
    const bool copies = number % 3 == 2;
    const int end = begin + (copies && costly ? 18'000 : 10'000);
    text += fmt::format(
        "step 0 {0} {1}-{2}\n"
        "h0 host-op aten::mm {1}-{3}\n"
        "h0 runtime cudaLaunchKernel {3}-{4} #{5}\n"
        "d0x compute gemm {4}-{6} #{5}\n",
        number, begin, end, begin + 1'000, begin + 1'010, 10 * number + 9,
        begin + 9'000);
    for (int copy = 0; copies && copy < 4; ++copy) {
      const int start = end + 2'000 * copy;
      text += fmt::format(
          "h0 runtime cudaMemcpyAsync {0}-{1} #{2}\n"
          "d0 copy save {3}-{4} #{2}\n",
          end - 100 + 10 * copy, end - 95 + 10 * copy, 10 * number + copy + 1,
          start, start + 2'000);
    }
    begin = end;
  }
  const AlignedTrace recorded =
      AlignedTrace::as_recorded(parse_trace_text(text));
  return find_all_findings(recorded, analyze(recorded).value());
}

TEST(Findings, SlowStepsHoldWhatTheyLaunched) {
  const Findings costly = with_copies(true);
  ASSERT_NE(slow_steps(costly), nullptr);
  EXPECT_TRUE(slow_steps(costly)->what.ends_with(
      "save on rank 0 takes 8 ms in these, 0 us in the others"))
      << slow_steps(costly)->what;
}

TEST(Findings, AStepIsNotSlowThatTheNextOneMakesUpFor) {
  const Findings free = with_copies(false);
  EXPECT_EQ(slow_steps(free), nullptr) << slow_steps(free)->what;
}

}  // namespace
}  // namespace reprise

// A rank that others wait for: which one, what makes it late, what it costs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "replay/clocks/aligned_trace.h"
#include "replay/findings/findings.h"
#include "tests/replay/findings/found_cause.h"
#include "tests/replay/graph/trace_text.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

TEST(Findings, LateRank) {
  expect_found("late-rank", 4, [](InjectedStep& step, bool cause) {
    if (cause) step.pace[2] = 1.4;
    compute(step, 50, 200 * kUs);
    step.collective(CollectiveKind::kAllReduce, 4'000'000, 50 * kUs);
    compute(step, 50, 200 * kUs);
    step.wait_for_communication();
    step.kernel("adam_gemm", 100 * kUs);
  });
  const Found found = find(
      4,
      [](InjectedStep& step, bool) {
        step.pace[2] = 1.4;
        compute(step, 50, 200 * kUs);
        step.collective(CollectiveKind::kAllReduce, 4'000'000, 50 * kUs);
        step.wait_for_communication();
        step.kernel("adam_gemm", 100 * kUs);
      },
      true);
  ASSERT_FALSE(found.findings.list.empty());
  EXPECT_EQ(found.findings.list[0].where.ranks, std::vector<uint32_t>{2});
}

TEST(Findings, RanksThatAreLateTogether) {
  const Program node = [](InjectedStep& step, bool cause) {
    if (cause) step.pace[2] = step.pace[3] = 1.4;
    compute(step, 50, 200 * kUs);
    step.collective(CollectiveKind::kAllReduce, 4'000'000, 50 * kUs);
    compute(step, 50, 200 * kUs);
    step.wait_for_communication();
    step.kernel("adam_gemm", 100 * kUs);
  };
  expect_found("late-rank", 4, node);
  const Findings found = find(4, node, true).findings;
  ASSERT_FALSE(found.list.empty());
  EXPECT_EQ(found.list[0].where.ranks, (std::vector<uint32_t>{2, 3}));
  EXPECT_TRUE(found.list[0].evidence[0].starts_with("rank 2's device work"))
      << found.list[0].evidence[0];
  EXPECT_TRUE(found.list[0].action.starts_with("compare their GPUs' clocks"))
      << found.list[0].action;
}

TEST(Findings, LateRankByOneLongOperator) {
  // All of its extra time goes, whatever share of its host's time that is; nor
  // is it called the host's launching, which is as fast as elsewhere.
  expect_found("late-rank", 8, [](InjectedStep& step, bool cause) {
    if (cause) step.host_on(3, "aten::tokenize", 6 * kMs);
    compute(step, 60, 300 * kUs);
    step.collective(CollectiveKind::kAllReduce, 4'000'000, 50 * kUs);
    step.wait_for_communication();
    step.kernel("adam_gemm", 500 * kUs);
  });
}

TEST(Findings, LateRankByOneKernelWithMoreToDo) {
  expect_found("late-rank", 8, [](InjectedStep& step, bool cause) {
    compute(step, 60, 300 * kUs);
    for (uint32_t rank = 0; rank < 8; ++rank)
      step.kernel_on(rank, "table", cause && rank == 1 ? 9 * kMs : 3 * kMs);
    step.collective(CollectiveKind::kAllReduce, 4'000'000, 50 * kUs);
    step.wait_for_communication();
    step.kernel("adam_gemm", 500 * kUs);
  });
}

TEST(Findings, LateRankOfDevicesAlone) {
  // Rank 2's host hands the second kernel over 3 ms late; no host was recorded.
  std::string text;
  for (int rank = 0; rank < 3; ++rank) {
    const int late = rank == 2 ? 3'000 : 0;
    text += fmt::format(
        "d{0} compute a 0-5000\n"
        "d{0} compute b {1}-{2}\n"
        "d{0} collective all-reduce {2}-13200 bytes=8\n",
        rank, 5'002 + late, 10'000 + late);
  }
  const AlignedTrace recorded =
      AlignedTrace::as_recorded(parse_trace_text(text));
  const Findings found =
      find_findings(recorded.by_rank(), analyze(recorded).value());
  ASSERT_FALSE(found.list.empty());
  const Finding& first = found.list[0];
  EXPECT_EQ(first.kind, "late-rank");
  EXPECT_EQ(first.gain_ns, 3 * kMs);
  EXPECT_EQ(first.evidence.back(),
            "its device waits for its host 3 ms, the median rank's 2 us");
  // Of a larger job, others may have come later still.
  Trace part = parse_trace_text(text);
  part.environment["world_size"] = "8";
  for (CollectiveInfo& one : part.collectives) one = {.kind = one.kind};
  const AlignedTrace some = AlignedTrace::as_recorded(std::move(part));
  for (const Finding& each :
       find_findings(some.by_rank(), analyze(some).value()).list)
    EXPECT_NE(each.kind, "late-rank") << each.what;
}

}  // namespace
}  // namespace reprise

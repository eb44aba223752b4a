// What holds for findings of any cause.
#include "replay/findings/findings.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "replay/clocks/aligned_trace.h"
#include "replay/findings/finding_kinds.h"
#include "tests/replay/findings/found_cause.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

TEST(Findings, CleanStepHasNone) {
  const Program clean = [](InjectedStep& step, bool) {
    compute(step, 100, 200 * kUs);
    step.collective(CollectiveKind::kAllReduce, 4'000'000, 50 * kUs);
    compute(step, 100, 200 * kUs);
    step.wait_for_communication();
    step.kernel("adam_gemm", 100 * kUs);
  };
  const Found found = find(2, clean, false);
  for (const Finding& finding : found.findings.list) {
    ADD_FAILURE() << finding.kind << ": " << finding.what;
  }
  EXPECT_EQ(found.findings.not_replayed, "");
  // 1 % of the window.
  EXPECT_EQ(found.findings.threshold_ns, found.span_ns / 100);
}

TEST(Findings, SumsOfAbsurdTimesStayAtTheirLimit) {
  // Twelve copies of 32 years each are more nanoseconds than 64 bits hold.
  const Found found = find(
      12,
      [](InjectedStep& step, bool) {
        step.copy(1'000'000'000'000'000'000, false);
      },
      true);
  const Finding* copies = found.of("serial-copies");
  ASSERT_NE(copies, nullptr);
  for (const std::string& evidence : copies->evidence)
    EXPECT_EQ(evidence.find("takes -"), std::string::npos) << evidence;
}

TEST(Findings, TimesHaveThreeDigits) {
  EXPECT_EQ(finding_time(999'400), "999 us");
  EXPECT_EQ(finding_time(999'600), "1 ms");
  EXPECT_EQ(finding_time(999'600'000), "1 s");
}

/// Found by tests/fuzz/command_fuzzer.py.
TEST(Findings, StepsOfAnyLengthAreCompared) {
  InjectedStep step(2);
  step.kernel("gemm", 100'000);
  Trace trace = step.trace();
  ASSERT_FALSE(trace.steps.empty());
  const StepMark mark = trace.steps[0];
  trace.steps.clear();
  for (int32_t number = 1; number <= 6; ++number) {
    trace.steps.push_back({mark.rank, number, mark.start_ns, mark.end_ns});
  }
  trace.steps[2].start_ns = std::numeric_limits<int64_t>::min();
  const AlignedTrace recorded = AlignedTrace::as_recorded(std::move(trace));
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  const Findings findings = find_all_findings(recorded, *analysis);
  for (const Finding& finding : findings.list) EXPECT_GE(finding.gain_ns, 0);
}

}  // namespace
}  // namespace reprise

// What a finding says to do fits what ran.
#include <gtest/gtest.h>

#include <functional>

#include "replay/clocks/aligned_trace.h"
#include "replay/findings/findings.h"
#include "tests/replay/findings/injected_step.h"

namespace reprise {
namespace {

constexpr int64_t kUs = 1'000;
constexpr int kLayers = 12;

Finding missing_overlap(
    const std::function<void(InjectedStep& step)>& program) {
  InjectedStep step(2);
  program(step);
  Trace trace = step.trace();
  for (std::string& name : trace.strings) {
    if (name == "c10d::collective") name = "aten::_foreach_copy_";
  }
  const AlignedTrace recorded = AlignedTrace::as_recorded(std::move(trace));
  const Result<Analysis> analysis = analyze(recorded);
  EXPECT_TRUE(analysis) << analysis.error().message;
  for (const Finding& finding :
       find_findings(recorded.by_rank(), *analysis).list) {
    if (finding.kind == "missing-overlap") return finding;
  }
  ADD_FAILURE() << "no missing overlap";
  return {};
}

void reduce(InjectedStep& step) {
  step.collective(CollectiveKind::kAllReduce, 16'000'000, 200 * kUs);
}

// Each layer needs its all-reduce at once, as of tensor parallelism: there are
// no buckets to choose.
TEST(Advice, AllReducesBetweenLayersAreNoBuckets) {
  const Finding layers = missing_overlap([](InjectedStep& step) {
    for (int layer = 0; layer < kLayers; ++layer) {
      step.kernel("gemm", 400 * kUs);
      reduce(step);
      step.wait_for_communication();
    }
    step.kernel("adam", 400 * kUs);
  });
  EXPECT_TRUE(layers.action.starts_with("split the batch")) << layers.action;
  EXPECT_EQ(layers.command, "");
}

TEST(Advice, AllReducesAfterTheBackwardPassAreBuckets) {
  const Finding buckets = missing_overlap([](InjectedStep& step) {
    for (int layer = 0; layer < kLayers; ++layer) {
      step.kernel("gemm", 400 * kUs);
    }
    for (int bucket = 0; bucket < kLayers; ++bucket) reduce(step);
    step.wait_for_communication();
    step.kernel("adam", 400 * kUs);
  });
  EXPECT_FALSE(buckets.action.starts_with("split the batch")) << buckets.action;
  EXPECT_EQ(buckets.command,
            "reprise optimize TRACE --only buckets -o plan.json");
}

}  // namespace
}  // namespace reprise

// Communication that nothing hides, and buckets that are too small.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "data/trace/framework.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/findings/findings.h"
#include "tests/replay/findings/found_cause.h"
#include "tests/replay/graph/trace_text.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

TEST(Findings, SmallBuckets) {
  // Each all-reduce pays 100 us beside 10 us a MB. Without: the best of one,
  // two, four or eight in place of 32.
  const auto program = [](InjectedStep& step, int buckets) {
    const int each = 32 / buckets;
    int64_t bytes = 0;
    for (int layer = 0; layer < 32; ++layer) {
      step.kernel("gemm", 50 * kUs);
      bytes += 1'000'000 * (1 + layer % 2);
      if (layer % each != each - 1) continue;
      step.collective(CollectiveKind::kAllReduce, bytes,
                      100 * kUs + bytes / 100);
      bytes = 0;
    }
    step.wait_for_communication();
    step.kernel("adam_gemm", 20 * kUs);
  };
  int64_t best_ns = std::numeric_limits<int64_t>::max();
  for (const int buckets : {1, 2, 4, 8}) {
    InjectedStep step(2);
    program(step, buckets);
    best_ns = std::min(best_ns, step.span_ns());
  }
  const Found found = find(
      2, [&](InjectedStep& step, bool) { program(step, 32); }, true);
  const Finding* buckets = found.of("small-buckets");
  ASSERT_NE(buckets, nullptr);
  const double truth = static_cast<double>(found.span_ns - best_ns);
  EXPECT_NEAR(static_cast<double>(buckets->gain_ns), truth, 0.05 * truth);
  const Found best = find(
      2, [&](InjectedStep& step, bool) { program(step, 4); }, true);
  EXPECT_EQ(best.of("small-buckets"), nullptr);
}

TEST(Findings, SmallBucketsOfOneSizeSayThatLatencyIsAssumed) {
  const auto program = [](int64_t bytes_of_others) {
    return [=](InjectedStep& step, bool) {
      for (int layer = 0; layer < 32; ++layer) {
        step.kernel("gemm", 20 * kUs);
        const int64_t bytes = layer % 2 == 0 ? 32'768 : bytes_of_others;
        step.collective(CollectiveKind::kAllReduce, bytes,
                        20 * kUs + bytes / 10);
      }
      step.wait_for_communication();
    };
  };
  const auto evidence = [&](int64_t bytes_of_others) {
    const Found found = find(2, program(bytes_of_others), true);
    const Finding* buckets = found.of("small-buckets");
    return buckets == nullptr ? std::string() : buckets->evidence[0];
  };
  EXPECT_TRUE(evidence(32'768).starts_with("all have one size"))
      << evidence(32'768);
  EXPECT_TRUE(evidence(65'536).starts_with("their latency takes"))
      << evidence(65'536);
}

TEST(Findings, MissingOverlap) {
  expect_found("missing-overlap", 2, [](InjectedStep& step, bool cause) {
    for (int layer = 0; layer < 20; ++layer) {
      step.kernel("gemm", 400 * kUs);
      step.collective(CollectiveKind::kAllReduce, 4'000'000, 200 * kUs, !cause);
    }
    compute(step, 5, 400 * kUs);
    step.wait_for_communication();
  });
  const Found found = find(
      2,
      [](InjectedStep& step, bool) {
        for (int layer = 0; layer < 20; ++layer) {
          step.kernel("gemm", 400 * kUs);
          step.collective(CollectiveKind::kAllReduce, 4'000'000, 200 * kUs,
                          false);
        }
      },
      true);
  ASSERT_NE(found.of("missing-overlap"), nullptr);
  EXPECT_NE(found.of("missing-overlap")->what.find("on a compute stream"),
            std::string::npos)
      << found.of("missing-overlap")->what;
}

// What FSDP copies into a buffer on the stream of its reduce-scatter makes that
// no compute stream.
TEST(Findings, CopiesBesideACollectiveMakeNoComputeStream) {
  std::string text;
  for (const char* rank : {"0", "1"}) {
    text += fmt::format(
        "h{0} runtime cudaLaunchKernel 0-5 #1\n"
        "h{0} runtime cudaLaunchKernel 6-10 #2\n"
        "h{0} runtime cudaLaunchKernel 11-15 #3\n"
        "h{0} runtime cudaLaunchKernel 16-20 #4\n"
        "d{0} compute backward 10-1010 #1\n"
        "d{0}x compute chunk_cat 1011-1031 #2\n"
        "d{0}x collective reduce-scatter 1032-1532 #3 bytes=80000000\n"
        "d{0} compute adam 1537-1637 #4\n",
        rank);
  }
  const AlignedTrace recorded =
      AlignedTrace::as_recorded(parse_trace_text(text));
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  const Findings findings = find_findings(recorded.by_rank(), *analysis);
  const auto overlap = std::find_if(
      findings.list.begin(), findings.list.end(),
      [](const Finding& one) { return one.kind == "missing-overlap"; });
  ASSERT_NE(overlap, findings.list.end());
  EXPECT_EQ(overlap->what.find("compute stream"), std::string::npos)
      << overlap->what;
}

// Two ranks without devices: the main thread multiplies for 10 ms, while Gloo's
// worker begins an all-reduce 1 ms before the end, and adds for 1 ms when that
// is over: 6 of its 7 ms are exposed; beside it the sum would end with it, 1 ms
// earlier. Or the main thread runs it itself.
Findings of_hosts(const std::string& reducing_thread, int begin_us,
                  Framework framework = Framework::kPyTorch,
                  const std::string& communicator = "") {
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    text += fmt::format(R"(
      h{0} host-op aten::mm 0-10000
      h{0} host-op aten::add 16000-17000
      h{0}{1} collective all-reduce {2}-16000 bytes=4000000)",
                        rank, reducing_thread, begin_us);
  }
  Trace trace = parse_trace_text(text);
  if (framework == Framework::kJax) trace.modules["jit_step"] = "HloModule m";
  if (framework == Framework::kUnknown) {
    for (std::string& name : trace.strings)
      if (name.starts_with("aten::")) name = "FW." + name.substr(6);
  }
  for (CollectiveInfo& one : trace.collectives) one.communicator = communicator;
  const AlignedTrace recorded = AlignedTrace::as_recorded(std::move(trace));
  return find_findings(recorded.by_rank(), analyze(recorded).value());
}

TEST(Findings, MissingOverlapOfRanksWithoutDevices) {
  const Findings waits = of_hosts("gloo", 9'000);
  ASSERT_FALSE(waits.list.empty());
  EXPECT_EQ(waits.list[0].kind, "missing-overlap");
  EXPECT_EQ(waits.list[0].gain_ns, 1 * kMs);
  EXPECT_NE(waits.list[0].what.find("86 % of communication runs beside no "
                                    "compute; mostly because what comes next"),
            std::string::npos)
      << waits.list[0].what;
  const Findings itself = of_hosts("", 10'000);
  ASSERT_FALSE(itself.list.empty());
  EXPECT_NE(itself.list[0].what.find("100 % of communication runs beside no "
                                     "compute; mostly because it runs on a "
                                     "thread that computes"),
            std::string::npos)
      << itself.list[0].what;
}

TEST(Findings, AdviceOnWhatXlaCompiledNamesNothingOfPyTorch) {
  const Findings torch = of_hosts("", 10'000);
  ASSERT_FALSE(torch.list.empty());
  EXPECT_NE(torch.list[0].action.find("async_op"), std::string::npos);
  EXPECT_EQ(torch.list[0].command,
            "reprise optimize TRACE --only buckets -o plan.json");
  const Findings xla = of_hosts("", 10'000, Framework::kJax);
  ASSERT_FALSE(xla.list.empty());
  EXPECT_EQ(xla.list[0].what, torch.list[0].what);
  EXPECT_NE(xla.list[0].action.find("within the jitted function"),
            std::string::npos)
      << xla.list[0].action;
  EXPECT_EQ(xla.list[0].command, "");
}

TEST(Findings, AdviceOnAnotherFrameworkNamesNothingOfPyTorch) {
  const Findings found = of_hosts("", 10'000, Framework::kUnknown);
  ASSERT_FALSE(found.list.empty());
  EXPECT_EQ(found.list[0].action, "leave it to another thread");
  EXPECT_EQ(found.list[0].command, "");
  // dPRO records Horovod's jobs, whose buckets are planned.
  const Findings dpro = of_hosts("", 10'000, Framework::kUnknown, "horovod");
  ASSERT_FALSE(dpro.list.empty());
  EXPECT_EQ(dpro.list[0].action, "leave it to another thread");
  EXPECT_EQ(dpro.list[0].command,
            "reprise optimize TRACE --only buckets -o plan.json");
}

}  // namespace
}  // namespace reprise

// What a finding says, and what to do, fits what ran.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "replay/clocks/aligned_trace.h"
#include "replay/findings/findings.h"
#include "tests/replay/collectives/collective_text.h"
#include "tests/replay/findings/injected_step.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

constexpr int kLayers = 12;

Finding missing_overlap_of(Trace trace) {
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

/// `device`: what a job of JAX ran on; "": it is PyTorch's.
Finding missing_overlap(const std::function<void(InjectedStep& step)>& program,
                        const std::string& device = "") {
  InjectedStep step(2);
  program(step);
  Trace trace = step.trace();
  for (std::string& name : trace.strings) {
    if (name == "c10d::collective") name = "aten::_foreach_copy_";
  }
  if (!device.empty()) trace.modules["jit_step"] = "HloModule m";
  for (RankInfo& rank : trace.ranks) rank.device = device;
  return missing_overlap_of(std::move(trace));
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

// Tokens go out and come back while another rank still computes: no bucket is
// smaller for it, and no parameter prefetched.
TEST(Advice, AllToAllsAreNotPrefetched) {
  const Finding experts = missing_overlap([](InjectedStep& step) {
    for (int layer = 0; layer < kLayers; ++layer) {
      step.kernel("gemm", 400 * kUs);
      for (const int64_t bytes : {16'000'000, 32'000'000})
        step.collective(CollectiveKind::kAllToAll, bytes, 200 * kUs);
      step.wait_for_communication();
    }
    step.kernel("adam", 400 * kUs);
  });
  EXPECT_TRUE(experts.action.starts_with("split the batch")) << experts.action;
}

// FSDP without prefetching and tensor parallelism with split sequences stand
// alike.
TEST(Advice, GathersBetweenLayersAreOfParametersOrActivations) {
  const Finding gathers = missing_overlap([](InjectedStep& step) {
    for (int layer = 0; layer < kLayers; ++layer) {
      step.kernel("gemm", 400 * kUs);
      step.collective(CollectiveKind::kAllGather, 16'000'000, 200 * kUs);
      step.wait_for_communication();
    }
    step.kernel("adam", 400 * kUs);
  });
  EXPECT_TRUE(gathers.action.starts_with("of parameters (FSDP)"))
      << gathers.action;
}

TEST(Advice, FlagsAreOfTheDevicesCompiler) {
  const auto program = [](InjectedStep& step) {
    step.kernel("gemm", 400 * kUs);
    reduce(step);
    step.wait_for_communication();
    step.kernel("adam", 400 * kUs);
  };
  EXPECT_TRUE(missing_overlap(program, "NVIDIA GPU:0")
                  .command.starts_with("XLA_FLAGS=--xla_gpu_"));
  EXPECT_TRUE(missing_overlap(program, "TPU v5e TPU:0")
                  .command.starts_with("LIBTPU_INIT_ARGS=--xla_tpu_"));
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

// Rank 0 computes nothing beside them, but it waits for a rank that does:
// these do not stand between layers.
TEST(Advice, AllReducesBesideComputeOfALateRankAreBuckets) {
  const Finding buckets = missing_overlap([](InjectedStep& step) {
    for (int bucket = 0; bucket < kLayers; ++bucket) {
      step.kernel("copy", 50 * kUs);
      reduce(step);
      step.kernel_on(1, "gemm", 100 * kUs);
      step.wait_for_communication();
    }
    step.kernel("adam", 400 * kUs);
  });
  EXPECT_EQ(buckets.where.ranks, std::vector<uint32_t>{0});
  EXPECT_FALSE(buckets.action.starts_with("split the batch")) << buckets.action;
  EXPECT_EQ(buckets.command,
            "reprise optimize TRACE --only buckets -o plan.json");
}

// Twelve transfers of 2 ms beside 4.8 ms of compute: they follow each other,
// and overlap changes nothing. Of bandwidth twice as high the same job says
// what it gains; of one size 6.6 us and two hops of 0.6 us are taken for
// latency, which stays.
TEST(Advice, CommunicationLongerThanComputeIsSaid) {
  const auto program = [](InjectedStep& step, int64_t transfer_ns) {
    for (int layer = 0; layer < kLayers; ++layer) {
      step.kernel("gemm", 400 * kUs);
      step.collective(CollectiveKind::kAllReduce, 160'000'000, transfer_ns);
    }
    step.wait_for_communication();
    step.kernel("adam", 100 * kUs);
  };
  InjectedStep step(2), twice(2);
  program(step, 2000 * kUs);
  program(twice, 1000 * kUs);
  const AlignedTrace recorded = AlignedTrace::as_recorded(step.trace());
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis) << analysis.error().message;
  const Findings findings = find_findings(recorded.by_rank(), *analysis);
  ASSERT_FALSE(findings.list.empty());
  EXPECT_EQ(findings.list[0].kind, "communication-bound");
  EXPECT_EQ(findings.list[0].what_if, "bandwidth=2x");
  const auto gain = static_cast<double>(step.span_ns() - twice.span_ns());
  EXPECT_NEAR(static_cast<double>(findings.list[0].gain_ns), gain, 0.02 * gain);

  InjectedStep fast(2);
  program(fast, 300 * kUs);
  const AlignedTrace hidden = AlignedTrace::as_recorded(fast.trace());
  const Result<Analysis> other = analyze(hidden);
  ASSERT_TRUE(other) << other.error().message;
  for (const Finding& one : find_findings(hidden.by_rank(), *other).list)
    EXPECT_NE(one.kind, "communication-bound");
}

// Ranks 1 and 2 receive before they send, in one kernel with what they send or
// not, and compute before and after.
TEST(Advice, KernelsOfSeveralMessagesAreOfAPipelineOrARing) {
  const auto action = [](bool is_ring) {
    std::string text;
    for (const int rank : {0, 1, 2}) {
      const auto message = [&](const char* operation, int peer) {
        text += fmt::format(
            "{0} host t1 {1} {2} record_param_comms comm=g group=0,1,2 "
            "type=f32 in=25 op={3} peer={4}\n",
            rank, text.size(), text.size() + 1, operation, peer);
      };
      if (rank < 2 || is_ring) message("send", (rank + 1) % 3);
      if (rank > 0 || is_ring) message("receive", (rank + 2) % 3);
      text += fmt::format(
          "{0} compute d7 5000 9000 gemm\n"
          "{0} launch t1 3000 3010 cudaLaunchKernelExC corr=1\n"
          "{0} collective d7 10000 40000 ncclDevKernel_SendRecv corr=1\n"
          "{0} compute d7 40000 90000 gemm\n",
          rank);
    }
    return missing_overlap_of(collective_trace(text)).action;
  };
  EXPECT_NE(action(false).find("micro-batch"), std::string::npos);
  EXPECT_NE(action(true).find("block that is there"), std::string::npos);
}

}  // namespace
}  // namespace reprise

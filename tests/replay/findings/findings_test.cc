// Steps with a known cause: it is found, ranked first, and what a replay
// without it gains is what the same step without it takes less. Without the
// cause there is no such finding.
#include "replay/findings/findings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "data/trace/framework.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/findings/finding_kinds.h"
#include "replay/simulate/trace_replay.h"
#include "tests/replay/findings/injected_step.h"
#include "tests/replay/graph/trace_text.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

/// A program with or without its cause.
using Program = std::function<void(InjectedStep& step, bool cause)>;

struct Found {
  Findings findings;
  int64_t span_ns = 0;
  /// Gain of the first finding by `reprise replay --what-if`; -1: no word.
  int64_t what_if_ns = -1;

  const Finding* of(std::string_view kind) const {
    for (const Finding& finding : findings.list) {
      if (finding.kind == kind) return &finding;
    }
    return nullptr;
  }
};

Found find(uint32_t ranks, const Program& program, bool cause) {
  InjectedStep step(ranks);
  program(step, cause);
  Found found;
  found.span_ns = step.span_ns();
  const AlignedTrace recorded = AlignedTrace::as_recorded(step.trace());
  const Result<Analysis> analysis = analyze(recorded);
  if (!analysis) {
    ADD_FAILURE() << analysis.error().message;
    return found;
  }
  found.findings = find_findings(recorded.by_rank(), *analysis);
  if (found.findings.list.empty()) return found;
  const std::string& text = found.findings.list[0].what_if;
  if (text.empty()) return found;
  const auto what_if = parse_what_if(text);
  if (!what_if) {
    ADD_FAILURE() << what_if.error().message;
    return found;
  }
  const auto with =
      replay_trace(recorded.trace(), *analysis->graph, {&*what_if, 1});
  if (with) {
    found.what_if_ns = found.findings.replayed_ns - with->predicted_ns;
  } else {
    ADD_FAILURE() << with.error().message;
  }
  return found;
}

/// The cause costs what the finding says, within `tolerance`: rules of the
/// made-up machine that the graph has to guess (latencies of launches).
void expect_found(std::string_view kind, uint32_t ranks, const Program& program,
                  double tolerance = 0.03) {
  const Found with = find(ranks, program, true);
  const Found without = find(ranks, program, false);
  const double truth = static_cast<double>(with.span_ns - without.span_ns);
  ASSERT_GT(truth, 0.02 * static_cast<double>(with.span_ns)) << kind;
  EXPECT_EQ(with.findings.replayed_ns, with.span_ns) << kind;
  ASSERT_FALSE(with.findings.list.empty()) << kind;
  const Finding& first = with.findings.list[0];
  EXPECT_EQ(first.kind, kind) << first.what;
  EXPECT_NEAR(static_cast<double>(first.gain_ns), truth, tolerance * truth)
      << first.what;
  EXPECT_FALSE(first.evidence.empty());
  EXPECT_FALSE(first.action.empty());
  if (with.what_if_ns >= 0) {
    EXPECT_EQ(with.what_if_ns, first.gain_ns) << kind;
  }
  const Finding* none = without.of(kind);
  EXPECT_EQ(none, nullptr) << (none == nullptr ? "" : none->what);
}

/// Compute-bound: the host runs ahead, one small all-reduce is hidden.
void compute(InjectedStep& step, int layers, int64_t kernel_ns) {
  for (int layer = 0; layer < layers; ++layer) {
    step.kernel("gemm", kernel_ns);
  }
}

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

TEST(Findings, DataLoading) {
  expect_found("data-loading", 1, [](InjectedStep& step, bool cause) {
    // As PyTorch writes it since 1.10; most of the step.
    if (cause) step.load_data(40 * kMs, EventKind::kAnnotation);
    compute(step, 50, 200 * kUs);
  });
  expect_found("data-loading", 1, [](InjectedStep& step, bool cause) {
    if (cause) step.load_data(5 * kMs);
    compute(step, 50, 200 * kUs);
  });
}

TEST(Findings, SerialCopies) {
  // Hidden, the copy takes no time of the step.
  expect_found("serial-copies", 1, [](InjectedStep& step, bool cause) {
    if (cause) step.copy(4 * kMs, true);
    compute(step, 50, 200 * kUs);
  });
}

TEST(Findings, CopiesThatTakeMostOfTheTime) {
  // The link is busy: what is gained is the copies themselves.
  expect_found("serial-copies", 1, [](InjectedStep& step, bool cause) {
    for (int layer = 0; layer < 20; ++layer) {
      if (cause) step.copy(1 * kMs, false);
      step.kernel("gemm", 300 * kUs);
    }
  });
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

TEST(Findings, BlockingCalls) {
  // After each wait the device is idle while the host launches anew; without
  // it the host has all the time.
  expect_found(
      "blocking-calls", 1,
      [](InjectedStep& step, bool cause) {
        step.operator_ns = 20 * kUs;
        for (int layer = 0; layer < 40; ++layer) {
          compute(step, 4, 50 * kUs);
          if (cause) step.synchronize("aten::item");
        }
        step.kernel("gemm", 100 * kUs);
      },
      0.05);
}

TEST(Findings, LaunchBound) {
  // Without the host: kernels back to back.
  const Program program = [](InjectedStep& step, bool cause) {
    step.operator_ns = cause ? 60 * kUs : 0;
    if (!cause) step.launch_ns = 0;
    compute(step, 200, 20 * kUs);
  };
  expect_found("launch-bound", 1, program);
}

TEST(Findings, NoGraphSavesALongOperatorOfTheHost) {
  const Found found = find(
      1,
      [](InjectedStep& step, bool) {
        step.host_on(0, "aten::tokenize", 5 * kMs);
        compute(step, 60, 200 * kUs);
      },
      true);
  EXPECT_EQ(found.of("launch-bound"), nullptr);
}

TEST(Findings, SetUpOfTheDevice) {
  // A first allocation takes 300 ms while nothing runs; a kernel before it, so
  // that it lies in the step.
  expect_found("set-up", 1, [](InjectedStep& step, bool cause) {
    compute(step, 10, 1 * kMs);
    step.synchronize("aten::item");
    if (cause) step.set_up(300 * kMs);
    compute(step, 40, 1 * kMs);
  });
}

TEST(Findings, SmallKernels) {
  // Rows of eight kernels of 4 us, of which 3 us are fixed (a kernel that does
  // nothing); one kernel would pay these once, and its dispatch.
  const auto row = [](InjectedStep& step, bool cause) {
    if (cause) {
      for (int i = 0; i < 40; ++i) step.kernel("elementwise", 4 * kUs);
    } else {
      step.kernel("elementwise", (40 * 1 + 3) * kUs);
    }
  };
  expect_found(
      "small-kernels", 1,
      [&](InjectedStep& step, bool cause) {
        step.operator_ns = step.launch_ns = 1 * kUs;
        for (int i = 0; i < 150; ++i) step.kernel("empty_gemm", 3 * kUs);
        for (int layer = 0; layer < 20; ++layer) {
          step.kernel("gemm", 300 * kUs);
          row(step, cause);
        }
      },
      0.05);
}

TEST(Findings, AKernelOfNoTimeIsTheClocks) {
  // Whole microseconds, as some tools write: short kernels last none.
  const Found found = find(
      1,
      [](InjectedStep& step, bool) {
        for (int i = 0; i < 100; ++i) step.kernel("elementwise", i % 2 * kUs);
      },
      true);
  const Finding* kernels = found.of("small-kernels");
  ASSERT_NE(kernels, nullptr);
  EXPECT_EQ(kernels->evidence.at(0).find("0 ns"), std::string::npos);
  EXPECT_NE(kernels->evidence.at(0).find("the recording's clock"),
            std::string::npos);
}

TEST(Findings, NoFusionOrGraphSavesDataLoadingAndSetUp) {
  // Rows of small kernels that the host hardly launches in time, with one of
  // these in between: they must not be promised.
  for (const bool data : {true, false}) {
    const int64_t cost_ns = data ? 8 * kMs : 300 * kMs;
    const Program program = [&](InjectedStep& step, bool cause) {
      for (int i = 0; i < 60; ++i) step.kernel("elementwise", 3 * kUs);
      if (cause && data) step.load_data(cost_ns);
      if (cause && !data) step.set_up(cost_ns);
      for (int i = 0; i < 60; ++i) step.kernel("elementwise", 3 * kUs);
    };
    const Found with = find(1, program, true),
                without = find(1, program, false);
    const std::string right = data ? "data-loading" : "set-up";
    ASSERT_FALSE(with.findings.list.empty());
    EXPECT_EQ(with.findings.list[0].kind, right);
    EXPECT_NEAR(static_cast<double>(with.findings.list[0].gain_ns),
                static_cast<double>(cost_ns), 1e5);
    for (const std::string kind : {"small-kernels", "launch-bound"}) {
      const Finding* one = with.of(kind);
      if (one == nullptr) continue;
      const Finding* other = without.of(kind);
      ASSERT_NE(other, nullptr) << kind;
      // The queue that ran empty meanwhile is filled anew: 0.2 ms.
      EXPECT_LE(one->gain_ns, other->gain_ns + cost_ns / 20) << right << kind;
    }
  }
}

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

TEST(Findings, TimesHaveThreeDigits) {
  EXPECT_EQ(finding_time(999'400), "999 us");
  EXPECT_EQ(finding_time(999'600), "1 ms");
  EXPECT_EQ(finding_time(999'600'000), "1 s");
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

TEST(Findings, CollectiveChoice) {
  // Every other all-reduce of one size is five times as slow by its protocol:
  // communication, hidden before, outlasts compute.
  expect_found("collective-choice", 2, [](InjectedStep& step, bool cause) {
    for (int layer = 0; layer < 20; ++layer) {
      const bool slow = cause && layer % 2 == 0;
      step.kernel("gemm", 400 * kUs);
      step.collective(CollectiveKind::kAllReduce, 40'000'000,
                      (slow ? 1000 : 200) * kUs, true,
                      slow
                          ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)"
                          : "ncclDevKernel_AllReduce_Sum_f32_RING_SIMPLE(int)");
    }
  });
}

/// Eight ranks in four groups of two, whose all-reduces nothing hides: one
/// group's take four times as long, so that all wait for it at the end of each
/// layer's work.
void groups_of_two(InjectedStep& step,
                   const std::vector<int64_t>& transfer_ns) {
  for (int layer = 0; layer < 12; ++layer) {
    compute(step, 2, 300 * kUs);
    step.grouped(2, 40'000'000, transfer_ns);
    if (layer % 4 == 3) {
      step.collective(CollectiveKind::kAllReduce, 400'000, 20 * kUs, false);
    }
  }
}

TEST(Findings, SlowLinkOfOneGroup) {
  expect_found("slow-link", 8, [](InjectedStep& step, bool cause) {
    groups_of_two(step,
                  {200 * kUs, 200 * kUs, (cause ? 800 : 200) * kUs, 200 * kUs});
  });
  const Found found = find(
      8,
      [](InjectedStep& step, bool) {
        groups_of_two(step, {200 * kUs, 210 * kUs, 800 * kUs, 190 * kUs});
      },
      true);
  const Finding* link = found.of("slow-link");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->what,
            "slow link between ranks 4 and 5: transfers take up to 4x as long "
            "as between their peers");
  EXPECT_EQ(link->where.ranks, (std::vector<uint32_t>{4, 5}));
  // 40 MB in 800 us and in 200 us; of two ranks, the bus carries all of it.
  EXPECT_EQ(link->evidence[0],
            "all-reduce of 40 MB: 50 GB/s in 12 transfers, 200 GB/s "
            "among 3 others");
}

TEST(Findings, SlowLinkOfOnePairOfStages) {
  // Four stages; what goes from rank 1 to rank 2 takes five times as long.
  expect_found("slow-link", 4, [](InjectedStep& step, bool cause) {
    for (int batch = 0; batch < 12; ++batch) {
      for (uint32_t stage = 0; stage < 4; ++stage) {
        step.kernel_on(stage, "gemm", 400 * kUs);
        if (stage < 3) {
          step.send(stage, 50'000'000,
                    (cause && stage == 1 ? 1000 : 200) * kUs);
        }
      }
    }
  });
}

TEST(Findings, SlowLinkOfOnePairOfAPermutation) {
  // Of eight ranks in a ring, what goes from 2 to 3 takes four times as long.
  expect_found("slow-link", 8, [](InjectedStep& step, bool cause) {
    std::vector<int64_t> transfer_ns(8, 200 * kUs);
    if (cause) transfer_ns[2] = transfer_ns[3] = 800 * kUs;
    for (int layer = 0; layer < 12; ++layer) {
      compute(step, 2, 300 * kUs);
      step.permute(40'000'000, transfer_ns);
    }
    step.collective(CollectiveKind::kAllReduce, 400'000, 20 * kUs, false);
  });
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

TEST(Findings, GroupsThatDifferNowAndThenHaveNoSlowLink) {
  // Every third transfer of one group is slow.
  const Found found = find(
      4,
      [](InjectedStep& step, bool) {
        for (int layer = 0; layer < 12; ++layer) {
          compute(step, 2, 300 * kUs);
          const bool slow = layer % 3 == 0;
          step.grouped(2, 40'000'000, {200 * kUs, (slow ? 900 : 210) * kUs});
        }
      },
      true);
  EXPECT_EQ(found.of("slow-link"), nullptr);
}

TEST(Findings, UnequalStages) {
  // Two stages, one micro batch after the other; balanced, each has the mean.
  expect_found(
      "unequal-stages", 2,
      [](InjectedStep& step, bool cause) {
        for (int batch = 0; batch < 16; ++batch) {
          step.kernel_on(0, "gemm", (cause ? 300 : 500) * kUs);
          step.send(0, 1'000'000, 10 * kUs);
          step.kernel_on(1, "gemm", (cause ? 700 : 500) * kUs);
        }
      },
      0.05);
}

TEST(Findings, UnequalExperts) {
  // The hot expert wanders, so that no rank has more in all.
  expect_found("unequal-experts", 4, [](InjectedStep& step, bool cause) {
    for (uint32_t layer = 0; layer < 8; ++layer) {
      compute(step, 2, 100 * kUs);
      step.collective(CollectiveKind::kAllToAll, 1'000'000, 20 * kUs, false);
      for (uint32_t rank = 0; rank < 4; ++rank) {
        const bool hot = rank == layer % 4;
        step.kernel_on(rank, "expert_gemm",
                       (cause ? hot ? 1000 : 200 : 400) * kUs);
      }
      step.collective(CollectiveKind::kAllToAll, 1'000'000, 20 * kUs, false);
    }
    compute(step, 2, 100 * kUs);
  });
}

}  // namespace
}  // namespace reprise

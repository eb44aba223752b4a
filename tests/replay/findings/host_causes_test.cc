// What the host does or lets its device wait for: data, copies, calls, launches
// and set-up.
#include <gtest/gtest.h>

#include <string>

#include "tests/replay/findings/found_cause.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

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

}  // namespace
}  // namespace reprise

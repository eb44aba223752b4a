#include "tests/replay/findings/found_cause.h"

#include <gtest/gtest.h>

#include <string>

#include "replay/clocks/aligned_trace.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {

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

void expect_found(std::string_view kind, uint32_t ranks, const Program& program,
                  double tolerance) {
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

void compute(InjectedStep& step, int layers, int64_t kernel_ns) {
  for (int layer = 0; layer < layers; ++layer) {
    step.kernel("gemm", kernel_ns);
  }
}

}  // namespace reprise

// Steps with a known cause: it is found, ranked first, and what a replay
// without it gains is what the same step without it takes less. Without the
// cause there is no such finding.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "replay/findings/findings.h"
#include "tests/replay/findings/injected_step.h"

namespace reprise {

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

Found find(uint32_t ranks, const Program& program, bool cause);

/// The cause costs what the finding says, within `tolerance`: rules of the
/// made-up machine that the graph has to guess (latencies of launches).
void expect_found(std::string_view kind, uint32_t ranks, const Program& program,
                  double tolerance = 0.03);

/// Compute-bound: the host runs ahead, one small all-reduce is hidden.
void compute(InjectedStep& step, int layers, int64_t kernel_ns);

}  // namespace reprise

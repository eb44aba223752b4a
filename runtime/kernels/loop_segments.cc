#include "runtime/kernels/loop_segments.h"

#include <algorithm>

#include "data/kernel/loop_runs.h"

namespace reprise {
namespace {

/// Each piece is one more copy of the loop's text: up to here whatever it says,
/// and more of them as long as all has so many statements.
constexpr size_t kMostSegments = 8, kMostStatements = 6000;
/// Even rows of two halves of four gain: without clamps they are copies.
constexpr int64_t kFewestIterations = kLanes / 2;
/// Of an outermost loop, whose ends the caller says, pieces of one iteration
/// each, as of windows that end at each element, are a loop each to the host
/// compiler: g++ took 8 s for 16 of them. Inside of rows they are no loops.
constexpr int64_t kFewestOfAPiece = 2;

bool is_outermost(const Kernel& kernel, const KernelStatement& loop) {
  return std::any_of(
      kernel.body.begin(), kernel.body.end(),
      [&](const KernelStatement& statement) { return &statement == &loop; });
}

}  // namespace

std::vector<int64_t> loop_segments(const Kernel& kernel,
                                   const KernelStatement& loop) {
  const int64_t extent = kernel.loops[static_cast<size_t>(loop.target)].extent;
  std::vector<int64_t> borders{0, extent};
  if (extent < kFewestIterations) return borders;
  std::vector<int32_t> used;
  for (const KernelStatement& inner : loop.body) {
    collect_expressions(kernel.indices, inner.index, used);
    if (inner.kind != KernelStatement::Kind::kLet) continue;
    const KernelValue& let = kernel.values[static_cast<size_t>(inner.value)];
    collect_expressions(kernel.indices, let.index, used);
  }
  const auto add = [&](int64_t border) {
    if (border > 0 && border < extent) borders.push_back(border);
  };
  for (const int32_t expression : used) {
    for (const IndexTerm& term : kernel.indices.at(expression).terms) {
      const IndexAtom& clamp = kernel.indices.atom(term.atom);
      if (clamp.kind != IndexAtom::Kind::kClamp) continue;
      const IndexExpression& clamped = kernel.indices.at(clamp.operand);
      if (clamped.terms.size() != 1 || clamped.terms[0].coefficient != 1)
        continue;
      const IndexAtom& variable = kernel.indices.atom(clamped.terms[0].atom);
      if (variable.kind != IndexAtom::Kind::kLoop ||
          variable.operand != loop.target)
        continue;
      add(clamp.low - clamped.constant);
      add(clamp.high - clamped.constant + 1);
    }
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  const size_t pieces = borders.size() - 1;
  const bool is_single = std::ssize(borders) - 1 > extent / kFewestOfAPiece &&
                         is_outermost(kernel, loop);
  if (pieces > kMostSegments &&
      (is_single || pieces * loop.body.size() > kMostStatements))
    return {0, extent};
  return borders;
}

}  // namespace reprise

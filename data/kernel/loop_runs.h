// The loops of a nest as its kernel runs them: adjacent loops that every index
// expression treats as one are one loop, a run, so that an elementwise kernel
// over f32[8,512,768] walks one range. So are short innermost ones of dear or
// many ops that only the stores treat as one: two iterations are no vector.
// Also carries index expressions over the nest's loops into ones over the
// kernel's.
#pragma once

#include <cstdint>
#include <vector>

#include "data/kernel/kernel.h"
#include "data/kernel/nest.h"

namespace reprise {

/// Adds an index expression and those inside of it, each once.
void collect_expressions(const IndexTable& indices, int32_t expression,
                         std::vector<int32_t>& found);

class LoopRuns {
 public:
  /// Appends the merged loops to the kernel. `expressions` are all that the
  /// nest evaluates, as `collect_expressions` finds them. Cost: expressions ×
  /// loops.
  LoopRuns(const Nest& nest, const std::vector<int32_t>& expressions,
           Kernel& kernel);

  size_t size() const { return runs_.size(); }
  /// How many of the outermost run over rows; the others run over columns.
  size_t rows() const { return rows_; }
  /// Loop of the kernel, outermost first.
  int32_t loop(size_t run) const { return loops_[run]; }
  int32_t innermost() const { return loops_.back(); }
  /// How many runs stand around what depends on these loops of the nest.
  size_t depth_of(uint64_t loops) const;
  /// The expression in the kernel's loops and values; `values` gives the value
  /// of each node.
  int32_t translate(int32_t expression, const std::vector<int32_t>& values);
  /// Row-major place of an iteration of the column runs.
  int32_t columns_position();

 private:
  bool mergeable(const NestSpace::Loop& outer, const NestSpace::Loop& inner,
                 const std::vector<int32_t>& expressions) const;
  void fold_short_runs();
  /// Whether the innermost loop of a run computes something dear, or much.
  bool is_heavy(const std::vector<int32_t>& run) const;
  int64_t extent_of(const std::vector<int32_t>& run) const;
  /// What one step of each loop of a run adds to an expression.
  std::vector<int64_t> strides_in(int32_t expression,
                                  const std::vector<int32_t>& run) const;
  /// Whether every store goes from element to element along a run.
  bool is_stored_in_order(const std::vector<int32_t>& run) const;
  bool independent(const std::vector<int32_t>& run) const;
  /// A loop's part of an expression, by its own stride: of adjacent ones whose
  /// strides fit, the innermost is the position of all and the others are 0.
  int32_t translate_loop(int32_t loop, int32_t expression);
  int32_t translate_atom(const IndexAtom& atom,
                         const std::vector<int32_t>& values);

  const Nest& nest_;
  Kernel& kernel_;
  std::vector<std::vector<int32_t>> runs_;  ///< Loops of the nest, outermost
                                            ///< first.
  std::vector<int32_t> run_of_;             ///< Loop of the nest -> run.
  std::vector<int32_t> loops_;              ///< Run -> loop of the kernel.
  size_t rows_ = 0;
};

}  // namespace reprise

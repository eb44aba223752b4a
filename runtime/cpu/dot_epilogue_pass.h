// What a dot's epilogue does to its product, in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"

namespace reprise {

struct DotMemory;

/// One pass over the result of a dot, bound to its memory: the steps of
/// `DotSpec`, rounded to f32 as the ops of the program are by any kernel.
class DotEpiloguePass {
 public:
  /// Requires: `accumulate` does not overlap `out`. Errors: kUnsupported for a
  /// type other than f32, and for a bias along columns that are not contiguous.
  static Result<DotEpiloguePass> make(const DotSpec& spec,
                                      const DotMemory& memory);

  void run() const;

 private:
  struct Piece;

  DotEpiloguePass() = default;

  /// The steps on one piece; `bias` and `accumulate` are those of its first
  /// element, or null.
  void finish(const Piece& piece, const float* bias,
              const float* accumulate) const;

  float alpha_ = 1;
  bool multiply_add_ = false;
  bool relu_ = false;
  float* out_ = nullptr;
  const float* bias_ = nullptr;
  const float* accumulate_ = nullptr;
  std::vector<int64_t> rows_;  ///< Where each contiguous run starts, elements.
  int64_t columns_ = 0;        ///< Elements in a run.
};

}  // namespace reprise

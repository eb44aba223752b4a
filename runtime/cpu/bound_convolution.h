// A convolution bound to its memory as a primitive of oneDNN's.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "runtime/cpu/convolution_parts.h"
#include "runtime/cpu/convolution_problem.h"

namespace reprise {

/// A convolution, or a part of one. One thread runs it at a time.
class BoundConvolution {
 public:
  /// Nothing where oneDNN has no primitive for it, or only one that it runs for
  /// want of a better. `g` and `filter` are those of the whole; a part of a
  /// filter is not turned. Throws what oneDNN throws.
  static std::optional<BoundConvolution> bind(const ConvolutionProblem& problem,
                                              const ConvolutionMemory& memory,
                                              const ConvolutionGeometry& g,
                                              const Shape& filter);
  ~BoundConvolution();
  BoundConvolution(BoundConvolution&&) noexcept;
  BoundConvolution& operator=(BoundConvolution&&) noexcept;

  /// For copies in oneDNN's layouts, and its own.
  size_t scratch_bytes() const;
  /// `scratch`: so many bytes, aligned as RoutineScratch's; false when oneDNN
  /// failed.
  bool run(std::byte* scratch);

 private:
  class State;
  explicit BoundConvolution(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace reprise

// A convolution as several, of which each computes some of its result.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/cpu/convolution_problem.h"

namespace reprise {

/// First elements of its arrays, in oneDNN's words.
struct ConvolutionMemory {
  std::byte *image = nullptr, *filter = nullptr, *result = nullptr;
};

/// A convolution of its own over parts of another's memory.
struct ConvolutionPart {
  ConvolutionProblem problem;
  ConvolutionMemory memory;
};

/// Parts of nearly the same size, at most `count`, which together are the
/// convolution: by images where they are not summed over and there are as many,
/// by groups where there are, else by features of what is written. None where
/// it is too small or turns the filter that it writes.
std::vector<ConvolutionPart> split_convolution(
    const ConvolutionProblem& problem, const ConvolutionMemory& memory,
    size_t count);

/// Memory of a convolution's own, what it reads filled by fill_trial_values.
class TrialArrays {
 public:
  explicit TrialArrays(const ConvolutionProblem& problem);
  ConvolutionMemory memory();
  /// What was written, which is cleared.
  std::vector<std::byte> take_written();

 private:
  std::vector<std::byte>& written();

  ConvolutionForm form_;
  std::vector<std::byte> image_, filter_, result_;
};

/// Text that tells convolutions apart.
std::string text_of(const ConvolutionProblem& problem);

}  // namespace reprise

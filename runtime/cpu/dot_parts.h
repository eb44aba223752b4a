// A dot as several, of which each computes some of its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/dot.h"

namespace reprise {

/// A dot of its own, epilogue included, over parts of another's memory.
struct DotPart {
  DotSpec spec;
  DotMemory memory;
};

/// What is cut where there are not enough matrices: the longer of a result's
/// rows and columns, or the shorter.
enum class DotCut : uint8_t { kLonger, kShorter };

/// Parts of nearly the same size, at most `count`, which together are the dot:
/// by matrices of the first batch dimension where there are as many, else by
/// rows or columns. One where it is too small.
std::vector<DotPart> split_dot(const DotSpec& spec, const DotMemory& memory,
                               size_t count, DotCut cut = DotCut::kLonger);

/// The dot without its epilogue.
DotSpec plain_dot(const DotSpec& spec);

/// Memory of a plain dot's own, its operands those of fill_trial_values.
class TrialOperands {
 public:
  explicit TrialOperands(const DotSpec& spec);
  DotMemory memory();
  const std::vector<std::byte>& result() const { return out_; }
  void clear_result();

 private:
  std::vector<std::byte> lhs_, rhs_, out_;
};

}  // namespace reprise

// A dot with an epilogue: the elementwise ops after a dot that a matrix library
// applies before it writes the result, so that the product itself never goes to
// memory. What is recognised is what both libraries express: cuBLASLt as its
// epilogue, beta and C; on the CPU a pass over the result while it is hot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/plan/op_graph.h"
#include "data/result.h"

namespace reprise {

enum class DotActivation : uint8_t {
  kNone,
  kRelu,  ///< HLO's maximum(x, 0): NaN stays, -0 becomes +0.
};

/// result = activation(alpha * dot + bias + accumulate), each step rounded to
/// the dot's type on its own, in this order; what is absent is left out.
struct DotEpilogue {
  float alpha = 1;
  bool multiply_add = false;  ///< alpha and the first addend round together.
  /// A value with one element for each column of the dot's view, dense.
  InstructionId bias = kNoInstruction;
  /// A value whose elements lie as the result's do.
  InstructionId accumulate = kNoInstruction;
  DotActivation activation = DotActivation::kNone;
  InstructionId result = kNoInstruction;  ///< The value written.

  bool is_plain() const {
    return alpha == 1 && bias == kNoInstruction &&
           accumulate == kNoInstruction && activation == DotActivation::kNone;
  }
};

/// Reads the ops of one group, ascending: one dot and, in the order of
/// `DotEpilogue`, each at most once: a multiply by a scalar constant, an add of
/// a vector broadcast along the rows, an add of an array of the result's size,
/// a maximum with 0 (on the right); a multiply-add is the first and the one
/// after it. Views between them are looked through; the
/// bias must run along the columns of `DotView::out`, and these be contiguous.
/// The dot and every op but the last has one reader, the next op. Requires:
/// roles kDot and kKernel only, at least one kDot. Errors: kInvalid naming the
/// dot and the op that stands in the way.
Result<DotEpilogue> match_dot_epilogue(const OpGraph& graph,
                                       const std::vector<InstructionId>& ops);

/// The dot among the ops, or kNoInstruction.
InstructionId dot_among(const OpGraph& graph,
                        const std::vector<InstructionId>& ops);

/// Values that a dot unit reads: lhs and rhs, then bias and accumulate where it
/// has them.
std::vector<InstructionId> dot_inputs(const OpGraph& graph, InstructionId dot,
                                      const DotEpilogue& epilogue);

/// "bias+accumulate+relu"; empty when plain.
std::string epilogue_text(float alpha, bool bias, bool accumulate,
                          DotActivation activation);

}  // namespace reprise

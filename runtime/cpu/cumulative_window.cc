#include "runtime/cpu/cumulative_window.h"

#include <algorithm>
#include <utility>

#include "data/schedule/called_program.h"
#include "runtime/cpu/scalar_function.h"

namespace reprise {
namespace {

/// Where the recurrence runs: [outer, extent, inner], row-major.
struct Recurrence {
  int64_t outer = 1, extent = 1, inner = 1;
  bool from_last = false;

  /// Calls `visit(row, previous row)` with the first element of each row of
  /// `inner`, -1 for none before it.
  template <typename Visit>
  void each_row(const Visit& visit) const {
    for (int64_t o = 0; o < outer; ++o) {
      int64_t previous = -1;
      for (int64_t j = 0; j < extent; ++j) {
        const int64_t at = from_last ? extent - 1 - j : j;
        const int64_t row = (o * extent + at) * inner;
        visit(row, previous);
        previous = row;
      }
    }
  }
};

class CumulativeWindow final : public Routine {
 public:
  CumulativeWindow(const RoutineCall& call, Recurrence along,
                   ReducerCall reducer)
      : call_(call), along_(along), reducer_(std::move(reducer)) {}

  bool run() override {
    reducer_.fill(call_, call_.results.size());
    along_.each_row([&](int64_t row, int64_t previous) {
      if (previous >= 0) reducer_.carry(row, previous, along_.inner);
      for (int64_t c = row; c < row + along_.inner; ++c) reducer_.combine(c, c);
    });
    return true;
  }

 private:
  RoutineCall call_;
  Recurrence along_;
  ReducerCall reducer_;
};

/// Of f32, without a call for each element.
class CumulativeSum final : public Routine {
 public:
  CumulativeSum(const RoutineCall& call, Recurrence along)
      : along_(along),
        operand_(reinterpret_cast<const float*>(call.operands[0].data())),
        initial_(reinterpret_cast<const float*>(call.operands[1].data())),
        result_(reinterpret_cast<float*>(call.results[0].data())) {}

  bool run() override {
    along_.each_row([&](int64_t row, int64_t previous) {
      for (int64_t c = 0; c < along_.inner; ++c) {
        const float before = previous < 0 ? *initial_ : result_[previous + c];
        result_[row + c] = before + operand_[row + c];
      }
    });
    return true;
  }

 private:
  Recurrence along_;
  const float *operand_, *initial_;
  float* result_;
};

/// Those with an identity are sums, products, extremes and bits.
bool is_commutative(const Instruction* op) {
  return op != nullptr &&
         facts_of(op->opcode).identity != Identity::kNoIdentity;
}

}  // namespace

std::unique_ptr<Routine> make_cumulative_window(
    const RoutineCall& call, const std::vector<WindowDimension>& window,
    const ReducerCall& reducer) {
  const Shape &operand = call.operand_shape(0), &result = call.result_shape(0);
  if (operand.dimensions != result.dimensions) return nullptr;
  Recurrence along;
  bool found = false;
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDimension& w = window[d];
    const int64_t extent = operand.dimensions[d];
    if (w.stride != 1 || w.base_dilation != 1 || w.window_dilation != 1)
      return nullptr;
    if (w.size == 1 && w.padding_low == 0 && w.padding_high == 0) {
      (found ? along.inner : along.outer) *= extent;
      continue;
    }
    const bool is_before = w.padding_low == extent - 1 && w.padding_high == 0,
               is_after = w.padding_high == extent - 1 && w.padding_low == 0;
    if (found || w.size != extent || (!is_before && !is_after)) return nullptr;
    found = true;
    along.extent = extent;
    along.from_last = !is_before;
  }
  const Instruction* op = only_op(call.spec.callees[0]);
  if (!found || (along.from_last && !is_commutative(op))) return nullptr;
  if (op != nullptr && op->opcode == Opcode::kAdd &&
      result.type == PrimitiveType::kF32 && operand.type == result.type)
    return std::make_unique<CumulativeSum>(call, along);
  return std::make_unique<CumulativeWindow>(call, along, reducer);
}

}  // namespace reprise

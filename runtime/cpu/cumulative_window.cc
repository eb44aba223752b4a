#include "runtime/cpu/cumulative_window.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "data/element.h"
#include "data/hlo/combiner.h"
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

class CumulativeReduction final : public Routine {
 public:
  CumulativeReduction(const RoutineCall& call, Recurrence along,
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

/// Of bf16 or f16, from zero on.
class CumulativeHalfSum final : public Routine {
 public:
  CumulativeHalfSum(const RoutineCall& call, Recurrence along)
      : call_(call), along_(along), type_(call.result_shape(0).type) {}

  bool run() override {
    std::vector<double> line(static_cast<size_t>(along_.extent));
    for (int64_t o = 0; o < along_.outer; ++o) {
      for (int64_t c = 0; c < along_.inner; ++c) {
        const int64_t first = o * along_.extent * along_.inner + c;
        for (size_t j = 0; j < line.size(); ++j)
          line[j] =
              load_element(type_, call_.operands[0].data() + byte(first, j));
        add_up(line.data(), along_.extent);
        for (size_t j = 0; j < line.size(); ++j)
          store_element(type_, line[j],
                        call_.results[0].data() + byte(first, j));
      }
    }
    return true;
  }

 private:
  [[nodiscard]] size_t byte(int64_t first, size_t j) const {
    return 2 *
           (static_cast<size_t>(first) + j * static_cast<size_t>(along_.inner));
  }

  [[nodiscard]] double sum(double a, double b) const {
    std::array<std::byte, 2> rounded{};
    store_element(type_, a + b, rounded.data());
    return load_element(type_, rounded.data());
  }

  /// Of the elements from one to another, in order.
  double sum_of(const double* from, const double* to) const {
    double total = 0;
    for (; from != to; ++from) total = sum(total, *from);
    return total;
  }

  /// Blocks begin at the first element, whichever end sums come from.
  void add_up(double* line, int64_t count) const {
    std::vector<double> totals;
    for (int64_t begin = 0; begin < count; begin += kCumulativeBlock) {
      double* block = line + begin;
      double* end = line + std::min(begin + kCumulativeBlock, count);
      totals.push_back(sum_of(block, end));
      if (along_.from_last) {
        for (double* at = block; at != end; ++at) *at = sum_of(at, end);
      } else {
        for (double* at = block + 1; at < end; ++at) *at = sum(at[-1], *at);
      }
    }
    if (totals.size() == 1) return;
    const auto blocks = static_cast<int64_t>(totals.size());
    add_up(totals.data(), blocks);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t before = j / kCumulativeBlock + (along_.from_last ? 1 : -1);
      if (before >= 0 && before < blocks)
        line[j] = sum(line[j], totals[static_cast<size_t>(before)]);
    }
  }

  RoutineCall call_;
  Recurrence along_;
  PrimitiveType type_;
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
  const auto found = cumulative_window(window, operand.dimensions);
  if (!found) return nullptr;
  Recurrence along;
  along.from_last = !found->is_before;
  for (size_t d = 0; d < window.size(); ++d) {
    (d < found->dimension   ? along.outer
     : d > found->dimension ? along.inner
                            : along.extent) *= operand.dimensions[d];
  }
  const Instruction* op = only_op(call.spec.callees[0]);
  if (along.from_last && !is_commutative(op)) return nullptr;
  if (op != nullptr && op->opcode == Opcode::kAdd &&
      result.type == PrimitiveType::kF32 && operand.type == result.type)
    return std::make_unique<CumulativeSum>(call, along);
  if (op != nullptr && op->opcode == Opcode::kAdd && is_half(result.type) &&
      operand.type == result.type &&
      load_element(result.type, call.operands[1].data()) == 0)
    return std::make_unique<CumulativeHalfSum>(call, along);
  return std::make_unique<CumulativeReduction>(call, along, reducer);
}

}  // namespace reprise

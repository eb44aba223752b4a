#include "runtime/cpu/cumulative_window.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "data/element.h"
#include "data/hlo/combiner.h"
#include "data/schedule/called_program.h"
#include "data/schedule/lane_function.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/scalar_function.h"
#include "runtime/kernels/element_ops.h"

namespace reprise {
namespace {

/// Where the recurrence runs: [outer, extent, inner], row-major.
struct Recurrence {
  int64_t outer = 1, extent = 1, inner = 1;
  bool from_last = false;

  int64_t lines() const { return outer * inner; }
  /// Place of a line's first element in memory.
  int64_t first(int64_t line) const {
    return line / inner * extent * inner + line % inner;
  }
  /// Place of the element of a line that is taken as number `step`.
  int64_t place(int64_t line, int64_t step) const {
    return first(line) + (from_last ? extent - 1 - step : step) * inner;
  }

  /// Calls `visit(row, previous row)` with the first element of each row of
  /// `inner`, -1 for none before it.
  template <typename Visit>
  void each_row(const Visit& visit) const {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t j = 0; j < extent; ++j) {
        visit(place(o * inner, j), j == 0 ? -1 : place(o * inner, j - 1));
      }
    }
  }
};

/// Lines side by side.
class CumulativeReduction final : public Routine {
 public:
  CumulativeReduction(const RoutineCall& call, Recurrence along,
                      ReducerCall reducer)
      : call_(call), along_(along), reducer_(std::move(reducer)) {}

  bool run() override {
    reducer_.fill(call_, call_.results.size());
    std::vector<int64_t> offsets(static_cast<size_t>(along_.extent));
    for (size_t j = 0; j < offsets.size(); ++j)
      offsets[j] = along_.place(0, static_cast<int64_t>(j));
    std::vector<int64_t> first;
    for (int64_t line = 0; line < along_.lines(); ++line) {
      first.push_back(along_.first(line));
      if (first.size() < kFunctionLanes && line + 1 < along_.lines()) continue;
      reducer_.fold(first, first, offsets, true);
      first.clear();
    }
    return true;
  }

 private:
  RoutineCall call_;
  Recurrence along_;
  ReducerCall reducer_;
};

/// By a function of several ops, in XLA's order: in blocks, to whose elements
/// comes what the blocks before make (those after, from the last on), which is
/// made in the same way.
class BlockwiseReduction final : public Routine {
 public:
  static Result<std::unique_ptr<Routine>> bind(const RoutineCall& call,
                                               Recurrence along) {
    auto made = std::make_unique<BlockwiseReduction>(call, along);
    if (Status status = made->bind_levels(); !status)
      return pass(status.error());
    return made;
  }

  BlockwiseReduction(const RoutineCall& call, Recurrence along)
      : bytes_(element_bytes(call.result_shape(0))) {
    levels_.push_back({.along = along, .call = call});
  }

  bool run() override {
    run_level(0);
    return true;
  }

 private:
  struct Level {
    Recurrence along;
    RoutineCall call;
    /// [line, block] Of the level above.
    std::vector<std::byte> totals = {}, sums = {};
    std::optional<ReducerCall> within = {};   ///< Of a block's elements.
    std::optional<ReducerCall> carried = {};  ///< Of what comes before blocks.

    int64_t blocks() const {
      return (along.extent + kCumulativeBlock - 1) / kCumulativeBlock;
    }
  };

  Status bind_levels() {
    while (true) {
      Level& level = levels_.back();
      Result<ReducerCall> within = ReducerCall::bind(level.call, 0, 1, 0);
      if (!within) return pass(within.error());
      level.within = std::move(*within);
      if (level.blocks() == 1) return {};
      const Recurrence above = {.outer = level.along.lines(),
                                .extent = level.blocks(),
                                .from_last = level.along.from_last};
      const auto size = static_cast<size_t>(above.outer * above.extent);
      level.totals.resize(size * bytes_);
      level.sums.resize(size * bytes_);
      RoutineCall carry = level.call;
      carry.operands[0] = level.sums;
      Result<ReducerCall> carried = ReducerCall::bind(carry, 0, 1, 0);
      if (!carried) return pass(carried.error());
      level.carried = std::move(*carried);
      carry.operands[0] = level.totals;
      carry.results[0] = level.sums;
      levels_.push_back({.along = above, .call = carry});
    }
  }

  void run_level(size_t at) {
    Level& level = levels_[at];
    level.within->fill(level.call, 1);
    for (int64_t block = 0; block < level.blocks(); ++block)
      run_block(level, block);
    if (level.blocks() == 1) return;
    run_level(at + 1);
    std::vector<int64_t> to, from;
    for (int64_t j = 0; j < level.along.extent; ++j) {
      const int64_t block = j / kCumulativeBlock;
      const int64_t before = block + (level.along.from_last ? 1 : -1);
      if (before < 0 || before >= level.blocks()) continue;
      for (int64_t line = 0; line < level.along.lines(); ++line) {
        to.push_back(level.along.first(line) + j * level.along.inner);
        from.push_back(line * level.blocks() + before);
      }
    }
    level.carried->combine(to, from);
  }

  void run_block(Level& level, int64_t block) const {
    const Recurrence& along = level.along;
    const int64_t begin = block * kCumulativeBlock;
    const int64_t count = std::min(kCumulativeBlock, along.extent - begin);
    std::vector<int64_t> offsets, first;
    for (int64_t j = 0; j < count; ++j) offsets.push_back(j * along.inner);
    for (int64_t line = 0; line < along.lines(); ++line)
      first.push_back(along.first(line) + begin * along.inner);
    std::vector<int64_t> whole = first;  // Where a block's total is.
    if (!along.from_last) {
      level.within->fold(first, first, offsets, true);
      for (int64_t& at : whole) at += offsets.back();
    } else {
      for (; !offsets.empty(); offsets.pop_back()) {
        level.within->fold(first, first, offsets);
        for (int64_t& at : first) at += along.inner;
      }
    }
    if (level.blocks() == 1) return;
    for (int64_t line = 0; line < along.lines(); ++line) {
      const auto from = static_cast<size_t>(whole[static_cast<size_t>(line)]);
      const auto to = static_cast<size_t>(line * level.blocks() + block);
      std::copy_n(level.call.results[0].data() + from * bytes_, bytes_,
                  level.totals.data() + to * bytes_);
    }
  }

  size_t bytes_;
  std::deque<Level> levels_;  ///< The array, the totals of its blocks, …
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

/// Sums or products of as many lines side by side, in f32: of two halves that
/// holds what rounding them needs.
using Lanes = std::array<float, 16>;

template <PrimitiveType kType, bool kAdds>
Lanes combined(const Lanes& a, const Lanes& b) {
  Lanes made;
  for (size_t l = 0; l < made.size(); ++l) {
    const float whole = kAdds ? a[l] + b[l] : a[l] * b[l];
    made[l] = kType == PrimitiveType::kBF16 ? rk_round_bf16(whole)
                                            : rk_round_f16(whole);
  }
  return made;
}

/// Of bf16 or f16, from the identity on.
template <PrimitiveType kType, bool kAdds>
class CumulativeHalf final : public Routine {
 public:
  CumulativeHalf(const RoutineCall& call, Recurrence along)
      : operand_(reinterpret_cast<const uint16_t*>(call.operands[0].data())),
        result_(reinterpret_cast<uint16_t*>(call.results[0].data())),
        along_(along),
        lines_(static_cast<size_t>(along.extent)) {}

  bool run() override {
    const int64_t lines = along_.outer * along_.inner;
    constexpr auto kAtOnce = static_cast<int64_t>(Lanes().size());
    for (int64_t first = 0; first < lines; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, lines - first);
      each_element(first, count, [&](float& value, int64_t at) {
        value = kType == PrimitiveType::kBF16 ? rk_load_bf16(operand_[at])
                                              : rk_load_f16(operand_[at]);
      });
      run_through(lines_.data(), along_.extent);
      each_element(first, count, [&](float& value, int64_t at) {
        result_[at] = kType == PrimitiveType::kBF16 ? rk_store_bf16(value)
                                                    : rk_store_f16(value);
      });
    }
    return true;
  }

 private:
  /// Of `count` lines from `first` on, and its place in memory.
  template <typename Visit>
  void each_element(int64_t first, int64_t count, const Visit& visit) {
    for (int64_t l = 0; l < count; ++l) {
      int64_t at = along_.first(first + l);
      for (Lanes& lanes : lines_) {
        visit(lanes[static_cast<size_t>(l)], at);
        at += along_.inner;
      }
    }
  }

  /// Of the elements from one to another, in order.
  static Lanes total_of(const Lanes* from, const Lanes* to) {
    Lanes total;
    total.fill(kAdds ? 0.0f : 1.0f);
    for (; from != to; ++from) total = combined<kType, kAdds>(total, *from);
    return total;
  }

  /// Blocks begin at the first element, whichever end sums come from.
  void run_through(Lanes* line, int64_t count) const {
    std::vector<Lanes> totals;
    for (int64_t begin = 0; begin < count; begin += kCumulativeBlock) {
      Lanes* block = line + begin;
      Lanes* end = line + std::min(begin + kCumulativeBlock, count);
      totals.push_back(total_of(block, end));
      if (along_.from_last) {
        for (Lanes* at = block; at != end; ++at) *at = total_of(at, end);
      } else {
        for (Lanes* at = block + 1; at < end; ++at)
          *at = combined<kType, kAdds>(at[-1], *at);
      }
    }
    if (totals.size() == 1) return;
    const auto blocks = static_cast<int64_t>(totals.size());
    run_through(totals.data(), blocks);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t before = j / kCumulativeBlock + (along_.from_last ? 1 : -1);
      if (before >= 0 && before < blocks)
        line[j] = combined<kType, kAdds>(line[j],
                                         totals[static_cast<size_t>(before)]);
    }
  }

  const uint16_t* operand_;
  uint16_t* result_;
  Recurrence along_;
  std::vector<Lanes> lines_;  ///< [element] Of what is summed side by side.
};

/// Those with an identity are sums, products, extremes and bits.
bool is_commutative(const Instruction* op) {
  return op != nullptr &&
         facts_of(op->opcode).identity != Identity::kNoIdentity;
}

template <PrimitiveType kType>
std::unique_ptr<Routine> make_half(const RoutineCall& call, Recurrence along,
                                   bool adds) {
  if (adds) return std::make_unique<CumulativeHalf<kType, true>>(call, along);
  return std::make_unique<CumulativeHalf<kType, false>>(call, along);
}

/// Null but for sums and products of bf16 or f16, from the identity on.
std::unique_ptr<Routine> make_cumulative_half(const RoutineCall& call,
                                              Recurrence along,
                                              const Instruction* op) {
  const PrimitiveType type = call.result_shape(0).type;
  if (op == nullptr || !is_half(type) || call.operand_shape(0).type != type)
    return nullptr;
  const bool adds = op->opcode == Opcode::kAdd;
  if ((!adds && op->opcode != Opcode::kMultiply) ||
      load_element(type, call.operands[1].data()) != (adds ? 0 : 1))
    return nullptr;
  return type == PrimitiveType::kBF16
             ? make_half<PrimitiveType::kBF16>(call, along, adds)
             : make_half<PrimitiveType::kF16>(call, along, adds);
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
  if (op == nullptr && (along.from_last || is_half(result.type)) &&
      call.results.size() == 1 && along.extent > kCumulativeBlock) {
    if (auto blockwise = BlockwiseReduction::bind(call, along))
      return std::move(*blockwise);
  }
  if (along.from_last && !is_commutative(op)) return nullptr;
  if (op != nullptr && op->opcode == Opcode::kAdd &&
      result.type == PrimitiveType::kF32 && operand.type == result.type)
    return std::make_unique<CumulativeSum>(call, along);
  if (auto half = make_cumulative_half(call, along, op)) return half;
  return std::make_unique<CumulativeReduction>(call, along, reducer);
}

}  // namespace reprise

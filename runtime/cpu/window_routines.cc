// Reduce-window as no kernel has it (cumulative ones: cumulative_window.cc),
// and select-and-scatter. What lies outside the operand, or between its dilated
// elements, takes no part.
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"
#include "data/hlo/window.h"
#include "data/schedule/called_program.h"
#include "data/schedule/lane_function.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/cumulative_window.h"
#include "runtime/cpu/reducer_call.h"
#include "runtime/cpu/routine.h"
#include "runtime/cpu/widened_array.h"
#include "runtime/cpu/window_walk.h"
#include "runtime/kernels/element_ops.h"

namespace reprise {
namespace {

Result<WindowWalk> window_walk(const RoutineCall& call, const Shape& result) {
  Result<std::vector<WindowDimension>> window =
      window_dimensions(call.instruction);
  if (!window) return pass(window.error());
  const Shape& operand = call.operand_shape(0);
  if (window->empty()) window->resize(operand.dimensions.size());
  if (window->size() != operand.dimensions.size() ||
      window->size() != result.dimensions.size()) {
    return fail(ErrorKind::kInvalid, "a window of {} dimensions over {}",
                window->size(), shape_text(operand, false));
  }
  return WindowWalk(std::move(*window), operand, result);
}

/// Results side by side, elements of each window in row-major order: those of
/// windows that lie within the operand, and those of others.
class ReduceWindow final : public Routine {
 public:
  ReduceWindow(const RoutineCall& call, const WindowWalk& walk,
               ReducerCall reducer)
      : call_(call),
        reducer_(std::move(reducer)),
        results_(call.result_shape(0).dimensions),
        taps_(walk.window().size()),
        places_(walk.window().size()),
        begins_(walk.window().size()) {
    for (size_t d = 0; d < taps_.size(); ++d) {
      const int64_t taps = taps_[d] = walk.window()[d].size;
      for (int64_t index = 0; index < results_[d]; ++index) {
        for (int64_t tap = 0; tap < taps; ++tap)
          places_[d].push_back(walk.place(d, index, tap));
        const int64_t* const row = places_[d].data() + index * taps;
        begins_[d].push_back(taps > 0 && row[taps - 1] >= 0 ? row[0] : -1);
      }
    }
    offsets_ = walk.tap_offsets();
  }

  bool run() override {
    if (element_count(call_.result_shape(0)) == 0) return true;
    reducer_.fill(call_, call_.results.size());
    const size_t outer = taps_.empty() ? 0 : taps_.size() - 1;
    const std::vector<int64_t> scalar = {0};
    const std::vector<int64_t>& along = taps_.empty() ? scalar : begins_[outer];
    IndexCounter row{std::span<const int64_t>(results_).first(outer)};
    int64_t result = 0;
    do {
      int64_t begin = 0;
      bool within = !offsets_.empty();
      for (size_t d = 0; d < outer; ++d) {
        const int64_t place = begins_[d][static_cast<size_t>(row[d])];
        within &= place >= 0;
        begin += place;
      }
      for (size_t at = 0; at < along.size(); ++at, ++result) {
        if (within && along[at] >= 0) {
          add_whole(result, begin + along[at]);
        } else {
          add_part(result, row, at);
        }
      }
    } while (row.next());
    reduce_whole();
    reduce_parts();
    return true;
  }

 private:
  void add_whole(int64_t result, int64_t first) {
    if (std::ssize(to_) == kFunctionLanes) reduce_whole();
    to_.push_back(result);
    from_.push_back(first);
  }

  void reduce_whole() {
    reducer_.fold(to_, from_, offsets_);
    to_.clear();
    from_.clear();
  }

  void add_part(int64_t result, const IndexCounter& row, size_t at) {
    if (std::ssize(parts_) == kFunctionLanes) reduce_parts();
    parts_.push_back(result);
    for (size_t d = 0; d + 1 < taps_.size(); ++d) indices_.push_back(row[d]);
    if (!taps_.empty()) indices_.push_back(static_cast<int64_t>(at));
  }

  /// Tap by tap, of those that are there.
  void reduce_parts() {
    if (parts_.empty()) return;  // Of large windows, taps are many.
    const size_t rank = taps_.size();
    std::vector<int64_t> to, from;
    IndexCounter tap(taps_);
    do {
      to.clear();
      from.clear();
      for (size_t l = 0; l < parts_.size(); ++l) {
        int64_t place = 0;
        bool is_there = true;
        for (size_t d = 0; d < rank; ++d) {
          const int64_t along = places_[d][static_cast<size_t>(
              indices_[l * rank + d] * taps_[d] + tap[d])];
          is_there &= along >= 0;
          place += along;
        }
        if (!is_there) continue;
        to.push_back(parts_[l]);
        from.push_back(place);
      }
      reducer_.combine(to, from);
    } while (tap.next());
    parts_.clear();
    indices_.clear();
  }

  RoutineCall call_;
  ReducerCall reducer_;
  std::vector<int64_t> results_, taps_;  ///< Extents.
  /// Of the taps from the first, in order; none where elements are dilated.
  std::vector<int64_t> offsets_;
  /// [dimension][index × taps + tap] Place there, -1: outside, or a hole.
  std::vector<std::vector<int64_t>> places_;
  /// [dimension][index] Of the first tap, -1: some lie outside.
  std::vector<std::vector<int64_t>> begins_;
  /// Windows not reduced yet: results and places of their first taps; results
  /// and indices of others.
  std::vector<int64_t> to_, from_, parts_, indices_;
};

/// For each source element, the window's element that `select` prefers to all
/// others takes it by `scatter`.
class SelectAndScatter final : public Routine {
 public:
  SelectAndScatter(const RoutineCall& call, WindowWalk walk,
                   ScalarFunction select, ReducerCall scatter)
      : call_(call),
        walk_(std::move(walk)),
        select_(std::move(select)),
        scatter_(std::move(scatter)),
        bytes_(element_bytes(call.operand_shape(0))) {}

  bool run() override {
    scatter_.fill(call_, 2);
    const std::byte* operand = call_.operands[0].data();
    IndexCounter index(call_.operand_shape(1).dimensions);
    int64_t from = 0;
    std::byte keeps{};
    select_.set_output(0, &keeps);
    do {
      int64_t chosen = -1;
      walk_.each(index, [&](int64_t place) {
        if (chosen >= 0) {
          select_.set_parameter(0,
                                operand + static_cast<size_t>(chosen) * bytes_);
          select_.set_parameter(1,
                                operand + static_cast<size_t>(place) * bytes_);
          select_.call();
        }
        if (chosen < 0 || keeps == std::byte{0}) chosen = place;
      });
      if (chosen >= 0) scatter_.combine(chosen, from);
      ++from;
    } while (index.next());
    return true;
  }

 private:
  RoutineCall call_;
  WindowWalk walk_;
  ScalarFunction select_;
  ReducerCall scatter_;
  size_t bytes_;
};

/// The gradient of max pooling: the window's largest element (the first or the
/// last of equal ones) gets the sum, rounded to the type each time. As
/// SelectAndScatter computes it, for all windows side by side at once.
class MaxPoolGradient final : public Routine {
 public:
  MaxPoolGradient(const RoutineCall& call, WindowWalk walk, bool keeps_equal)
      : type_(call.result_shape(0).type),
        operand_(type_, call.operands[0]),
        source_(type_, call.operands[1]),
        initial_(type_, call.operands[2]),
        result_(type_, call.results[0]),
        windows_(call.operand_shape(1).dimensions),
        walk_(std::move(walk)),
        stride_(walk_.inner_stride()),
        keeps_equal_(keeps_equal),
        best_(static_cast<size_t>(walk_.inner())),
        chosen_(static_cast<size_t>(walk_.inner())) {
    if (walk_.inner() > 1) windows_[walk_.last()] = 1;
  }

  bool run() override {
    for (WidenedArray* read : {&operand_, &source_, &initial_}) read->load();
    float* const result = result_.data();
    std::fill_n(result, result_.size(), *initial_.data());
    const size_t inner = best_.size();
    const auto stride = static_cast<size_t>(stride_);
    const float* source = source_.data();
    IndexCounter index(windows_);
    do {
      bool first = true;
      walk_.each(index, [&](int64_t place) {
        const float* from = operand_.data() + place;
        if (std::exchange(first, false)) {
          for (size_t c = 0; c < inner; ++c) best_[c] = from[c * stride];
          std::fill(chosen_.begin(), chosen_.end(), place);
        } else if (stride == 1) {
          look(from, place, [] { return size_t{1}; });
        } else if (stride == 2) {
          look(from, place, [] { return size_t{2}; });
        } else {
          look(from, place, [=] { return stride; });
        }
      });
      for (size_t c = 0; c < inner && !first; ++c) {
        float& sum = result[static_cast<size_t>(chosen_[c]) + c * stride];
        sum = rounded(sum + source[c]);
      }
      source += inner;
    } while (index.next());
    result_.store();
    return true;
  }

 private:
  float rounded(float value) const {
    if (type_ == PrimitiveType::kBF16) return rk_round_bf16(value);
    return type_ == PrimitiveType::kF16 ? rk_round_f16(value) : value;
  }

  /// `stride`: a constant where loops shall be vectors.
  template <typename Stride>
  void look(const float* from, int64_t place, const Stride& stride) {
    if (keeps_equal_) {
      prefer(from, place, stride, [](float a, float b) { return a >= b; });
    } else {
      prefer(from, place, stride, [](float a, float b) { return a > b; });
    }
  }
  template <typename Stride, typename Keeps>
  void prefer(const float* from, int64_t place, const Stride& stride,
              const Keeps& keeps) {
    float* best = best_.data();
    int64_t* chosen = chosen_.data();
    const size_t count = best_.size();
    for (size_t c = 0; c < count; ++c) {
      const float next = from[c * stride()];
      const bool kept = keeps(best[c], next);
      best[c] = kept ? best[c] : next;
      chosen[c] = kept ? chosen[c] : place;
    }
  }

  PrimitiveType type_;
  WidenedArray operand_, source_, initial_, result_;
  std::vector<int64_t> windows_;
  WindowWalk walk_;
  int64_t stride_;  ///< Between windows side by side.
  bool keeps_equal_;
  std::vector<float> best_;      ///< [window] of those side by side.
  std::vector<int64_t> chosen_;  ///< Place of it, less the window's own.
};

/// Null for what is no gradient of max pooling over f32 or 16-bit floats.
std::unique_ptr<Routine> make_max_pool_gradient(const RoutineCall& call,
                                                const WindowWalk& walk) {
  const PrimitiveType type = call.operand_shape(0).type;
  if (type != PrimitiveType::kF32 && !is_half(type)) return nullptr;
  const Instruction* select = only_op(call.spec.callees[0]);
  const Instruction* scatter = only_op(call.spec.callees[1]);
  if (select == nullptr || scatter == nullptr ||
      select->opcode != Opcode::kCompare || scatter->opcode != Opcode::kAdd)
    return nullptr;
  const std::string direction = compare_direction(*select);
  if (select->find_attribute("type") != nullptr ||
      (direction != "GE" && direction != "GT"))
    return nullptr;
  return std::make_unique<MaxPoolGradient>(call, walk, direction == "GE");
}

}  // namespace

Result<std::unique_ptr<Routine>> make_reduce_window(const RoutineCall& call) {
  const size_t arrays = call.results.size();
  if (call.operands.size() != 2 * arrays)
    return fail(ErrorKind::kInvalid, "{} operands", call.operands.size());
  Result<WindowWalk> walk = window_walk(call, call.result_shape(0));
  if (!walk) return pass(walk.error());
  Result<ReducerCall> reducer = ReducerCall::bind(call, 0, arrays, 0);
  if (!reducer) return pass(reducer.error());
  if (auto cumulative = make_cumulative_window(call, walk->window(), *reducer))
    return cumulative;
  return std::make_unique<ReduceWindow>(call, *walk, std::move(*reducer));
}

Result<std::unique_ptr<Routine>> make_select_and_scatter(
    const RoutineCall& call) {
  Result<WindowWalk> walk = window_walk(call, call.operand_shape(1));
  if (!walk) return pass(walk.error());
  Result<ScalarFunction> select = ScalarFunction::bind(call, 0, 2, 1);
  if (!select) return pass(select.error());
  Result<ReducerCall> scatter = ReducerCall::bind(call, 1, 1, 1);
  if (!scatter) return pass(scatter.error());
  if (auto pooling = make_max_pool_gradient(call, *walk)) return pooling;
  return std::make_unique<SelectAndScatter>(
      call, std::move(*walk), std::move(*select), std::move(*scatter));
}

}  // namespace reprise

// Reduce-window as no kernel has it, and select-and-scatter. What lies outside
// the operand, or between its dilated elements, takes no part.
#include <cstring>
#include <utility>

#include "data/hlo/window.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/reducer_call.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

/// Which element of the operand each position of a window names.
class WindowWalk {
 public:
  WindowWalk(std::vector<WindowDimension> window, const Shape& operand)
      : window_(std::move(window)),
        extents_(operand.dimensions),
        strides_(element_strides(operand)) {
    for (const WindowDimension& dimension : window_)
      sizes_.push_back(dimension.size);
  }

  /// Calls `visit` with the place of every element in the window at `index`, in
  /// row-major order.
  template <typename Visit>
  void each(const IndexCounter& index, const Visit& visit) const {
    IndexCounter offset(sizes_);
    do {
      const int64_t place = place_of(index, offset);
      if (place >= 0) visit(place);
    } while (offset.next());
  }

 private:
  int64_t place_of(const IndexCounter& index,
                   const IndexCounter& offset) const {
    int64_t place = 0;
    for (size_t d = 0; d < window_.size(); ++d) {
      const WindowDimension& dimension = window_[d];
      const int64_t at = index[d] * dimension.stride +
                         offset[d] * dimension.window_dilation -
                         dimension.padding_low;
      if (at < 0 || at % dimension.base_dilation != 0) return -1;
      const int64_t element = at / dimension.base_dilation;
      if (element >= extents_[d]) return -1;
      place += element * strides_[d];
    }
    return place;
  }

  std::vector<WindowDimension> window_;
  std::vector<int64_t> extents_, strides_, sizes_;
};

Result<WindowWalk> window_walk(const RoutineCall& call) {
  Result<std::vector<WindowDimension>> window =
      window_dimensions(call.instruction);
  if (!window) return pass(window.error());
  const Shape& operand = call.operand_shape(0);
  if (window->empty()) window->resize(operand.dimensions.size());
  if (window->size() != operand.dimensions.size()) {
    return fail(ErrorKind::kInvalid, "a window of {} dimensions over {}",
                window->size(), shape_text(operand, false));
  }
  return WindowWalk(std::move(*window), operand);
}

class ReduceWindow final : public Routine {
 public:
  ReduceWindow(const RoutineCall& call, WindowWalk walk, ReducerCall reducer)
      : call_(call), walk_(std::move(walk)), reducer_(std::move(reducer)) {}

  bool run() override {
    reducer_.fill(call_, call_.results.size());
    IndexCounter index(call_.result_shape(0).dimensions);
    int64_t to = 0;
    do {
      walk_.each(index, [&](int64_t from) { reducer_.combine(to, from); });
      ++to;
    } while (index.next());
    return true;
  }

 private:
  RoutineCall call_;
  WindowWalk walk_;
  ReducerCall reducer_;
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

}  // namespace

Result<std::unique_ptr<Routine>> make_reduce_window(const RoutineCall& call) {
  const size_t arrays = call.results.size();
  if (call.operands.size() != 2 * arrays)
    return fail(ErrorKind::kInvalid, "{} operands", call.operands.size());
  Result<WindowWalk> walk = window_walk(call);
  if (!walk) return pass(walk.error());
  Result<ReducerCall> reducer = ReducerCall::bind(call, 0, arrays, 0);
  if (!reducer) return pass(reducer.error());
  return std::make_unique<ReduceWindow>(call, std::move(*walk),
                                        std::move(*reducer));
}

Result<std::unique_ptr<Routine>> make_select_and_scatter(
    const RoutineCall& call) {
  Result<WindowWalk> walk = window_walk(call);
  if (!walk) return pass(walk.error());
  Result<ScalarFunction> select = ScalarFunction::bind(call, 0, 2, 1);
  if (!select) return pass(select.error());
  Result<ReducerCall> scatter = ReducerCall::bind(call, 1, 1, 1);
  if (!scatter) return pass(scatter.error());
  return std::make_unique<SelectAndScatter>(
      call, std::move(*walk), std::move(*select), std::move(*scatter));
}

}  // namespace reprise

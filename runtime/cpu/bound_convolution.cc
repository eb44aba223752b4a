// Images and results keep the layout that the program has where oneDNN has a
// good primitive for it, else they are reordered; a filter, which is small, is
// reordered to what the primitive asks for, in each run, since steps change it.
// All is chosen once, from shapes alone, and summed in f32 directly: neither a
// Winograd transform nor a mode of less precision is ever asked for. oneDNN
// itself keeps primitives by shape.
//
// Copies and oneDNN's scratch lie in the scratch that all routines share.
#include "runtime/cpu/bound_convolution.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "data/hlo/module.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/dnnl_engine.h"
#include "runtime/cpu/routine_scratch.h"

namespace reprise {
namespace {

using Descriptor = dnnl::memory::desc;

/// A primitive with the layouts that it asks for.
struct Chosen {
  dnnl::primitive primitive;
  Descriptor image, filter, result, scratch;
  std::string implementation;
};

template <typename Primitive, typename Description>
Chosen chosen(const Description& description) {
  return {.primitive = Primitive(description),
          .image = {},
          .filter = {},
          .result = {},
          .scratch = description.scratchpad_desc(),
          .implementation = description.impl_info_str()};
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr made;
  made.set_fpmath_mode(dnnl::fpmath_mode::strict);
  made.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return made;
}

Descriptor any_layout(const Descriptor& of) {
  return {of.dims(), of.data_type(), dnnl::memory::format_tag::any};
}

Chosen choose(const ConvolutionProblem& p, bool plain_images) {
  const Descriptor image = plain_images ? p.image : any_layout(p.image),
                   filter = any_layout(p.filter),
                   result = plain_images ? p.result : any_layout(p.result);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::engine& engine = dnnl_engine().engine;
  const dnnl::primitive_attr attribute = attributes();
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, image, filter, result,
       p.strides, p.dilations, p.low, p.high},
      attribute, engine);
  if (p.form == ConvolutionForm::kByInput) {
    const dnnl::convolution_backward_data::primitive_desc by_input(
        {algorithm, image, filter, result, p.strides, p.dilations, p.low,
         p.high},
        attribute, engine, forward);
    Chosen made = chosen<dnnl::convolution_backward_data>(by_input);
    made.image = by_input.diff_src_desc();
    made.filter = by_input.weights_desc();
    made.result = by_input.diff_dst_desc();
    return made;
  }
  if (p.is_by_filter()) {
    const dnnl::convolution_backward_weights::primitive_desc by_filter(
        {algorithm, image, filter, result, p.strides, p.dilations, p.low,
         p.high},
        attribute, engine, forward);
    Chosen made = chosen<dnnl::convolution_backward_weights>(by_filter);
    made.image = by_filter.src_desc();
    made.filter = by_filter.diff_weights_desc();
    made.result = by_filter.diff_dst_desc();
    return made;
  }
  Chosen made = chosen<dnnl::convolution_forward>(forward);
  made.image = forward.src_desc();
  made.filter = forward.weights_desc();
  made.result = forward.dst_desc();
  return made;
}

/// Plain images where that has a good primitive.
std::optional<Chosen> choose_best(const ConvolutionProblem& problem) {
  for (const bool plain_images : {true, false}) {
    try {
      Chosen made = choose(problem, plain_images);
      if (!is_slow(made.implementation)) return made;
    } catch (const dnnl::error&) {
      continue;  // None at all for these layouts.
    }
  }
  return std::nullopt;
}

/// The same elements as f32, where they lie.
Descriptor widened(const Descriptor& of) {
  const auto dims = of.dims();
  const auto& strides = of.data.format_desc.blocking.strides;
  return {dims, dnnl::memory::data_type::f32,
          dnnl::memory::dims(strides, strides + dims.size())};
}

/// Of bf16, the primitive of f32 where that is quicker, or the only one, as
/// where operands of bf16 give a result of f32: reordering to its layouts then
/// widens, and rounds the result.
std::optional<Chosen> choose_quickest(const ConvolutionProblem& problem) {
  const auto has_only = [&](dnnl::memory::data_type type) {
    return problem.image.data_type() == type &&
           problem.filter.data_type() == type &&
           problem.result.data_type() == type;
  };
  if (has_only(dnnl::memory::data_type::f32)) return choose_best(problem);
  std::optional<Chosen> narrow;
  if (has_only(dnnl::memory::data_type::bf16)) narrow = choose_best(problem);
  if (narrow && !is_quicker_widened(narrow->implementation)) return narrow;
  ConvolutionProblem wide = problem;
  for (Descriptor* array : {&wide.image, &wide.filter, &wide.result})
    *array = widened(*array);
  std::optional<Chosen> made = choose_best(wide);
  return made ? std::move(made) : std::move(narrow);
}

dnnl::memory unplaced(const Descriptor& of) {
  return {of, dnnl_engine().engine, DNNL_MEMORY_NONE};
}

/// Hands out the parts of a routine's block of scratch, twice in the same
/// order: for its size, then, at the block, for addresses.
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* block) : block_(block) {}

  std::byte* take(size_t bytes) {
    std::byte* const part = block_ == nullptr ? nullptr : block_ + taken_;
    taken_ += RoutineScratch::aligned(bytes);
    return part;
  }
  size_t taken() const { return taken_; }

 private:
  std::byte* block_;
  size_t taken_ = 0;
};

/// One array of the primitive: where the program has it, or a copy in the
/// primitive's layout.
class BoundArray {
 public:
  BoundArray(int role, const Descriptor& ours, const Descriptor& theirs,
             std::byte* data, bool written)
      : role_(role), ours_(ours, dnnl_engine().engine, data), theirs_(ours_) {
    if (ours == theirs) return;
    const dnnl::engine& engine = dnnl_engine().engine;
    theirs_ = unplaced(theirs);
    reorder_ = dnnl::reorder(dnnl::reorder::primitive_desc(
        engine, written ? theirs : ours, engine, written ? ours : theirs));
  }

  dnnl_exec_arg_t argument() const { return {role_, theirs_.get()}; }

  /// Where the program's array is, if not where it was at first.
  void place(std::byte* data) { ours_.set_data_handle(data); }
  void place_copy(ScratchParts* scratch) {
    if (!reorder_) return;
    std::byte* const at = scratch->take(theirs_.get_desc().get_size());
    if (at != nullptr) theirs_.set_data_handle(at);
  }

  /// To the copy, or back from there; false when oneDNN failed.
  bool move(bool in) const {
    if (!reorder_) return true;
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_FROM, in ? ours_.get() : theirs_.get()},
        {DNNL_ARG_TO, in ? theirs_.get() : ours_.get()}};
    return dnnl_primitive_execute(reorder_->get(), dnnl_engine().stream.get(),
                                  2, arguments) == dnnl_success;
  }

 private:
  int role_;
  dnnl::memory ours_, theirs_;
  std::optional<dnnl::reorder> reorder_;
};

/// Copies a filter with its taps turned round along some spatial dimensions.
class TapTurner {
 public:
  /// `spatial`: the filter's axes.
  TapTurner(const std::vector<ConvolutionGeometry::Axis>& spatial,
            const std::vector<bool>& turned, const Shape& shape)
      : element_bytes_(element_bytes(shape)), count_(element_count(shape)) {
    for (size_t d = 0; d < spatial.size(); ++d) {
      if (turned[d]) turned_.push_back(spatial[d]);
    }
    run_ = count_;
    for (const auto& axis : turned_) run_ = std::min(run_, axis.stride);
  }

  bool turns() const { return !turned_.empty(); }
  size_t size_bytes() const {
    return static_cast<size_t>(count_) * element_bytes_;
  }

  void copy(const std::byte* from, std::byte* to) const {
    for (int64_t at = 0; at < count_; at += run_) {
      int64_t place = at;
      for (const auto& axis : turned_) {
        const int64_t tap = at / axis.stride % axis.extent;
        place += (axis.extent - 1 - 2 * tap) * axis.stride;
      }
      std::copy_n(from + static_cast<size_t>(place) * element_bytes_,
                  static_cast<size_t>(run_) * element_bytes_,
                  to + static_cast<size_t>(at) * element_bytes_);
    }
  }

 private:
  size_t element_bytes_;
  int64_t count_;
  std::vector<ConvolutionGeometry::Axis> turned_;
  int64_t run_ = 1;  ///< Elements that stay together.
};

}  // namespace

class BoundConvolution::State {
 public:
  State(const ConvolutionProblem& problem, Chosen made,
        const ConvolutionMemory& memory, const ConvolutionGeometry& g,
        const Shape& filter)
      : primitive_(std::move(made.primitive)),
        own_scratch_(unplaced(made.scratch)),
        makes_filter_(problem.is_by_filter()),
        filter_(memory.filter),
        turner_(makes_filter_ ? g.output : g.kernel, problem.turned, filter) {
    // (role, descriptors, memory); the written one comes last.
    const auto add = [&](int role, const Descriptor& ours,
                         const Descriptor& theirs, std::byte* data) {
      arrays_.emplace_back(role, ours, theirs, data, arrays_.size() == 2);
    };
    switch (problem.form) {
      case ConvolutionForm::kForward:
        add(DNNL_ARG_SRC, problem.image, made.image, memory.image);
        add(DNNL_ARG_WEIGHTS, problem.filter, made.filter, memory.filter);
        add(DNNL_ARG_DST, problem.result, made.result, memory.result);
        break;
      case ConvolutionForm::kByInput:
        add(DNNL_ARG_DIFF_DST, problem.result, made.result, memory.result);
        add(DNNL_ARG_WEIGHTS, problem.filter, made.filter, memory.filter);
        add(DNNL_ARG_DIFF_SRC, problem.image, made.image, memory.image);
        break;
      case ConvolutionForm::kByFilter:
      case ConvolutionForm::kByTransposedFilter:
        add(DNNL_ARG_SRC, problem.image, made.image, memory.image);
        add(DNNL_ARG_DIFF_DST, problem.result, made.result, memory.result);
        add(DNNL_ARG_DIFF_WEIGHTS, problem.filter, made.filter, memory.filter);
        break;
    }
    for (const BoundArray& array : arrays_)
      arguments_.push_back(array.argument());
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, own_scratch_.get()});
    scratch_bytes_ = place(nullptr);
  }

  size_t scratch_bytes() const { return scratch_bytes_; }

  /// `scratch`: of so many bytes; false when oneDNN failed.
  bool run(std::byte* scratch) {
    if (placed_ != scratch && !place_now(scratch)) return false;
    const bool turns = turner_.turns();
    if (turns && !makes_filter_) turner_.copy(filter_, turned_);
    for (size_t a = 0; a + 1 < arrays_.size(); ++a) {
      if (!arrays_[a].move(true)) return false;
    }
    if (dnnl_primitive_execute(primitive_.get(), dnnl_engine().stream.get(),
                               static_cast<int>(arguments_.size()),
                               arguments_.data()) != dnnl_success ||
        !arrays_.back().move(false))
      return false;
    if (turns && makes_filter_) turner_.copy(turned_, filter_);
    return true;
  }

 private:
  /// Bytes of scratch; puts all parts into `block` unless it is null.
  size_t place(std::byte* block) {
    ScratchParts parts(block);
    for (BoundArray& array : arrays_) array.place_copy(&parts);
    std::byte* const own = parts.take(own_scratch_.get_desc().get_size());
    if (own != nullptr) own_scratch_.set_data_handle(own);
    if (turner_.turns()) {
      turned_ = parts.take(turner_.size_bytes());
      if (turned_ != nullptr) arrays_[makes_filter_ ? 2 : 1].place(turned_);
    }
    return parts.taken();
  }
  bool place_now(std::byte* scratch) {
    try {
      place(scratch);
    } catch (const dnnl::error&) {
      return false;
    }
    placed_ = scratch;
    return true;
  }

  const std::byte* placed_ = nullptr;  ///< The block that parts lie in.
  size_t scratch_bytes_ = 0;
  dnnl::primitive primitive_;
  dnnl::memory own_scratch_;  ///< oneDNN's.
  bool makes_filter_;
  std::byte* filter_;  ///< The program's.
  TapTurner turner_;
  std::byte* turned_ = nullptr;
  std::vector<BoundArray> arrays_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

BoundConvolution::BoundConvolution(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
BoundConvolution::~BoundConvolution() = default;
BoundConvolution::BoundConvolution(BoundConvolution&&) noexcept = default;
BoundConvolution& BoundConvolution::operator=(BoundConvolution&&) noexcept =
    default;

std::optional<BoundConvolution> BoundConvolution::bind(
    const ConvolutionProblem& problem, const ConvolutionMemory& memory,
    const ConvolutionGeometry& g, const Shape& filter) {
  std::optional<Chosen> made = choose_quickest(problem);
  if (!made) return std::nullopt;
  return BoundConvolution(
      std::make_unique<State>(problem, *std::move(made), memory, g, filter));
}

size_t BoundConvolution::scratch_bytes() const {
  return state_->scratch_bytes();
}
bool BoundConvolution::run(std::byte* scratch) { return state_->run(scratch); }

}  // namespace reprise

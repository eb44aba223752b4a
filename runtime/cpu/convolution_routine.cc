// Convolution in all its forms as a product of matrices, tile by tile: patches
// of the input are gathered, then multiplied by the kernel. Forward, input and
// filter gradients differ in which dimension is contiguous only, so patches are
// gathered along it: rows of features, or, transposed, rows of images or of
// positions.
//
// A tile of patches stays in the second-level cache; sums run over all of the
// depth in order, so results do not depend on the tiles' heights.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "data/kernel/group.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/convolution_geometry.h"
#include "runtime/cpu/exact_sums.h"
#include "runtime/cpu/library_convolution.h"
#include "runtime/cpu/matrix_product.h"
#include "runtime/cpu/routine.h"
#include "runtime/cpu/routine_scratch.h"
#include "runtime/cpu/widened_array.h"

namespace reprise {
namespace {

/// Elements of a tile of patches: 1 MiB of f32 at most; where the arrays are
/// smaller, as many bytes as they take, so that a step of small convolutions
/// takes no multiple of its memory for them, and 32 KiB, a first-level cache.
constexpr int64_t kMostTileElements = 1 << 18, kLeastTileElements = 1 << 13;
constexpr int64_t kMostDepth = 1 << 14;

/// A pair of counts, the second varying faster.
struct Pairs {
  int64_t inner = 1;
  bool swapped = false;  ///< The pair's usual first is the faster one.
};

class Convolution final : public Routine {
 public:
  Convolution(const RoutineCall& call, ConvolutionGeometry geometry,
              SumType sums)
      : g_(std::move(geometry)),
        sums_(sums),
        input_(call.operands[0]),
        kernel_(call.operands[1]),
        out_(call.results[0]),
        input_type_(call.operand_shape(0).type),
        kernel_type_(call.operand_shape(1).type),
        out_type_(call.result_shape(0).type),
        offsets_(g_.offsets()),
        positions_(indices_of(g_.output)),
        taps_(indices_of(g_.kernel)),
        scratch_(call.scratch) {
    // By features, a patch is a row; else features and taps are rows.
    by_feature_ = g_.feature.stride == 1 && g_.feature.extent > 1;
    image_first_ = by_feature_ || g_.batch.stride != 1;
    const bool tap_first =
        by_feature_ || (!g_.kernel.empty() &&
                        g_.kernel_input.stride < g_.kernel.back().stride);
    depth_.inner = tap_first ? g_.feature.extent : g_.taps();
    depth_.swapped = tap_first;
    rows_ = g_.batch.extent * g_.positions();
    deep_ = g_.feature.extent * g_.taps();
    depth_tile_ = std::min(deep_, kMostDepth);
    row_tile_ = std::clamp<int64_t>(tile_elements() / depth_tile_, 1, rows_);
    scratch_->reserve(patches_bytes() + packed_kernel_bytes() + made_bytes());
  }

  bool run() override {
    patches_ = scratch_->data();
    packed_kernel_ = patches_ + patches_bytes();
    made_ = packed_kernel_ + packed_kernel_bytes();
    for (int64_t group = 0; group < g_.groups; ++group) {
      pack_kernel(group);
      for (int64_t row = 0; row < rows_; row += row_tile_) {
        if (!run_tile(group, row, std::min(row_tile_, rows_ - row)))
          return false;
      }
    }
    return true;
  }

 private:
  using Axis = ConvolutionGeometry::Axis;

  int64_t tile_elements() const {
    const size_t bytes = input_.size() + kernel_.size() + out_.size();
    return std::clamp(static_cast<int64_t>(bytes / sum_bytes(sums_)),
                      kLeastTileElements, kMostTileElements);
  }
  size_t sums_bytes(int64_t count) const {
    return RoutineScratch::aligned(static_cast<size_t>(count) *
                                   sum_bytes(sums_));
  }
  size_t patches_bytes() const { return sums_bytes(row_tile_ * depth_tile_); }
  size_t packed_kernel_bytes() const {
    return sums_bytes(deep_ * g_.kernel_output.extent);
  }
  size_t made_bytes() const {
    return sums_bytes(row_tile_ * g_.out_feature.extent);
  }

  /// Multi-indices of all elements of some axes, row-major.
  static std::vector<std::vector<int64_t>> indices_of(
      const std::vector<Axis>& axes) {
    std::vector<int64_t> extents;
    extents.reserve(axes.size());
    for (const Axis& axis : axes) extents.push_back(axis.extent);
    std::vector<std::vector<int64_t>> indices;
    IndexCounter index(extents);
    do {
      indices.emplace_back();
      for (size_t d = 0; d < axes.size(); ++d)
        indices.back().push_back(index[d]);
    } while (index.next());
    return indices;
  }

  struct Depth {
    int64_t feature = 0, tap = 0;
  };
  Depth depth_at(int64_t k) const {
    const int64_t outer = k / depth_.inner, inner = k % depth_.inner;
    return depth_.swapped ? Depth{inner, outer} : Depth{outer, inner};
  }
  struct Row {
    int64_t image = 0, position = 0;
  };
  Row row_at(int64_t m) const {
    if (image_first_) return {m / g_.positions(), m % g_.positions()};
    return {m % g_.batch.extent, m / g_.batch.extent};
  }

  /// Where tap `tap` reads at `position`; -1: nowhere.
  int64_t offset(int64_t position, int64_t tap) const {
    const auto& p = positions_[static_cast<size_t>(position)];
    const auto& t = taps_[static_cast<size_t>(tap)];
    int64_t sum = 0;
    for (size_t d = 0; d < offsets_.size(); ++d) {
      const int64_t along =
          offsets_[d][static_cast<size_t>(p[d] * g_.kernel[d].extent + t[d])];
      if (along < 0) return -1;
      sum += along;
    }
    return sum;
  }

  /// How many positions from one on, along the last dimension, read nowhere, or
  /// read elements `stride` apart.
  int64_t positions_alike(int64_t position, int64_t tap, int64_t most,
                          int64_t* stride) const {
    if (g_.output.empty()) return 1;
    const int64_t at = positions_[static_cast<size_t>(position)].back();
    const int64_t taps = g_.kernel.back().extent;
    const int64_t* const along = offsets_.back().data() + at * taps +
                                 taps_[static_cast<size_t>(tap)].back();
    most = std::min(most, g_.output.back().extent - at);
    int64_t run = 1;
    if (along[0] < 0) {
      while (run < most && along[run * taps] < 0) ++run;
      return run;
    }
    if (most > 1) *stride = along[taps] - along[0];
    while (run < most && along[run * taps] >= 0 &&
           along[run * taps] - along[(run - 1) * taps] == *stride)
      ++run;
    return run;
  }

  void load(int64_t from, int64_t stride, int64_t count, std::byte* to) const {
    load_sums(sums_, input_type_,
              input_.data() + from * primitive_type_bits(input_type_) / 8,
              stride, count, to);
  }
  void clear(int64_t count, std::byte* to) const {
    std::memset(to, 0, static_cast<size_t>(count) * sum_bytes(sums_));
  }

  /// Patches [row, row + rows) × [from, from + depth), a patch a row.
  void gather_by_feature(int64_t group, int64_t row, int64_t rows, int64_t from,
                         int64_t depth) {
    std::byte* to = patches_;
    const int64_t base = group * g_.input_step;
    for (int64_t m = row; m < row + rows; ++m) {
      const Row at = row_at(m);
      for (int64_t k = from; k < from + depth;) {
        const Depth d = depth_at(k);
        const int64_t run =
            std::min(g_.feature.extent - d.feature, from + depth - k);
        const int64_t place = offset(at.position, d.tap);
        if (place < 0) {
          clear(run, to);
        } else {
          load(base + at.image * g_.batch.stride + place + d.feature, 1, run,
               to);
        }
        to += static_cast<size_t>(run) * sum_bytes(sums_);
        k += run;
      }
    }
  }

  /// The same transposed: a row for each depth, along images or positions.
  void gather_by_row(int64_t group, int64_t row, int64_t rows, int64_t from,
                     int64_t depth) {
    std::byte* to = patches_;
    for (int64_t k = from; k < from + depth; ++k) {
      const Depth d = depth_at(k);
      const int64_t base =
          group * g_.input_step + d.feature * g_.feature.stride;
      for (int64_t m = row; m < row + rows;) {
        const Row at = row_at(m);
        const int64_t place = offset(at.position, d.tap);
        int64_t run = std::min(g_.batch.extent - at.image, row + rows - m);
        int64_t stride = g_.batch.stride;
        if (image_first_)
          run = positions_alike(at.position, d.tap, row + rows - m, &stride);
        if (place < 0) {
          clear(run, to);
        } else {
          load(base + at.image * g_.batch.stride + place, stride, run, to);
        }
        to += static_cast<size_t>(run) * sum_bytes(sums_);
        m += run;
      }
    }
  }

  /// [depth, output feature], in the order of the patches.
  void pack_kernel(int64_t group) {
    std::byte* to = packed_kernel_;
    const int64_t bytes = primitive_type_bits(kernel_type_) / 8;
    for (int64_t k = 0; k < deep_; ++k) {
      const Depth d = depth_at(k);
      int64_t place =
          group * g_.kernel_step + d.feature * g_.kernel_input.stride;
      const auto& tap = taps_[static_cast<size_t>(d.tap)];
      for (size_t s = 0; s < tap.size(); ++s)
        place += tap[s] * g_.kernel[s].stride;
      load_sums(sums_, kernel_type_, kernel_.data() + place * bytes,
                g_.kernel_output.stride, g_.kernel_output.extent, to);
      to += static_cast<size_t>(g_.kernel_output.extent) * sum_bytes(sums_);
    }
  }

  bool run_tile(int64_t group, int64_t row, int64_t rows) {
    const int64_t columns = g_.out_feature.extent;
    for (int64_t from = 0; from < deep_; from += depth_tile_) {
      const int64_t depth = std::min(depth_tile_, deep_ - from);
      if (by_feature_) {
        gather_by_feature(group, row, rows, from, depth);
      } else {
        gather_by_row(group, row, rows, from, depth);
      }
      const SumMatrix patches{patches_, by_feature_ ? depth : rows,
                              !by_feature_};
      const SumMatrix kernel{
          packed_kernel_ +
              static_cast<size_t>(from * columns) * sum_bytes(sums_),
          columns, false};
      if (!multiply(sums_, rows, columns, depth, patches, kernel, made_,
                    columns, from > 0)) {
        return false;
      }
    }
    write(group, row, rows);
    return true;
  }

  void write(int64_t group, int64_t row, int64_t rows) {
    const int64_t columns = g_.out_feature.extent;
    const int64_t bytes = primitive_type_bits(out_type_) / 8;
    for (int64_t m = 0; m < rows; ++m) {
      const Row at = row_at(row + m);
      int64_t place = group * g_.output_step + at.image * g_.out_batch.stride;
      const auto& position = positions_[static_cast<size_t>(at.position)];
      for (size_t d = 0; d < position.size(); ++d)
        place += position[d] * g_.output[d].stride;
      store_sums(sums_,
                 made_ + static_cast<size_t>(m * columns) * sum_bytes(sums_),
                 columns, out_type_, out_.data() + place * bytes,
                 g_.out_feature.stride);
    }
  }

  ConvolutionGeometry g_;
  SumType sums_;
  std::span<std::byte> input_, kernel_, out_;
  PrimitiveType input_type_, kernel_type_, out_type_;
  std::vector<std::vector<int64_t>> offsets_;
  std::vector<std::vector<int64_t>> positions_, taps_;  ///< Multi-indices.
  bool by_feature_ = true;   ///< Patches are rows of contiguous features.
  bool image_first_ = true;  ///< Rows: positions vary faster than images.
  Pairs depth_;
  int64_t rows_ = 0, deep_ = 0, row_tile_ = 1, depth_tile_ = 1;
  RoutineScratch* scratch_;
  std::byte *patches_ = nullptr, *packed_kernel_ = nullptr, *made_ = nullptr;
};

/// Floats of up to 32 bits, f16 among them.
bool is_of_f16(const std::array<PrimitiveType, 3>& types) {
  return std::all_of(types.begin(), types.end(),
                     [](PrimitiveType type) {
                       return type == PrimitiveType::kF32 || is_half(type);
                     }) &&
         std::find(types.begin(), types.end(), PrimitiveType::kF16) !=
             types.end();
}

/// Whether f32 adds up all products of small integers exactly.
bool is_exact_in_f32(const RoutineCall& call, const ConvolutionGeometry& g) {
  const PrimitiveType out = call.result_shape(0).type;
  return (out == PrimitiveType::kS32 || out == PrimitiveType::kS64) &&
         g.feature.extent * g.taps() <=
             exact_depth(call.entry, call.instruction);
}

/// One over copies in f32: of f16, which oneDNN 2.6.3 has not, rounded once, as
/// XLA:CPU makes it; of small integers, whose sums f32 holds.
class WidenedConvolution final : public Routine {
 public:
  static Result<std::unique_ptr<Routine>> make(const RoutineCall& call) {
    auto made = std::make_unique<WidenedConvolution>();
    Instruction convolution = call.instruction;
    RoutineCall widened = call;
    for (size_t i = 0; i < 2; ++i) {
      Instruction operand;
      operand.parameter_number = static_cast<int64_t>(i);
      operand.shape = call.operand_shape(i);
      widened.operands[i] = made->widen(&operand.shape, call.operands[i]);
      made->entry_.instructions.push_back(std::move(operand));
      convolution.operands[i] = InstructionId{static_cast<uint32_t>(i)};
    }
    widened.results[0] = made->widen(&convolution.shape, call.results[0]);
    made->entry_.instructions.push_back(std::move(convolution));
    Result<std::unique_ptr<Routine>> inner =
        make_convolution({.entry = made->entry_,
                          .instruction = made->entry_.instructions.back(),
                          .spec = widened.spec,
                          .operands = widened.operands,
                          .results = widened.results,
                          .workspace = widened.workspace,
                          .kernels = widened.kernels,
                          .scratch = widened.scratch,
                          .team = widened.team});
    if (!inner) return inner;
    made->inner_ = *std::move(inner);
    return made;
  }

  bool run() override {
    arrays_[0].load();
    arrays_[1].load();
    if (!inner_->run()) return false;
    arrays_[2].store();
    return true;
  }

 private:
  std::span<std::byte> widen(Shape* shape, std::span<std::byte> bytes) {
    WidenedArray& array = arrays_.emplace_back(shape->type, bytes);
    shape->type = PrimitiveType::kF32;
    return {reinterpret_cast<std::byte*>(array.data()),
            array.size() * sizeof(float)};
  }

  Computation entry_;  ///< Two parameters and the convolution.
  std::vector<WidenedArray> arrays_;
  std::unique_ptr<Routine> inner_;
};

}  // namespace

Result<std::unique_ptr<Routine>> make_convolution(const RoutineCall& call) {
  Result<ConvolutionGeometry> geometry = convolution_geometry(call);
  if (!geometry) return pass(geometry.error());
  const Shape &input = call.operand_shape(0), &kernel = call.operand_shape(1),
              &out = call.result_shape(0);
  for (const Shape* shape : {&input, &kernel, &out}) {
    if (!is_kernel_type(shape->type)) {
      return fail(ErrorKind::kUnsupported, "a convolution of {} does not run",
                  primitive_type_name(shape->type));
    }
  }
  if (is_of_f16({input.type, kernel.type, out.type}) ||
      is_exact_in_f32(call, *geometry))
    return WidenedConvolution::make(call);
  if (auto library = make_library_convolution(call, *geometry)) return library;
  return std::make_unique<Convolution>(
      call, *std::move(geometry), sum_type(input.type, kernel.type, out.type));
}

}  // namespace reprise

// Dots that are no strided matrices of f32: any dimension numbers, any types.
// Operands are packed as [batch, free, contracting] or [batch, contracting,
// free] in the type of the sums; the result has those dimensions in order, made
// by blocks of rows, which threads share.
// Products of 8-bit integers are oneDNN's in f32, in runs so short that each
// sum is exact, and added up as integers: its own products of such saturate on
// processors without VNNI.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/group.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/exact_sums.h"
#include "runtime/cpu/matrix_product.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

/// One operand, to be packed.
struct DotOperand {
  PrimitiveType type = PrimitiveType::kF32;
  std::span<const std::byte> source;
  std::vector<int64_t> extents, strides;  ///< As packed.
  int64_t batch = 1, rows = 1, depth = 1;
  bool depth_first = false;  ///< Contracting before free dimensions.
  bool in_place = false;     ///< It is packed as it lies.
  std::vector<std::byte> packed;

  DotOperand(const Shape& shape, std::span<const std::byte> bytes,
             const std::vector<int64_t>& batches,
             const std::vector<int64_t>& contracting, SumType sums,
             bool by_library, bool is_right)
      : type(shape.type), source(bytes) {
    const std::vector<int64_t> all = element_strides(shape);
    const auto add = [&](size_t d, int64_t* count) {
      extents.push_back(shape.dimensions[d]);
      strides.push_back(all[d]);
      *count *= shape.dimensions[d];
    };
    const auto is_in = [](const std::vector<int64_t>& list, size_t d) {
      return std::find(list.begin(), list.end(), static_cast<int64_t>(d)) !=
             list.end();
    };
    // Libraries take both orders, so that of memory; our own loops run over
    // neighbours on the right.
    const size_t innermost = shape.dimensions.size() - 1;
    depth_first = by_library ? !shape.dimensions.empty() &&
                                   !is_in(contracting, innermost) &&
                                   !is_in(batches, innermost)
                             : is_right;
    for (const int64_t d : batches) add(static_cast<size_t>(d), &batch);
    const auto add_free = [&] {
      for (size_t d = 0; d < shape.dimensions.size(); ++d) {
        if (!is_in(batches, d) && !is_in(contracting, d)) add(d, &rows);
      }
    };
    if (!depth_first) add_free();
    for (const int64_t d : contracting) add(static_cast<size_t>(d), &depth);
    if (depth_first) add_free();
    in_place = by_library && is_summed_in(sums) &&
               std::is_sorted(strides.begin(), strides.end(), std::greater<>());
    merge_runs();
    if (!in_place) {
      packed.resize(static_cast<size_t>(batch * rows * depth) *
                    sum_bytes(sums));
    }
  }

  /// Whether elements are as sums are.
  bool is_summed_in(SumType sums) const {
    return type ==
           (sums == SumType::kF64 ? PrimitiveType::kF64 : PrimitiveType::kF32);
  }

  /// Dimensions that follow each other in memory become one, so that small
  /// matrices are not packed row by row.
  void merge_runs() {
    for (size_t d = extents.size(); d-- > 1;) {
      if (strides[d - 1] != strides[d] * extents[d]) continue;
      extents[d - 1] *= extents[d];
      strides[d - 1] = strides[d];
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(d));
      strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(d));
    }
  }

  /// From an index of a batch, a row and a place along the depth on.
  const std::byte* data(int64_t at, int64_t row, int64_t along,
                        SumType sums) const {
    const std::byte* const first = in_place ? source.data() : packed.data();
    const int64_t place =
        at * rows * depth +
        (depth_first ? along * rows + row : row * depth + along);
    return first + place * static_cast<int64_t>(sum_bytes(sums));
  }
  int64_t leading() const { return depth_first ? rows : depth; }

  void pack(SumType sums) {
    if (in_place) return;
    std::vector<int64_t> outer = extents, steps = strides;
    int64_t run = 1, stride = 1;
    if (!outer.empty()) {
      run = outer.back();
      stride = steps.back();
      outer.pop_back();
      steps.pop_back();
    }
    IndexCounter index(outer);
    std::byte* to = packed.data();
    const int64_t bytes = primitive_type_bits(type) / 8;
    do {
      load_sums(sums, type, source.data() + offset_of(index, steps) * bytes,
                stride, run, to);
      to += static_cast<size_t>(run) * sum_bytes(sums);
    } while (index.next());
  }
};

/// Whether a library makes the product of one matrix of the batch.
bool is_by_library(SumType sums, const Shape& lhs, const Shape& rhs,
                   const DotDimensions& numbers) {
  const auto extent = [&](const std::vector<int64_t>& dimensions) {
    int64_t product = 1;
    for (const int64_t d : dimensions)
      product *= lhs.dimensions[static_cast<size_t>(d)];
    return product;
  };
  const int64_t batch = extent(numbers.lhs_batch),
                depth = extent(numbers.lhs_contracting);
  const int64_t matrix = std::max<int64_t>(batch * depth, 1);
  return is_library_product(sums, element_count(lhs) / matrix,
                            element_count(rhs) / matrix, depth);
}

class GeneralDot final : public Routine {
 public:
  /// `sums`: what operands are packed in. `run`: of exact_depth, or 0.
  GeneralDot(const RoutineCall& call, SumType sums, int64_t run,
             const DotDimensions& numbers, bool by_library)
      : sums_(sums),
        is_library_(by_library),
        run_(run),
        lhs_(call.operand_shape(0), call.operands[0], numbers.lhs_batch,
             numbers.lhs_contracting, sums, by_library, false),
        rhs_(call.operand_shape(1), call.operands[1], numbers.rhs_batch,
             numbers.rhs_contracting, sums, by_library, true),
        type_(call.result_shape(0).type),
        out_(call.results[0]),
        rows_at_once_(std::clamp<int64_t>(
            kAtOnce / std::max<int64_t>(rhs_.rows, 1), kFewRows, kManyRows)),
        blocks_((lhs_.rows + rows_at_once_ - 1) / rows_at_once_) {
    const double products = static_cast<double>(lhs_.batch * lhs_.rows) *
                            static_cast<double>(rhs_.rows * lhs_.depth);
    const auto most = static_cast<size_t>(lhs_.batch * blocks_);
    shared_ = {call.team, call.team.parts(products / products_per_ns(), most)};
    works_.resize(shared_.count());
    const auto elements =
        static_cast<size_t>(std::min(rows_at_once_, lhs_.rows) * rhs_.rows);
    for (Work& work : works_) {
      if (!writes_sums()) work.made.resize(elements * sum_bytes(sums_));
      if (run_ != 0) work.added.resize(elements);
    }
  }

  bool run() override {
    lhs_.pack(sums_);
    rhs_.pack(sums_);
    const auto run_part = [&](size_t part, size_t parts) {
      const int64_t all = lhs_.batch * blocks_;
      const auto border = [&](size_t at) {
        return all * static_cast<int64_t>(at) / static_cast<int64_t>(parts);
      };
      for (int64_t i = border(part); i < border(part + 1); ++i) {
        if (!make_block(i / blocks_, i % blocks_ * rows_at_once_, works_[part]))
          return false;
      }
      return true;
    };
    return shared_.run(
        [&] { return run_part(0, 1); },
        [&](size_t part) { return run_part(part, works_.size()); });
  }

 private:
  /// Of one part: products of a block, and their sums where those are exact.
  struct Work {
    std::vector<std::byte> made;
    std::vector<int64_t> added;
  };

  /// Elements of a block of rows, which fit into a core's cache between the two
  /// passes over them. A block does not depend on the number of threads, as
  /// oneDNN's sums may on its rows.
  static constexpr int64_t kAtOnce = 1 << 16, kFewRows = 16, kManyRows = 256;

  /// Of one core, to an order of magnitude.
  double products_per_ns() const {
    constexpr double kOfF32 = 25, kOfF64 = 12, kOwn = 4;
    if (!is_library_) return kOwn;
    return sums_ == SumType::kF32 ? kOfF32 : kOfF64;
  }

  bool writes_sums() const {
    return sums_ == SumType::kF64 ? type_ == PrimitiveType::kF64
                                  : type_ == PrimitiveType::kF32;
  }

  bool make_block(int64_t b, int64_t row, Work& work) const {
    const int64_t rows = std::min(rows_at_once_, lhs_.rows - row);
    const int64_t place = (b * lhs_.rows + row) * rhs_.rows;
    std::byte* const target =
        out_.data() + place * (primitive_type_bits(type_) / 8);
    return run_ == 0 ? make_rows(b, row, rows, work, target)
                     : add_rows(b, row, rows, work, target);
  }

  bool multiply_rows(int64_t b, int64_t row, int64_t rows, int64_t along,
                     int64_t depth, std::byte* to) const {
    return multiply(
        sums_, rows, rhs_.rows, depth,
        {lhs_.data(b, row, along, sums_), lhs_.leading(), lhs_.depth_first},
        {rhs_.data(b, 0, along, sums_), rhs_.leading(), !rhs_.depth_first}, to,
        rhs_.rows, false);
  }

  bool make_rows(int64_t b, int64_t row, int64_t rows, Work& work,
                 std::byte* target) const {
    if (writes_sums())
      return multiply_rows(b, row, rows, 0, lhs_.depth, target);
    if (!multiply_rows(b, row, rows, 0, lhs_.depth, work.made.data()))
      return false;
    store_sums(sums_, work.made.data(), rows * rhs_.rows, type_, target, 1);
    return true;
  }

  bool add_rows(int64_t b, int64_t row, int64_t rows, Work& work,
                std::byte* target) const {
    const int64_t elements = rows * rhs_.rows;
    std::fill_n(work.added.begin(), elements, 0);
    for (int64_t along = 0; along < lhs_.depth; along += run_) {
      if (!multiply_rows(b, row, rows, along,
                         std::min(run_, lhs_.depth - along), work.made.data()))
        return false;
      const auto* sums = reinterpret_cast<const float*>(work.made.data());
      for (int64_t i = 0; i < elements; ++i)
        work.added[static_cast<size_t>(i)] += static_cast<int32_t>(sums[i]);
    }
    store_sums(SumType::kInteger,
               reinterpret_cast<const std::byte*>(work.added.data()), elements,
               type_, target, 1);
    return true;
  }

  SumType sums_;
  bool is_library_;
  int64_t run_;
  DotOperand lhs_, rhs_;
  PrimitiveType type_;
  std::span<std::byte> out_;
  int64_t rows_at_once_;
  int64_t blocks_;  ///< Of a matrix's rows.
  SharedParts shared_;
  std::vector<Work> works_;  ///< [part]
};

}  // namespace

Result<std::unique_ptr<Routine>> make_general_dot(const RoutineCall& call) {
  const Shape &a = call.operand_shape(0), &b = call.operand_shape(1),
              &out = call.result_shape(0);
  for (const Shape* shape : {&a, &b, &out}) {
    if (!is_kernel_type(shape->type)) {
      return fail(ErrorKind::kUnsupported, "a dot of {} does not run",
                  primitive_type_name(shape->type));
    }
  }
  const SumType sums = sum_type(a.type, b.type, out.type);
  const int64_t run = sums == SumType::kInteger32 || sums == SumType::kInteger
                          ? exact_depth(call.entry, call.instruction)
                          : 0;
  const SumType packed = run == 0 ? sums : SumType::kF32;
  const DotDimensions numbers = dot_dimensions(call.instruction);
  return std::make_unique<GeneralDot>(call, packed, run, numbers,
                                      is_by_library(packed, a, b, numbers));
}

}  // namespace reprise

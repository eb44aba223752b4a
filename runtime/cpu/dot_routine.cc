// Dots that are no strided matrices of f32: any dimension numbers, any types.
// Operands are packed as [batch, free, contracting] in the type of the sums;
// the result has those dimensions in order.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/group.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/matrix_product.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

/// One operand, to be packed.
struct DotOperand {
  PrimitiveType type = PrimitiveType::kF32;
  std::span<const std::byte> source;
  std::vector<int64_t> extents, strides;  ///< Batch, free, contracting.
  int64_t batch = 1, rows = 1, depth = 1;
  bool in_place = false;  ///< It is packed as it lies.
  std::vector<std::byte> packed;

  DotOperand(const Shape& shape, std::span<const std::byte> bytes,
             const std::vector<int64_t>& batches,
             const std::vector<int64_t>& contracting, SumType sums)
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
    for (const int64_t d : batches) add(static_cast<size_t>(d), &batch);
    for (size_t d = 0; d < shape.dimensions.size(); ++d) {
      if (!is_in(batches, d) && !is_in(contracting, d)) add(d, &rows);
    }
    for (const int64_t d : contracting) add(static_cast<size_t>(d), &depth);
    in_place = sums == SumType::kF32 && type == PrimitiveType::kF32 &&
               std::is_sorted(strides.begin(), strides.end(), std::greater<>());
    if (!in_place) {
      packed.resize(static_cast<size_t>(batch * rows * depth) *
                    sum_bytes(sums));
    }
  }

  const std::byte* data() const {
    return in_place ? source.data() : packed.data();
  }

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

class GeneralDot final : public Routine {
 public:
  GeneralDot(const RoutineCall& call, SumType sums,
             const DotDimensions& numbers)
      : sums_(sums),
        lhs_(call.operand_shape(0), call.operands[0], numbers.lhs_batch,
             numbers.lhs_contracting, sums),
        rhs_(call.operand_shape(1), call.operands[1], numbers.rhs_batch,
             numbers.rhs_contracting, sums),
        type_(call.result_shape(0).type),
        out_(call.results[0]) {
    if (!writes_sums()) {
      made_.resize(static_cast<size_t>(lhs_.rows * rhs_.rows) *
                   sum_bytes(sums_));
    }
  }

  bool run() override {
    lhs_.pack(sums_);
    rhs_.pack(sums_);
    const auto bytes = static_cast<int64_t>(sum_bytes(sums_));
    const int64_t m = lhs_.rows, n = rhs_.rows, k = lhs_.depth;
    const int64_t out_bytes = primitive_type_bits(type_) / 8;
    for (int64_t b = 0; b < lhs_.batch; ++b) {
      std::byte* target = out_.data() + b * m * n * out_bytes;
      std::byte* made = writes_sums() ? target : made_.data();
      if (!multiply(sums_, m, n, k, {lhs_.data() + b * m * k * bytes, k, false},
                    {rhs_.data() + b * n * k * bytes, k, true}, made, n,
                    false)) {
        return false;
      }
      if (!writes_sums()) store_sums(sums_, made, m * n, type_, target, 1);
    }
    return true;
  }

 private:
  bool writes_sums() const {
    return sums_ == SumType::kF32 && type_ == PrimitiveType::kF32;
  }

  SumType sums_;
  DotOperand lhs_, rhs_;
  PrimitiveType type_;
  std::span<std::byte> out_;
  std::vector<std::byte> made_;
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
  return std::make_unique<GeneralDot>(call, sum_type(a.type, b.type, out.type),
                                      dot_dimensions(call.instruction));
}

}  // namespace reprise

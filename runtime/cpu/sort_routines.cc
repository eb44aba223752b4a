// Sort by a comparator, stable always (which an unstable sort may be), and the
// k largest or smallest of each row.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "data/hlo/hlo.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/routine.h"
#include "runtime/cpu/scalar_function.h"

namespace reprise {
namespace {

class Sort final : public Routine {
 public:
  Sort(const RoutineCall& call, ScalarFunction comparator, size_t dimension)
      : call_(call), comparator_(std::move(comparator)) {
    const Shape& shape = call.operand_shape(0);
    extents_ = shape.dimensions;
    strides_ = element_strides(shape);
    if (extents_.empty()) return;  // A scalar is sorted.
    count_ = std::exchange(extents_[dimension], 1);
    step_ = strides_[dimension];
    order_.resize(static_cast<size_t>(count_));
    for (size_t a = 0; a < call.operands.size(); ++a)
      bytes_.push_back(element_bytes(call.operand_shape(a)));
  }

  bool run() override {
    if (bytes_.empty()) {
      for (size_t a = 0; a < call_.results.size(); ++a) {
        std::memcpy(call_.results[a].data(), call_.operands[a].data(),
                    call_.results[a].size());
      }
      return true;
    }
    comparator_.set_output(0, &less_);
    IndexCounter row(extents_);
    do {
      sort_row(offset_of(row, strides_));
    } while (row.next());
    return true;
  }

 private:
  void sort_row(int64_t start) {
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t x, int64_t y) {
      return is_less(start, x, y);
    });
    for (size_t a = 0; a < bytes_.size(); ++a) {
      if (call_.results[a].empty()) continue;
      for (int64_t i = 0; i < count_; ++i) {
        std::memcpy(
            place(call_.results[a], a, start, i),
            place(call_.operands[a], a, start, order_[static_cast<size_t>(i)]),
            bytes_[a]);
      }
    }
  }

  bool is_less(int64_t start, int64_t x, int64_t y) {
    for (size_t a = 0; a < bytes_.size(); ++a) {
      comparator_.set_parameter(2 * a, place(call_.operands[a], a, start, x));
      comparator_.set_parameter(2 * a + 1,
                                place(call_.operands[a], a, start, y));
    }
    comparator_.call();
    return less_ != std::byte{0};
  }

  std::byte* place(std::span<std::byte> array, size_t a, int64_t start,
                   int64_t at) const {
    return array.data() + static_cast<size_t>(start + at * step_) * bytes_[a];
  }

  RoutineCall call_;
  ScalarFunction comparator_;
  std::vector<int64_t> extents_, strides_;  ///< Of rows: the sorted one is 1.
  int64_t count_ = 1, step_ = 1;
  std::vector<size_t> bytes_;  ///< [array] Of an element.
  std::vector<int64_t> order_;
  std::byte less_{};
};

/// A key that orders elements of a type as XLA does: floats by their bits, so
/// that -0 is less than 0 and NaN stands at the ends.
uint64_t order_key(PrimitiveType type, const std::byte* place) {
  const int width = primitive_type_bits(type);
  uint64_t bits = 0;
  std::memcpy(&bits, place, static_cast<size_t>(width) / 8);
  const uint64_t sign = uint64_t{1} << (width - 1);
  switch (type) {
    case PrimitiveType::kBF16:
    case PrimitiveType::kF16:
    case PrimitiveType::kF32:
    case PrimitiveType::kF64:
      return (bits & sign) != 0 ? ~bits & (2 * sign - 1) : bits | sign;
    case PrimitiveType::kS8:
    case PrimitiveType::kS16:
    case PrimitiveType::kS32:
    case PrimitiveType::kS64:
      return bits ^ sign;
    default:
      return bits;
  }
}

class TopK final : public Routine {
 public:
  TopK(const RoutineCall& call, int64_t k, bool largest)
      : call_(call), k_(k), largest_(largest) {
    const Shape& shape = call.operand_shape(0);
    type_ = shape.type;
    bytes_ = element_bytes(shape);
    count_ = shape.dimensions.back();
    keys_.resize(static_cast<size_t>(count_));
    order_.resize(static_cast<size_t>(count_));
  }

  bool run() override {
    const auto row_bytes = static_cast<size_t>(count_) * bytes_;
    const size_t rows =
        call_.operands[0].size() / std::max<size_t>(row_bytes, 1);
    for (size_t row = 0; row < rows; ++row) {
      const std::byte* from = call_.operands[0].data() + row * row_bytes;
      for (size_t i = 0; i < keys_.size(); ++i)
        keys_[i] = order_key(type_, from + i * bytes_);
      std::iota(order_.begin(), order_.end(), int32_t{0});
      std::partial_sort(order_.begin(), order_.begin() + k_, order_.end(),
                        [&](int32_t x, int32_t y) { return precedes(x, y); });
      write_row(row, from);
    }
    return true;
  }

 private:
  bool precedes(int32_t x, int32_t y) const {
    const uint64_t a = keys_[static_cast<size_t>(x)],
                   b = keys_[static_cast<size_t>(y)];
    if (a != b) return largest_ ? a > b : a < b;
    return x < y;
  }

  void write_row(size_t row, const std::byte* from) {
    const auto k = static_cast<size_t>(k_);
    if (!call_.results[0].empty()) {
      std::byte* to = call_.results[0].data() + row * k * bytes_;
      for (size_t i = 0; i < k; ++i) {
        std::memcpy(to + i * bytes_,
                    from + static_cast<size_t>(order_[i]) * bytes_, bytes_);
      }
    }
    if (!call_.results[1].empty()) {
      std::memcpy(call_.results[1].data() + row * k * sizeof(int32_t),
                  order_.data(), k * sizeof(int32_t));
    }
  }

  RoutineCall call_;
  PrimitiveType type_ = PrimitiveType::kF32;
  size_t bytes_ = 4;
  int64_t count_ = 0, k_;
  bool largest_;
  std::vector<uint64_t> keys_;
  std::vector<int32_t> order_;
};

std::string raw_value(const Instruction& instruction, const char* name) {
  const Attribute* found = instruction.find_attribute(name);
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string() : raw->text;
}

}  // namespace

Result<std::unique_ptr<Routine>> make_sort(const RoutineCall& call) {
  const size_t arrays = call.operands.size();
  const std::vector<int64_t> dimensions =
      integer_list(call.instruction, "dimensions");
  const size_t rank = call.operand_shape(0).dimensions.size();
  if (call.results.size() != arrays || dimensions.size() > 1 ||
      (rank > 0 && (dimensions.empty() || dimensions[0] < 0 ||
                    static_cast<size_t>(dimensions[0]) >= rank))) {
    return fail(ErrorKind::kInvalid, "a sort of {} arrays along {} dimensions",
                arrays, dimensions.size());
  }
  Result<ScalarFunction> comparator =
      ScalarFunction::bind(call, 0, 2 * arrays, 1);
  if (!comparator) return pass(comparator.error());
  return std::make_unique<Sort>(
      call, std::move(*comparator),
      dimensions.empty() ? 0 : static_cast<size_t>(dimensions[0]));
}

Result<std::unique_ptr<Routine>> make_top_k(const RoutineCall& call) {
  const Shape& shape = call.instruction.shape;
  const bool fits = call.operands.size() == 1 && shape.elements.size() == 2 &&
                    shape.elements[1].type == PrimitiveType::kS32 &&
                    !shape.elements[0].dimensions.empty() &&
                    call.operand_shape(0).dimensions.size() ==
                        shape.elements[0].dimensions.size() &&
                    shape.elements[0].dimensions.back() <=
                        call.operand_shape(0).dimensions.back();
  if (!fits) {
    return fail(ErrorKind::kUnsupported,
                "top-k other than of one array giving values and s32 indices");
  }
  const bool largest = raw_value(call.instruction, "largest") != "false";
  return std::make_unique<TopK>(call, shape.elements[0].dimensions.back(),
                                largest);
}

}  // namespace reprise

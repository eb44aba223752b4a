// The order in which the exchanges of an LU factorization leave rows.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

/// pivots[j], from 0: the row exchanged with row j, in turn.
class Permutation final : public Routine {
 public:
  explicit Permutation(const RoutineCall& call)
      : pivots_(call.operands[0]),
        result_(call.results[0]),
        exchanges_(extent(call.operand_shape(0))),
        rows_(extent(call.result_shape(0))) {}

  bool run() override {
    std::vector<int32_t> order(rows_), pivots(exchanges_);
    const size_t matrices = result_.size() / (rows_ * sizeof(int32_t));
    for (size_t m = 0; m < matrices; ++m) {
      std::memcpy(pivots.data(), pivots_.data() + m * bytes_of(pivots),
                  bytes_of(pivots));
      std::iota(order.begin(), order.end(), 0);
      for (size_t j = 0; j < exchanges_; ++j) {
        const auto other = static_cast<size_t>(pivots[j]);
        if (other < rows_) std::swap(order[j], order[other]);
      }
      std::memcpy(result_.data() + m * bytes_of(order), order.data(),
                  bytes_of(order));
    }
    return true;
  }

 private:
  static size_t extent(const Shape& shape) {
    return static_cast<size_t>(shape.dimensions.back());
  }
  static size_t bytes_of(const std::vector<int32_t>& values) {
    return values.size() * sizeof(int32_t);
  }

  std::span<const std::byte> pivots_;
  std::span<std::byte> result_;
  size_t exchanges_, rows_;
};

/// s32 of the same batch, as many exchanges as rows or fewer.
bool fits(const Shape& pivots, const Shape& order) {
  return pivots.type == PrimitiveType::kS32 && order.type == pivots.type &&
         !pivots.dimensions.empty() &&
         pivots.dimensions.size() == order.dimensions.size() &&
         std::equal(pivots.dimensions.begin(), pivots.dimensions.end() - 1,
                    order.dimensions.begin()) &&
         pivots.dimensions.back() <= order.dimensions.back();
}

}  // namespace

Result<std::unique_ptr<Routine>> make_permutation(const RoutineCall& call) {
  if (call.operands.size() != 1 || call.results.size() != 1 ||
      !fits(call.operand_shape(0), call.result_shape(0))) {
    return fail(ErrorKind::kInvalid, "pivots and order do not fit together");
  }
  return std::make_unique<Permutation>(call);
}

}  // namespace reprise

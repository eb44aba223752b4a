// Reduce and scatter as no kernel has them: of several arrays at once, such as
// a maximum with its index, or by other than one operation. A call of the
// reducer takes an element of each of many results; a scatter's takes one
// update, after the one before in row-major order.
#include <algorithm>
#include <cstring>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/schedule/lane_function.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/extreme_index.h"
#include "runtime/cpu/reducer_call.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

bool holds(const std::vector<int64_t>& list, size_t dimension) {
  return std::find(list.begin(), list.end(), static_cast<int64_t>(dimension)) !=
         list.end();
}

/// Results side by side, elements of each in row-major order.
class Reduce final : public Routine {
 public:
  Reduce(const RoutineCall& call, ReducerCall reducer)
      : call_(call), reducer_(std::move(reducer)) {
    const Shape& operand = call.operand_shape(0);
    const std::vector<int64_t> reduced =
        integer_list(call.instruction, "dimensions");
    const std::vector<int64_t> strides = element_strides(operand);
    for (size_t d = 0; d < operand.dimensions.size(); ++d) {
      Dimensions& among = holds(reduced, d) ? reduced_ : kept_;
      among.extents.push_back(operand.dimensions[d]);
      among.strides.push_back(strides[d]);
    }
    IndexCounter index(reduced_.extents);
    do {
      offsets_.push_back(offset_of(index, reduced_.strides));
    } while (index.next());
  }

  bool run() override {
    reducer_.fill(call_, call_.results.size());
    const int64_t results = element_count(call_.result_shape(0));
    IndexCounter result(kept_.extents);
    std::vector<int64_t> to, first;
    for (int64_t r = 0; r < results; ++r) {
      to.push_back(r);
      first.push_back(offset_of(result, kept_.strides));
      result.next();
      if (to.size() < kFunctionLanes && r + 1 < results) continue;
      reducer_.fold(to, first, offsets_);
      to.clear();
      first.clear();
    }
    return true;
  }

 private:
  struct Dimensions {
    std::vector<int64_t> extents, strides;  ///< Of the operand.
  };

  RoutineCall call_;
  ReducerCall reducer_;
  Dimensions kept_, reduced_;
  std::vector<int64_t> offsets_;  ///< Of what is reduced, in order.
};

/// An index of any integer type, as a number that fits any bound.
int64_t index_at(PrimitiveType type, const std::byte* place) {
  const auto bytes = static_cast<size_t>(primitive_type_bits(type)) / 8;
  uint64_t bits = 0;
  std::memcpy(&bits, place, bytes);
  const bool is_unsigned =
      type == PrimitiveType::kU8 || type == PrimitiveType::kU16 ||
      type == PrimitiveType::kU32 || type == PrimitiveType::kU64;
  if (is_unsigned)
    return static_cast<int64_t>(std::min<uint64_t>(bits, INT64_MAX));
  const int unused = static_cast<int>(64 - 8 * bytes);
  return static_cast<int64_t>(bits << unused) >> unused;
}

class Scatter final : public Routine {
 public:
  Scatter(const RoutineCall& call, ReducerCall reducer)
      : call_(call),
        reducer_(std::move(reducer)),
        arrays_(call.results.size()),
        dimensions_(scatter_dimensions(call.instruction)),
        extents_(call.operand_shape(0).dimensions),
        strides_(element_strides(call.operand_shape(0))),
        index_shape_(call.operand_shape(arrays_)),
        index_strides_(element_strides(index_shape_)),
        updates_(call.operand_shape(arrays_ + 1).dimensions) {
    place_windows();
  }

  bool run() override {
    for (size_t a = 0; a < arrays_; ++a) {
      std::memcpy(call_.results[a].data(), call_.operands[a].data(),
                  call_.results[a].size());
    }
    IndexCounter update(updates_);
    int64_t from = 0;
    do {
      const int64_t to = target(update);
      if (to >= 0) reducer_.combine(to, from);
      ++from;
    } while (update.next());
    return true;
  }

 private:
  /// Which dimension of the operand each window dimension of the updates walks,
  /// and how far the window reaches in each.
  void place_windows() {
    sizes_.assign(extents_.size(), 1);
    size_t next = 0;
    for (size_t d = 0; d < updates_.size(); ++d) {
      if (!holds(dimensions_.update_window_dims, d)) {
        batch_.push_back(d);
        continue;
      }
      while (holds(dimensions_.inserted_window_dims, next) ||
             holds(dimensions_.input_batching_dims, next)) {
        ++next;
      }
      window_.emplace_back(d, next);
      sizes_.at(next++) = updates_[d];
    }
  }

  /// Where the index vector of an update starts, and which of its dimensions a
  /// batch dimension of the indices is.
  int64_t vector_start(const IndexCounter& update) const {
    int64_t start = 0;
    for (size_t d = 0, next = 0; d < index_strides_.size(); ++d) {
      if (static_cast<int64_t>(d) == dimensions_.index_vector_dim) continue;
      start += update[batch_.at(next++)] * index_strides_[d];
    }
    return start;
  }

  /// The element that an update goes to; -1 where its window reaches outside.
  int64_t target(const IndexCounter& update) const {
    int64_t to = 0;
    for (const auto& [d, operand] : window_)
      to += update[d] * strides_[operand];
    for (size_t i = 0; i < dimensions_.input_batching_dims.size(); ++i) {
      auto from =
          static_cast<size_t>(dimensions_.scatter_indices_batching_dims.at(i));
      if (static_cast<int64_t>(from) > dimensions_.index_vector_dim) --from;
      to +=
          update[batch_.at(from)] *
          strides_.at(static_cast<size_t>(dimensions_.input_batching_dims[i]));
    }
    const int64_t start = vector_start(update);
    const auto vector = static_cast<size_t>(dimensions_.index_vector_dim);
    const int64_t step =
        vector < index_strides_.size() ? index_strides_[vector] : 0;
    const size_t bytes = element_bytes(index_shape_);
    for (size_t k = 0; k < dimensions_.scatter_dims_to_operand_dims.size();
         ++k) {
      const auto d =
          static_cast<size_t>(dimensions_.scatter_dims_to_operand_dims[k]);
      const auto place =
          static_cast<size_t>(start + static_cast<int64_t>(k) * step) * bytes;
      const int64_t index =
          index_at(index_shape_.type, call_.operands[arrays_].data() + place);
      if (index < 0 || index > extents_.at(d) - sizes_[d]) return -1;
      to += index * strides_[d];
    }
    return to;
  }

  RoutineCall call_;
  ReducerCall reducer_;
  size_t arrays_;
  ScatterDimensions dimensions_;
  std::vector<int64_t> extents_, strides_;
  Shape index_shape_;
  std::vector<int64_t> index_strides_, updates_;
  std::vector<size_t> batch_;                      ///< Of the updates.
  std::vector<std::pair<size_t, size_t>> window_;  ///< Updates', operand's.
  std::vector<int64_t> sizes_;  ///< Of a window, by operand dimension.
};

}  // namespace

Result<std::unique_ptr<Routine>> make_reduce(const RoutineCall& call) {
  const size_t arrays = call.results.size();
  if (call.operands.size() != 2 * arrays)
    return fail(ErrorKind::kInvalid, "{} operands", call.operands.size());
  if (auto extreme = make_extreme_index(call)) return extreme;
  Result<ReducerCall> reducer = ReducerCall::bind(call, 0, arrays, 0);
  if (!reducer) return pass(reducer.error());
  return std::make_unique<Reduce>(call, std::move(*reducer));
}

Result<std::unique_ptr<Routine>> make_scatter(const RoutineCall& call) {
  const size_t arrays = call.results.size();
  if (call.operands.size() != 2 * arrays + 1)
    return fail(ErrorKind::kInvalid, "{} operands", call.operands.size());
  Result<ReducerCall> reducer = ReducerCall::bind(call, 0, arrays, arrays + 1);
  if (!reducer) return pass(reducer.error());
  return std::make_unique<Scatter>(call, std::move(*reducer));
}

}  // namespace reprise

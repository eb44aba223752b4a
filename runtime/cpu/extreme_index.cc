// A reducer of comparisons, selections and bits alone can tell of its values
// only how they compare, so the cases of `direction_of` are all there are.
#include "runtime/cpu/extreme_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/schedule/called_program.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/scalar_function.h"
#include "runtime/cpu/wide_vectors.h"
#include "runtime/kernels/element_ops.h"

namespace reprise {
namespace {

template <typename T>
struct ValueAndIndex {
  T value = 0;
  int32_t index = 0;
};

template <bool kMost, typename T>
bool is_before(T a, T b) {
  return kMost ? a > b : a < b;
}

template <bool kMost, typename T>
[[gnu::always_inline]] inline ValueAndIndex<T> combined(ValueAndIndex<T> kept,
                                                        ValueAndIndex<T> next) {
  const bool keeps =
      is_before<kMost>(kept.value, next.value) || kept.value != kept.value;
  const bool ties = kept.value == next.value && kept.index < next.index;
  return {keeps ? kept.value : next.value,
          keeps || ties ? kept.index : next.index};
}

constexpr int64_t kWide = 32;  ///< Lanes of a row.

template <typename T>
struct RowExtreme {
  T value = 0;
  bool has_nan = false;
};

/// Of a row of neighbours and `first`.
template <bool kMost, typename T>
[[gnu::always_inline]] inline RowExtreme<T> extreme_value(T first,
                                                          const T* values,
                                                          int64_t count) {
  std::array<T, kWide> best;
  std::array<int32_t, kWide> is_nan{};
  best.fill(first);
  const int64_t whole = count / kWide * kWide;
  for (int64_t i = 0; i < whole; i += kWide) {
    for (size_t l = 0; l < kWide; ++l) {
      const T x = values[i + static_cast<int64_t>(l)];
      best[l] = is_before<kMost>(x, best[l]) ? x : best[l];
      is_nan[l] |= static_cast<int32_t>(x != x);
    }
  }
  RowExtreme<T> found{first, first != first};
  for (size_t l = 0; l < kWide; ++l) {
    found.value =
        is_before<kMost>(best[l], found.value) ? best[l] : found.value;
    found.has_nan |= is_nan[l] != 0;
  }
  for (int64_t i = whole; i < count; ++i) {
    const T x = values[i];
    found.value = is_before<kMost>(x, found.value) ? x : found.value;
    found.has_nan |= x != x;
  }
  return found;
}

/// The least index of a value in a row; the largest there is where none has it.
template <typename T>
[[gnu::always_inline]] inline int32_t least_index_of(T value, const T* values,
                                                     const int32_t* indices,
                                                     int64_t count) {
  std::array<int32_t, kWide> least;
  least.fill(std::numeric_limits<int32_t>::max());
  const int64_t whole = count / kWide * kWide;
  for (int64_t i = 0; i < whole; i += kWide) {
    for (size_t l = 0; l < kWide; ++l) {
      const int64_t at = i + static_cast<int64_t>(l);
      const bool lesser = values[at] == value && indices[at] < least[l];
      least[l] = lesser ? indices[at] : least[l];
    }
  }
  int32_t found = std::ranges::min(least);
  for (int64_t i = whole; i < count; ++i)
    found = values[i] == value ? std::min(found, indices[i]) : found;
  return found;
}

/// Of a row of neighbours, after `first`.
template <bool kMost, typename T>
[[gnu::always_inline]] inline ValueAndIndex<T> extreme_of_row(
    ValueAndIndex<T> first, const T* values, const int32_t* indices,
    int64_t count) {
  const RowExtreme<T> extreme =
      extreme_value<kMost>(first.value, values, count);
  if (std::is_floating_point_v<T> && (extreme.has_nan || extreme.value == 0)) {
    // The first NaN; the sign of the last zero.
    for (int64_t i = 0; i < count; ++i)
      first = combined<kMost, T>(first, {values[i], indices[i]});
    return first;
  }
  const int32_t found = least_index_of(extreme.value, values, indices, count);
  return {extreme.value,
          first.value == extreme.value ? std::min(found, first.index) : found};
}

template <bool kMost, typename T>
[[gnu::always_inline]] inline void add_row(const T* values,
                                           const int32_t* indices,
                                           int64_t count, T* kept_values,
                                           int32_t* kept_indices) {
  for (int64_t c = 0; c < count; ++c) {
    const ValueAndIndex<T> made = combined<kMost, T>(
        {kept_values[c], kept_indices[c]}, {values[c], indices[c]});
    kept_values[c] = made.value;
    kept_indices[c] = made.index;
  }
}

/// [outer, extent, inner], row-major.
struct ReducedDimension {
  int64_t outer = 1, extent = 1, inner = 1;
};

/// Arrays of a reduction, in types that it computes in.
template <typename T>
struct ReducedArrays {
  const T* values;
  const int32_t* indices;
  T* kept_values;
  int32_t* kept_indices;
};

/// Of all `outer` from `begin` to `end`; results have inner elements each.
template <bool kMost, typename T>
[[gnu::always_inline]] inline void reduce_part(const ReducedDimension& along,
                                               ValueAndIndex<T> initial,
                                               const ReducedArrays<T>& arrays,
                                               int64_t begin, int64_t end) {
  for (int64_t o = begin; o < end; ++o) {
    const int64_t from = o * along.extent * along.inner, to = o * along.inner;
    T* const kept_values = arrays.kept_values + to;
    int32_t* const kept_indices = arrays.kept_indices + to;
    if (along.inner == 1) {
      const ValueAndIndex<T> found = extreme_of_row<kMost>(
          initial, arrays.values + from, arrays.indices + from, along.extent);
      *kept_values = found.value;
      *kept_indices = found.index;
      continue;
    }
    std::fill_n(kept_values, along.inner, initial.value);
    std::fill_n(kept_indices, along.inner, initial.index);
    for (int64_t j = 0; j < along.extent; ++j) {
      add_row<kMost>(arrays.values + from + j * along.inner,
                     arrays.indices + from + j * along.inner, along.inner,
                     kept_values, kept_indices);
    }
  }
}

// In vectors of 32 bytes where the machine has them; the same bits.
template <bool kMost, typename T>
REPRISE_WITH_AVX2 void reduce_part_by_avx2(const ReducedDimension& along,
                                           ValueAndIndex<T> initial,
                                           const ReducedArrays<T>& arrays,
                                           int64_t begin, int64_t end) {
  reduce_part<kMost>(along, initial, arrays, begin, end);
}

template <PrimitiveType kType>
struct Computed {
  using Type = float;
};
template <>
struct Computed<PrimitiveType::kF64> {
  using Type = double;
};
template <>
struct Computed<PrimitiveType::kS32> {
  using Type = int32_t;
};

/// Of values of a type; 16-bit floats are widened.
template <PrimitiveType kType, bool kMost>
class ExtremeIndex final : public Routine {
 public:
  using T = typename Computed<kType>::Type;
  static constexpr bool kIsHalf =
      kType == PrimitiveType::kBF16 || kType == PrimitiveType::kF16;

  ExtremeIndex(const RoutineCall& call, ReducedDimension along)
      : call_(call), along_(along) {
    const int64_t elements = along.outer * along.extent * along.inner;
    shared_ = {call.team,
               call.team.parts(static_cast<double>(elements) / kElementsPerNs,
                               static_cast<size_t>(along.outer))};
    // Of a result that nothing reads there is no array.
    const auto count = static_cast<size_t>(along.outer * along.inner);
    if (kIsHalf) widened_.resize(static_cast<size_t>(elements));
    if (kIsHalf || call.results[0].empty()) values_.resize(count);
    if (call.results[1].empty()) indices_.resize(count);
  }

  bool run() override {
    ValueAndIndex<T> initial;
    initial.value = value(call_.operands[2].data());
    std::memcpy(&initial.index, call_.operands[3].data(), sizeof(int32_t));
    const auto border = [&](size_t part, size_t parts) {
      return along_.outer * static_cast<int64_t>(part) /
             static_cast<int64_t>(parts);
    };
    const ReducedArrays<T> arrays = this->arrays();
    const auto run_part = [&](size_t part, size_t parts) {
      const int64_t begin = border(part, parts), end = border(part + 1, parts);
      widen(begin, end);
      (has_avx2() ? reduce_part_by_avx2<kMost, T>
                  : reduce_part<kMost, T>)(along_, initial, arrays, begin, end);
      narrow(begin, end);
      return true;
    };
    return shared_.run(
        [&] { return run_part(0, 1); },
        [&](size_t part) { return run_part(part, shared_.count()); });
  }

  static T value(const std::byte* place) {
    if constexpr (kIsHalf) {
      uint16_t half = 0;
      std::memcpy(&half, place, sizeof half);
      return kType == PrimitiveType::kBF16 ? rk_load_bf16(half)
                                           : rk_load_f16(half);
    } else {
      T value;
      std::memcpy(&value, place, sizeof value);
      return value;
    }
  }
  static void put(T value, std::byte* place) {
    if constexpr (kIsHalf) {
      const uint16_t half = kType == PrimitiveType::kBF16 ? rk_store_bf16(value)
                                                          : rk_store_f16(value);
      std::memcpy(place, &half, sizeof half);
    } else {
      std::memcpy(place, &value, sizeof value);
    }
  }

 private:
  /// Of one core, to an order of magnitude.
  static constexpr double kElementsPerNs = 1;
  static constexpr size_t kBytes = kIsHalf ? 2 : sizeof(T);

  ReducedArrays<T> arrays() {
    return {
        widened_.empty() ? reinterpret_cast<const T*>(call_.operands[0].data())
                         : widened_.data(),
        reinterpret_cast<const int32_t*>(call_.operands[1].data()),
        values_.empty() ? reinterpret_cast<T*>(call_.results[0].data())
                        : values_.data(),
        indices_.empty() ? reinterpret_cast<int32_t*>(call_.results[1].data())
                         : indices_.data()};
  }
  void widen(int64_t begin, int64_t end) {
    if (widened_.empty()) return;
    const int64_t row = along_.extent * along_.inner;
    const std::byte* from = call_.operands[0].data();
    for (int64_t at = begin * row; at < end * row; ++at) {
      const auto place = static_cast<size_t>(at);
      widened_[place] = value(from + place * kBytes);
    }
  }
  void narrow(int64_t begin, int64_t end) {
    if (values_.empty() || call_.results[0].empty()) return;
    std::byte* to = call_.results[0].data();
    for (int64_t at = begin * along_.inner; at < end * along_.inner; ++at) {
      const auto place = static_cast<size_t>(at);
      put(values_[place], to + place * kBytes);
    }
  }

  RoutineCall call_;
  ReducedDimension along_;
  SharedParts shared_;
  std::vector<T> widened_, values_;
  std::vector<int32_t> indices_;
};

const std::byte* bytes_of(const int32_t* index) {
  return reinterpret_cast<const std::byte*>(index);
}

bool only_compares(const RoutineCallee& callee) {
  const auto& all = callee.program->module.entry_computation().instructions;
  return std::ranges::all_of(all, [](const Instruction& instruction) {
    switch (instruction.opcode) {
      case Opcode::kParameter:
      case Opcode::kCompare:
      case Opcode::kSelect:
      case Opcode::kAnd:
      case Opcode::kOr:
      case Opcode::kNot:
      case Opcode::kCopy:
      case Opcode::kTuple:
        return true;
      default:
        return false;
    }
  });
}

template <PrimitiveType kType, bool kMost>
bool is_that_of(ScalarFunction& reducer) {
  using Extreme = ExtremeIndex<kType, kMost>;
  using T = typename Extreme::T;
  constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();  // 0 of integers.
  constexpr T kValues[][2] = {{1, 2},    {2, 1},    {1, 1},
                              {kNaN, 1}, {1, kNaN}, {kNaN, kNaN}};
  constexpr int32_t kIndices[][2] = {{3, 5}, {5, 3}, {4, 4}};
  for (const auto& values : kValues) {
    for (const auto& indices : kIndices) {
      const ValueAndIndex<T> kept{values[0], indices[0]},
          next{values[1], indices[1]};
      alignas(8) std::array<std::byte, 8> left{}, right{}, value{}, index{};
      Extreme::put(kept.value, left.data());
      Extreme::put(next.value, right.data());
      reducer.set_parameter(0, left.data());
      reducer.set_parameter(1, bytes_of(&kept.index));
      reducer.set_parameter(2, right.data());
      reducer.set_parameter(3, bytes_of(&next.index));
      reducer.set_output(0, value.data());
      reducer.set_output(1, index.data());
      reducer.call();
      const ValueAndIndex<T> want = combined<kMost, T>(kept, next);
      const T made = Extreme::value(value.data());
      const bool same =
          made == want.value || (made != made && want.value != want.value);
      if (!same || std::memcmp(index.data(), &want.index, 4) != 0) return false;
    }
  }
  return true;
}

template <PrimitiveType kType>
std::unique_ptr<Routine> make_extreme_index_of(const RoutineCall& call,
                                               const ReducedDimension& along,
                                               ScalarFunction& reducer) {
  if (is_that_of<kType, true>(reducer))
    return std::make_unique<ExtremeIndex<kType, true>>(call, along);
  if (is_that_of<kType, false>(reducer))
    return std::make_unique<ExtremeIndex<kType, false>>(call, along);
  return nullptr;
}

/// The one dimension that is reduced.
std::optional<ReducedDimension> reduced_dimension(const RoutineCall& call) {
  const Shape& shape = call.operand_shape(0);
  const std::vector<int64_t> reduced =
      integer_list(call.instruction, "dimensions");
  if (reduced.size() != 1 ||
      call.operand_shape(1).dimensions != shape.dimensions)
    return std::nullopt;
  ReducedDimension along;
  for (size_t d = 0; d < shape.dimensions.size(); ++d) {
    const auto at = static_cast<int64_t>(d);
    (at < reduced[0]   ? along.outer
     : at > reduced[0] ? along.inner
                       : along.extent) *= shape.dimensions[d];
  }
  return along;
}

}  // namespace

std::unique_ptr<Routine> make_extreme_index(const RoutineCall& call) {
  if (call.operands.size() != 4 || call.results.size() != 2 ||
      call.operand_shape(1).type != PrimitiveType::kS32)
    return nullptr;
  const std::optional<ReducedDimension> along = reduced_dimension(call);
  Result<ScalarFunction> reducer = ScalarFunction::bind(call, 0, 4, 2);
  if (!along || !reducer || !only_compares(call.spec.callees[0]))
    return nullptr;
  switch (call.operand_shape(0).type) {
    case PrimitiveType::kF32:
      return make_extreme_index_of<PrimitiveType::kF32>(call, *along, *reducer);
    case PrimitiveType::kF64:
      return make_extreme_index_of<PrimitiveType::kF64>(call, *along, *reducer);
    case PrimitiveType::kS32:
      return make_extreme_index_of<PrimitiveType::kS32>(call, *along, *reducer);
    case PrimitiveType::kBF16:
      return make_extreme_index_of<PrimitiveType::kBF16>(call, *along,
                                                         *reducer);
    case PrimitiveType::kF16:
      return make_extreme_index_of<PrimitiveType::kF16>(call, *along, *reducer);
    default:
      return nullptr;
  }
}

}  // namespace reprise

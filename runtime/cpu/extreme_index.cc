// A reducer of comparisons, selections and bits alone can tell of its values
// only how they compare, so the cases of `direction_of` are all there are.
#include "runtime/cpu/extreme_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/schedule/called_program.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/scalar_function.h"
#include "runtime/cpu/wide_vectors.h"

namespace reprise {
namespace {

struct ValueAndIndex {
  float value = 0;
  int32_t index = 0;
};

template <bool kMost>
bool is_before(float a, float b) {
  return kMost ? a > b : a < b;
}

template <bool kMost>
[[gnu::always_inline]] inline ValueAndIndex combined(ValueAndIndex kept,
                                                     ValueAndIndex next) {
  const bool keeps =
      is_before<kMost>(kept.value, next.value) || kept.value != kept.value;
  const bool ties = kept.value == next.value && kept.index < next.index;
  return {keeps ? kept.value : next.value,
          keeps || ties ? kept.index : next.index};
}

constexpr int64_t kWide = 32;  ///< Lanes of a row.

struct RowExtreme {
  float value = 0;
  bool has_nan = false;
};

/// Of a row of neighbours and `first`.
template <bool kMost>
[[gnu::always_inline]] inline RowExtreme extreme_value(float first,
                                                       const float* values,
                                                       int64_t count) {
  std::array<float, kWide> best;
  std::array<int32_t, kWide> is_nan{};
  best.fill(first);
  const int64_t whole = count / kWide * kWide;
  for (int64_t i = 0; i < whole; i += kWide) {
    for (size_t l = 0; l < kWide; ++l) {
      const float x = values[i + static_cast<int64_t>(l)];
      best[l] = is_before<kMost>(x, best[l]) ? x : best[l];
      is_nan[l] |= static_cast<int32_t>(x != x);
    }
  }
  RowExtreme found{first, std::isnan(first)};
  for (size_t l = 0; l < kWide; ++l) {
    found.value =
        is_before<kMost>(best[l], found.value) ? best[l] : found.value;
    found.has_nan |= is_nan[l] != 0;
  }
  for (int64_t i = whole; i < count; ++i) {
    const float x = values[i];
    found.value = is_before<kMost>(x, found.value) ? x : found.value;
    found.has_nan |= x != x;
  }
  return found;
}

/// The least index of a value in a row; the largest there is where none has it.
[[gnu::always_inline]] inline int32_t least_index_of(float value,
                                                     const float* values,
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
template <bool kMost>
[[gnu::always_inline]] inline ValueAndIndex extreme_of_row(
    ValueAndIndex first, const float* values, const int32_t* indices,
    int64_t count) {
  const RowExtreme extreme = extreme_value<kMost>(first.value, values, count);
  if (extreme.has_nan || extreme.value == 0) {
    // The first NaN; the sign of the last zero.
    for (int64_t i = 0; i < count; ++i)
      first = combined<kMost>(first, {values[i], indices[i]});
    return first;
  }
  const int32_t found = least_index_of(extreme.value, values, indices, count);
  return {extreme.value,
          first.value == extreme.value ? std::min(found, first.index) : found};
}

template <bool kMost>
[[gnu::always_inline]] inline void add_row(const float* values,
                                           const int32_t* indices,
                                           int64_t count, float* kept_values,
                                           int32_t* kept_indices) {
  for (int64_t c = 0; c < count; ++c) {
    const ValueAndIndex made = combined<kMost>(
        {kept_values[c], kept_indices[c]}, {values[c], indices[c]});
    kept_values[c] = made.value;
    kept_indices[c] = made.index;
  }
}

/// [outer, extent, inner], row-major.
struct ReducedDimension {
  int64_t outer = 1, extent = 1, inner = 1;
};

/// Of all `outer` from `begin` to `end`; `results` have inner elements each.
template <bool kMost>
[[gnu::always_inline]] inline void reduce_part(
    const ReducedDimension& along, ValueAndIndex initial, const float* values,
    const int32_t* indices, float* kept_values, int32_t* kept_indices,
    int64_t begin, int64_t end) {
  for (int64_t o = begin; o < end; ++o) {
    const int64_t from = o * along.extent * along.inner, to = o * along.inner;
    if (along.inner == 1) {
      const ValueAndIndex found = extreme_of_row<kMost>(
          initial, values + from, indices + from, along.extent);
      kept_values[to] = found.value;
      kept_indices[to] = found.index;
      continue;
    }
    std::fill_n(kept_values + to, along.inner, initial.value);
    std::fill_n(kept_indices + to, along.inner, initial.index);
    for (int64_t j = 0; j < along.extent; ++j) {
      add_row<kMost>(values + from + j * along.inner,
                     indices + from + j * along.inner, along.inner,
                     kept_values + to, kept_indices + to);
    }
  }
}

// In vectors of 8 where the machine has them; the same bits.
template <bool kMost>
REPRISE_WITH_AVX2 void reduce_part_by_avx2(
    const ReducedDimension& along, ValueAndIndex initial, const float* values,
    const int32_t* indices, float* kept_values, int32_t* kept_indices,
    int64_t begin, int64_t end) {
  reduce_part<kMost>(along, initial, values, indices, kept_values, kept_indices,
                     begin, end);
}

template <bool kMost>
class ExtremeIndex final : public Routine {
 public:
  ExtremeIndex(const RoutineCall& call, ReducedDimension along)
      : call_(call), along_(along) {
    const double elements =
        static_cast<double>(along.outer * along.extent * along.inner);
    shared_ = {call.team, call.team.parts(elements / kElementsPerNs,
                                          static_cast<size_t>(along.outer))};
    // Of a result that nothing reads there is no array.
    const auto count = static_cast<size_t>(along.outer * along.inner);
    if (call.results[0].empty()) values_.resize(count);
    if (call.results[1].empty()) indices_.resize(count);
  }

  bool run() override {
    ValueAndIndex initial;
    std::memcpy(&initial.value, call_.operands[2].data(), sizeof(float));
    std::memcpy(&initial.index, call_.operands[3].data(), sizeof(int32_t));
    float* const values =
        values_.empty() ? reinterpret_cast<float*>(call_.results[0].data())
                        : values_.data();
    int32_t* const indices =
        indices_.empty() ? reinterpret_cast<int32_t*>(call_.results[1].data())
                         : indices_.data();
    const auto run_part = [&](size_t part, size_t parts) {
      const auto border = [&](size_t at) {
        return along_.outer * static_cast<int64_t>(at) /
               static_cast<int64_t>(parts);
      };
      (has_avx2() ? reduce_part_by_avx2<kMost>
                  : reduce_part<kMost>)(along_, initial,
                                        reinterpret_cast<const float*>(
                                            call_.operands[0].data()),
                                        reinterpret_cast<const int32_t*>(
                                            call_.operands[1].data()),
                                        values, indices, border(part),
                                        border(part + 1));
      return true;
    };
    return shared_.run(
        [&] { return run_part(0, 1); },
        [&](size_t part) { return run_part(part, shared_.count()); });
  }

 private:
  /// Of one core, to an order of magnitude.
  static constexpr double kElementsPerNs = 1;

  RoutineCall call_;
  ReducedDimension along_;
  SharedParts shared_;
  std::vector<float> values_;
  std::vector<int32_t> indices_;
};

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

template <bool kMost>
bool is_that_of(ScalarFunction& reducer) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kValues[][2] = {{1, 2},    {2, 1},    {1, 1},
                                  {kNaN, 1}, {1, kNaN}, {kNaN, kNaN}};
  constexpr int32_t kIndices[][2] = {{3, 5}, {5, 3}, {4, 4}};
  for (const auto& values : kValues) {
    for (const auto& indices : kIndices) {
      const ValueAndIndex kept{values[0], indices[0]},
          next{values[1], indices[1]};
      ValueAndIndex made;
      const auto bytes = [](const auto* of) {
        return reinterpret_cast<const std::byte*>(of);
      };
      reducer.set_parameter(0, bytes(&kept.value));
      reducer.set_parameter(1, bytes(&kept.index));
      reducer.set_parameter(2, bytes(&next.value));
      reducer.set_parameter(3, bytes(&next.index));
      reducer.set_output(0, reinterpret_cast<std::byte*>(&made.value));
      reducer.set_output(1, reinterpret_cast<std::byte*>(&made.index));
      reducer.call();
      const ValueAndIndex want = combined<kMost>(kept, next);
      const bool same = made.value == want.value ||
                        (std::isnan(made.value) && std::isnan(want.value));
      if (!same || made.index != want.index) return false;
    }
  }
  return true;
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
      call.operand_shape(0).type != PrimitiveType::kF32 ||
      call.operand_shape(1).type != PrimitiveType::kS32)
    return nullptr;
  const std::optional<ReducedDimension> along = reduced_dimension(call);
  Result<ScalarFunction> reducer = ScalarFunction::bind(call, 0, 4, 2);
  if (!along || !reducer || !only_compares(call.spec.callees[0]))
    return nullptr;
  if (is_that_of<true>(*reducer))
    return std::make_unique<ExtremeIndex<true>>(call, *along);
  if (is_that_of<false>(*reducer))
    return std::make_unique<ExtremeIndex<false>>(call, *along);
  return nullptr;
}

}  // namespace reprise

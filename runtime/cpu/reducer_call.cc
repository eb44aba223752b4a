#include "runtime/cpu/reducer_call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/cpu/array_view.h"

namespace reprise {
namespace {

bool are_neighbours(std::span<const int64_t> places) {
  int64_t apart = 0;
  for (size_t l = 0; l < places.size(); ++l)
    apart |= places[l] - places[0] - static_cast<int64_t>(l);
  return apart == 0;
}

/// Calls `visit` with an unsigned number of `bytes`.
template <typename Visit>
void with_bytes(size_t bytes, const Visit& visit) {
  switch (bytes) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    default:
      return visit(uint64_t{});
  }
}

/// Elements at `places` + each of `offsets`, as rows of `lanes` elements.
void gather(std::span<const std::byte> array, size_t bytes,
            std::span<const int64_t> places, std::span<const int64_t> offsets,
            size_t lanes, std::byte* rows) {
  with_bytes(bytes, [&](auto zero) {
    using T = decltype(zero);
    const auto* from = reinterpret_cast<const T*>(array.data());
    auto* to = reinterpret_cast<T*>(rows);
    for (size_t l = 0; l < places.size(); ++l) {
      for (size_t s = 0; s < offsets.size(); ++s)
        to[s * lanes + l] = from[places[l] + offsets[s]];
    }
  });
}

void scatter(const std::byte* row, size_t bytes,
             std::span<const int64_t> places, int64_t offset,
             std::span<std::byte> array) {
  with_bytes(bytes, [&](auto zero) {
    using T = decltype(zero);
    const auto* from = reinterpret_cast<const T*>(row);
    auto* to = reinterpret_cast<T*>(array.data());
    for (size_t l = 0; l < places.size(); ++l) to[places[l] + offset] = from[l];
  });
}

constexpr int64_t kNoOffset = 0;

}  // namespace

Result<ReducerCall> ReducerCall::bind(const RoutineCall& call, size_t callee,
                                      size_t arrays, size_t first_input) {
  if (arrays == 0 || call.results.size() != arrays ||
      call.operands.size() < first_input + arrays) {
    return fail(ErrorKind::kInvalid, "{} operands and {} results",
                call.operands.size(), call.results.size());
  }
  Result<ScalarFunction> reducer =
      ScalarFunction::bind(call, callee, 2 * arrays, arrays);
  if (!reducer) return pass(reducer.error());
  ReducerCall bound(std::move(*reducer));
  for (size_t a = 0; a < arrays; ++a) {
    const size_t bytes = element_bytes(call.result_shape(a));
    const std::vector<std::byte> lanes(bytes * bound.reducer_.lanes());
    bound.arrays_.push_back(
        {.input = call.operands[first_input + a],
         .result = call.results[a],
         .bytes = bytes,
         .made = lanes,
         .held = lanes,
         .taken = std::vector<std::byte>(lanes.size() * kSteps)});
  }
  return bound;
}

void ReducerCall::combine(int64_t to, int64_t from) {
  const size_t count = arrays_.size();
  for (size_t a = 0; a < count; ++a) {
    Array& array = arrays_[a];
    reducer_.set_parameter(
        a, array.result.data() + static_cast<size_t>(to) * array.bytes);
    reducer_.set_parameter(
        count + a,
        array.input.data() + static_cast<size_t>(from) * array.bytes);
    reducer_.set_output(a, array.made.data());
  }
  reducer_.call();
  for (Array& array : arrays_) {
    std::memcpy(array.result.data() + static_cast<size_t>(to) * array.bytes,
                array.made.data(), array.bytes);
  }
}

void ReducerCall::combine(std::span<const int64_t> to,
                          std::span<const int64_t> from) {
  fold(to, from, {&kNoOffset, 1});
}

void ReducerCall::fold(std::span<const int64_t> to,
                       std::span<const int64_t> first,
                       std::span<const int64_t> offsets, bool keep) {
  const size_t lanes = reducer_.lanes();
  for (size_t begin = 0; begin < to.size(); begin += lanes) {
    const size_t count = std::min(lanes, to.size() - begin);
    fold_lanes(to.subspan(begin, count), first.subspan(begin, count), offsets,
               keep);
  }
}

void ReducerCall::fold_lanes(std::span<const int64_t> to,
                             std::span<const int64_t> first,
                             std::span<const int64_t> offsets, bool keep) {
  const size_t count = arrays_.size(), lanes = reducer_.lanes();
  const bool in_place = are_neighbours(first);
  const int64_t begin = keep ? offsets[0] : 0;
  for (Array& array : arrays_) {
    gather(array.result, array.bytes, to, {&begin, 1}, lanes,
           array.held.data());
  }
  for (size_t s = 0; s < offsets.size(); ++s) {
    for (size_t a = 0; a < count; ++a) {
      Array& array = arrays_[a];
      if (!in_place && s % kSteps == 0) {
        gather(array.input, array.bytes, first,
               offsets.subspan(s, std::min(kSteps, offsets.size() - s)), lanes,
               array.taken.data());
      }
      reducer_.set_parameter(a, array.held.data());
      reducer_.set_parameter(
          count + a,
          in_place
              ? array.input.data() +
                    static_cast<size_t>(first[0] + offsets[s]) * array.bytes
              : array.taken.data() + s % kSteps * lanes * array.bytes);
      reducer_.set_output(a, array.made.data());
    }
    reducer_.call(to.size());
    for (Array& array : arrays_) {
      array.made.swap(array.held);
      if (keep)
        scatter(array.held.data(), array.bytes, to, offsets[s], array.result);
    }
  }
  for (Array& array : arrays_) {
    if (!keep) scatter(array.held.data(), array.bytes, to, 0, array.result);
  }
}

void ReducerCall::fill(const RoutineCall& call, size_t first_initial) {
  for (size_t a = 0; a < arrays_.size(); ++a) {
    const Array& array = arrays_[a];
    const std::byte* initial = call.operands[first_initial + a].data();
    with_bytes(array.bytes, [&](auto value) {
      std::memcpy(&value, initial, sizeof value);
      std::fill_n(reinterpret_cast<decltype(value)*>(array.result.data()),
                  array.result.size() / sizeof value, value);
    });
  }
}

}  // namespace reprise

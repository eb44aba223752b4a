#include "runtime/cpu/reducer_call.h"

#include <cstring>
#include <utility>

#include "runtime/cpu/array_view.h"

namespace reprise {

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
    bound.arrays_.push_back({.input = call.operands[first_input + a],
                             .result = call.results[a],
                             .bytes = element_bytes(call.result_shape(a))});
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

void ReducerCall::carry(int64_t to, int64_t from, int64_t count) {
  for (const Array& array : arrays_) {
    std::memcpy(array.result.data() + static_cast<size_t>(to) * array.bytes,
                array.result.data() + static_cast<size_t>(from) * array.bytes,
                static_cast<size_t>(count) * array.bytes);
  }
}

void ReducerCall::fill(const RoutineCall& call, size_t first_initial) {
  for (size_t a = 0; a < arrays_.size(); ++a) {
    const Array& array = arrays_[a];
    const std::byte* initial = call.operands[first_initial + a].data();
    for (size_t at = 0; at < array.result.size(); at += array.bytes)
      std::memcpy(array.result.data() + at, initial, array.bytes);
  }
}

}  // namespace reprise

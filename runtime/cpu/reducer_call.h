// A reducer applied to elements of several arrays at once.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "data/result.h"
#include "runtime/cpu/routine.h"
#include "runtime/cpu/scalar_function.h"

namespace reprise {

/// Results and inputs of a reduction, array by array, and its reducer, whose
/// first parameters are the results' elements.
class ReducerCall {
 public:
  /// Of the reduction's `arrays` arrays: operands from `first_input` on are
  /// combined into the results. Errors: those of ScalarFunction.
  static Result<ReducerCall> bind(const RoutineCall& call, size_t callee,
                                  size_t arrays, size_t first_input);

  /// Result element `to` = reducer(it, input element `from`).
  void combine(int64_t to, int64_t from);
  /// `count` result elements from `to` on = those from `from` on.
  void carry(int64_t to, int64_t from, int64_t count);
  /// All result elements = the one of operand `first_initial` + array.
  void fill(const RoutineCall& call, size_t first_initial);

 private:
  explicit ReducerCall(ScalarFunction reducer) : reducer_(std::move(reducer)) {}

  struct Array {
    std::span<std::byte> input, result;
    size_t bytes = 0;  ///< Of an element.
    alignas(8) std::array<std::byte, 8> made{};
  };
  std::vector<Array> arrays_;
  ScalarFunction reducer_;
};

}  // namespace reprise

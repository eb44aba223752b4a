// A reducer applied to elements of several arrays at once.
#pragma once

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
  /// The same of many results, none twice.
  void combine(std::span<const int64_t> to, std::span<const int64_t> from);
  /// Result elements `to`, which hold what they begin with, = reducer(them,
  /// input elements `first` + each of `offsets`), one after the other. With
  /// `keep`, lane l's result after step s stays at `to`[l] + offsets[s].
  void fold(std::span<const int64_t> to, std::span<const int64_t> first,
            std::span<const int64_t> offsets, bool keep = false);
  /// All result elements = the one of operand `first_initial` + array.
  void fill(const RoutineCall& call, size_t first_initial);

 private:
  explicit ReducerCall(ScalarFunction reducer) : reducer_(std::move(reducer)) {}

  struct Array {
    std::span<std::byte> input, result;
    size_t bytes = 0;  ///< Of an element.
    /// Of all lanes: what a call gives and what it is given, and as many as
    /// kSteps rows of inputs.
    std::vector<std::byte> made, held, taken;
  };
  /// Steps whose elements are fetched together, as they often lie together.
  static constexpr size_t kSteps = 16;
  void fold_lanes(std::span<const int64_t> to, std::span<const int64_t> first,
                  std::span<const int64_t> offsets, bool keep);
  std::vector<Array> arrays_;
  ScalarFunction reducer_;
};

}  // namespace reprise

// A comparator or reducer of scalars, as one call, or of many lanes at once.
#pragma once

#include <cstddef>
#include <vector>

#include "data/result.h"
#include "runtime/cpu/routine.h"

namespace reprise {

class ScalarFunction {
 public:
  /// Of RoutineSpec::callees. Errors: kInvalid when it does not take
  /// `parameters` and give `outputs` scalars.
  static Result<ScalarFunction> bind(const RoutineCall& call, size_t callee,
                                     size_t parameters, size_t outputs);

  /// Sets where parameter and output `number` lie.
  void set_parameter(size_t number, const std::byte* place) {
    set(parameters_[number], place);
  }
  void set_output(size_t number, std::byte* place) {
    set(outputs_[number], place);
  }
  bool reads(size_t number) const { return !parameters_[number].empty(); }
  /// How many elements a call may take: kFunctionLanes, or 1.
  size_t lanes() const { return lanes_; }
  /// Outputs may not lie where parameters do.
  void call(size_t lanes = 1) const {
    code_.run(arguments_.data(), 0, static_cast<int64_t>(lanes));
  }

 private:
  void set(const std::vector<size_t>& arguments, const std::byte* place) {
    for (const size_t argument : arguments)
      arguments_[argument] = const_cast<std::byte*>(place);
  }

  KernelCode code_;
  size_t lanes_ = 1;
  std::vector<void*> arguments_;
  /// [number] its arguments of the kernel; none of what it does not read.
  std::vector<std::vector<size_t>> parameters_, outputs_;
};

/// The op of a called function that is one op of its two parameters in order;
/// null for any other.
const Instruction* only_op(const RoutineCallee& callee);

}  // namespace reprise

#include "runtime/cpu/scalar_function.h"

#include "data/schedule/called_program.h"

namespace reprise {

Result<ScalarFunction> ScalarFunction::bind(const RoutineCall& call,
                                            size_t callee, size_t parameters,
                                            size_t outputs) {
  if (callee >= call.spec.callees.size())
    return fail(ErrorKind::kInvalid, "its computation is missing");
  const RoutineCallee& called = call.spec.callees[callee];
  const CalledProgram& program = *called.program;
  const Kernel& kernel = program.schedule.kernels.at(0);
  ScalarFunction function;
  function.code_ = call.kernels[static_cast<size_t>(called.kernels.at(0))];
  function.arguments_.resize(kernel.arguments.size());
  function.parameters_.resize(parameters);
  function.outputs_.resize(outputs);
  size_t given = 0;
  for (size_t a = 0; a < kernel.arguments.size(); ++a) {
    const KernelArgument& argument = kernel.arguments[a];
    auto& places =
        argument.is_output ? function.outputs_ : function.parameters_;
    const auto number = static_cast<size_t>(program.arguments[a]);
    if (number >= places.size() || argument.elements != 1) {
      return fail(ErrorKind::kInvalid,
                  "its computation is not of {} scalars giving {}", parameters,
                  outputs);
    }
    places[number].push_back(a);
    given += argument.is_output ? 1 : 0;
  }
  if (given != outputs) {
    return fail(ErrorKind::kInvalid, "its computation gives {} scalars, not {}",
                given, outputs);
  }
  return function;
}

}  // namespace reprise

#include "runtime/cpu/scalar_function.h"

#include "data/schedule/called_program.h"
#include "data/schedule/lane_function.h"

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
  function.lanes_ = has_lanes(kernel) ? kFunctionLanes : 1;
  size_t given = 0;
  for (size_t a = 0; a < kernel.arguments.size(); ++a) {
    const KernelArgument& argument = kernel.arguments[a];
    auto& places =
        argument.is_output ? function.outputs_ : function.parameters_;
    const auto number = static_cast<size_t>(program.arguments[a]);
    if (number >= places.size() ||
        argument.elements != static_cast<int64_t>(function.lanes_)) {
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

const Instruction* only_op(const RoutineCallee& callee) {
  const Computation& entry = callee.program->module.entry_computation();
  const Instruction& root = entry.at(entry.root);
  if (root.operands.size() != 1) return nullptr;
  InstructionId id = root.operands[0];
  while (entry.at(id).opcode == Opcode::kCopy) id = entry.at(id).operands[0];
  const Instruction& op = entry.at(id);
  if (op.operands.size() != 2) return nullptr;
  for (size_t k = 0; k < 2; ++k) {
    const Instruction& operand = entry.at(op.operands[k]);
    if (operand.opcode != Opcode::kParameter ||
        operand.parameter_number != static_cast<int64_t>(k))
      return nullptr;
  }
  return &op;
}

}  // namespace reprise

#include "runtime/cpu/routine.h"

#include <array>

#include "data/hlo/matrix_operation.h"

namespace reprise {
namespace {

using Maker = Result<std::unique_ptr<Routine>> (*)(const RoutineCall& call);

struct Entry {
  Opcode opcode;
  Maker make;
};

Result<std::unique_ptr<Routine>> make_custom_call(const RoutineCall& call) {
  return custom_call_target(call.instruction) == "TopK"
             ? make_top_k(call)
             : make_matrix_routine(call);
}

constexpr std::array kMakers = {
    Entry{Opcode::kBatchNormGrad, make_batch_norm},
    Entry{Opcode::kBatchNormInference, make_batch_norm},
    Entry{Opcode::kBatchNormTraining, make_batch_norm},
    Entry{Opcode::kCholesky, make_matrix_routine},
    Entry{Opcode::kConditional, make_conditional},
    Entry{Opcode::kConvolution, make_convolution},
    Entry{Opcode::kCustomCall, make_custom_call},
    Entry{Opcode::kDot, make_general_dot},
    Entry{Opcode::kFft, make_fourier},
    Entry{Opcode::kReduce, make_reduce},
    Entry{Opcode::kReduceWindow, make_reduce_window},
    Entry{Opcode::kRngBitGenerator, make_random_bits},
    Entry{Opcode::kScatter, make_scatter},
    Entry{Opcode::kSelectAndScatter, make_select_and_scatter},
    Entry{Opcode::kSort, make_sort},
    Entry{Opcode::kTopK, make_top_k},
    Entry{Opcode::kTriangularSolve, make_matrix_routine},
    Entry{Opcode::kWhile, make_while},
};

}  // namespace

Result<std::unique_ptr<Routine>> make_routine(const RoutineCall& call) {
  for (const InstructionId operand : call.instruction.operands) {
    const Shape& shape = call.entry.at(operand).shape;
    if (!shape.is_array() || element_count(shape) > 0) continue;
    return fail(ErrorKind::kUnsupported, "{}: no routine takes {}",
                call.instruction.name, shape_text(shape, false));
  }
  for (const Entry& entry : kMakers) {
    if (entry.opcode != call.instruction.opcode) continue;
    Result<std::unique_ptr<Routine>> made = entry.make(call);
    if (!made) return pass(made.error(), call.instruction.name);
    return made;
  }
  return fail(ErrorKind::kUnsupported, "{}: no routine runs {}",
              call.instruction.name, opcode_name(call.instruction.opcode));
}

}  // namespace reprise

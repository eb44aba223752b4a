#include "data/program/refusal_advice.h"

#include <array>
#include <string_view>

#include "data/hlo/hlo.h"
#include "data/hlo/matrix_operation.h"
#include "data/hlo/split_complex.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

struct TargetAdvice {
  std::string_view part;  ///< Of the target.
  std::string_view advice;
};

constexpr std::string_view kOnCpu =
    "it is a kernel of GPUs: export on CPU, "
    "jax.config.update(\"jax_platforms\", \"cpu\")";

constexpr std::string_view kSolver =
    "of cuSOLVER run potrf, getrf, geqrf, orgqr, ormqr, syevd, geev, sytrd, "
    "gesvd, gesvdj, gesvdp and syrk: use jnp.linalg functions made of these";

constexpr std::string_view kNoParts = "write it on real and imaginary parts";

/// The first whose part stands in the target.
constexpr std::array kTargets = {
    TargetAdvice{"callback",
                 "it calls Python: export the step without jax.debug.print, "
                 "pure_callback and io_callback"},
    TargetAdvice{
        "lapack_",
        "of LAPACK run potrf, trsm, getrf, geqrf, geqp3, orgqr, ormqr, syevd, "
        "geev, gees without sort, gehrd, sytrd, gesdd, gesvd and gtsv, and "
        "their like of complex numbers: use jnp.linalg functions made of "
        "these"},
    TargetAdvice{"cublas", kOnCpu},
    TargetAdvice{"cudnn", kOnCpu},
    TargetAdvice{"cusolver", kSolver},
    TargetAdvice{"cusparse", kOnCpu},
    TargetAdvice{"cuhybrid", kSolver},
    TargetAdvice{"triton", kOnCpu},
    TargetAdvice{"tpu_",
                 "it is a kernel of TPUs: use the library function that "
                 "it replaces, or export on CPU"}};

std::string_view advice_of_opcode(Opcode opcode) {
  switch (opcode) {
    case Opcode::kRng:
    case Opcode::kRngGetAndUpdateState:
      return "the generator keeps a state outside the program: draw by "
             "jax.random with keys in the state";
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
      return "pass the values as arguments and results of the step";
    case Opcode::kSend:
    case Opcode::kRecv:
    case Opcode::kSendDone:
    case Opcode::kRecvDone:
      return "stages of a pipeline do not run apart: export a step in which "
             "all ranks run one program";
    case Opcode::kDynamicReshape:
    case Opcode::kSetDimensionSize:
    case Opcode::kGetDimensionSize:
      return "shapes must be known before: pad to the largest and mask";
    case Opcode::kFusion:
      return "give the dump before fusion: after_spmd-partitioning, or "
             "after_dot_decomposer on CPU";
    case Opcode::kCustomCall:
      return "what it computes is known to its library alone: export a step "
             "that does the same with jax.numpy";
    default:
      return {};
  }
}

}  // namespace

std::string refusal_advice(const Instruction& instruction) {
  if (instruction.shape.is_array() &&
      narrow_type(instruction.shape.type) != nullptr) {
    return "this type runs, but not in what a library computes: convert to "
           "bf16 "
           "or s8 before, and back after";
  }
  const std::string target = custom_call_target(instruction);
  for (const TargetAdvice& known : kTargets) {
    if (target.find(known.part) != std::string::npos)
      return std::string(known.advice);
  }
  if (target.starts_with(kComplexCall)) return std::string(kNoParts);
  return std::string(advice_of_opcode(instruction.opcode));
}

}  // namespace reprise

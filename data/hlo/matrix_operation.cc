// Attributes of the typed calls stand in backend_config: LAPACK's letters as
// their codes, `uplo = 76 : ui8`, those of GPUs as `lower = true`.
#include "data/hlo/matrix_operation.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "data/hlo/split_complex.h"

namespace reprise {
namespace {

std::string_view call_attribute(const Instruction& instruction,
                                std::string_view name) {
  const Attribute* found = instruction.find_attribute(name);
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string_view() : std::string_view(raw->text);
}

bool is_true(const Instruction& instruction, std::string_view name) {
  return call_attribute(instruction, name) == "true";
}

/// What stands behind `name = ` among a typed call's attributes.
std::string_view config_value(const Instruction& instruction,
                              std::string_view name) {
  const std::string_view config = call_attribute(instruction, "backend_config");
  const std::string key = std::string(name) + " = ";
  const size_t at = config.find(key);
  return at == std::string_view::npos ? std::string_view()
                                      : config.substr(at + key.size());
}

/// 0 where a typed call has no such number.
int32_t integer(const Instruction& instruction, std::string_view name) {
  const std::string_view text = config_value(instruction, name);
  int32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The letter that a typed call's `name` is; 0 where it has none.
char letter(const Instruction& instruction, std::string_view name) {
  const int32_t value = integer(instruction, name);
  return value > 0 && value < 128 ? static_cast<char>(value) : '\0';
}

bool is_set(const Instruction& instruction, std::string_view name) {
  return config_value(instruction, name).starts_with("true");
}

/// The names of one routine: LAPACK's, of real and of complex numbers, and that
/// of the library of a GPU, whichever numbers it takes. Empty where JAX calls
/// none.
struct RoutineNames {
  MatrixKind kind;
  std::string_view real, complex, gpu;
  size_t operands;
};

constexpr std::string_view kPerturbed = "_tridiagonal_solve_perturbed";

constexpr RoutineNames kRoutines[] = {
    {MatrixKind::kCholesky, "potrf", "potrf", "solver_potrf_ffi", 1},
    {MatrixKind::kTriangularSolve, "trsm", "trsm", "", 2},
    {MatrixKind::kLu, "getrf", "getrf", "solver_getrf_ffi", 1},
    {MatrixKind::kQr, "geqrf", "geqrf", "solver_geqrf_ffi", 1},
    {MatrixKind::kPivotedQr, "geqp3", "geqp3", "hybrid_geqp3", 2},
    {MatrixKind::kHouseholderProduct, "orgqr", "ungqr", "solver_orgqr_ffi", 2},
    {MatrixKind::kReflectorProduct, "ormqr", "unmqr", "solver_ormqr_ffi", 3},
    {MatrixKind::kSymmetricEigen, "syevd", "heevd", "solver_syevd_ffi", 1},
    {MatrixKind::kEigen, "geev", "geev", "solver_geev_ffi", 1},
    {MatrixKind::kEigen, "", "", "hybrid_eig_real", 1},
    {MatrixKind::kEigen, "", "", "hybrid_eig_comp", 1},
    {MatrixKind::kSchur, "gees", "gees", "", 1},
    {MatrixKind::kHessenberg, "gehrd", "gehrd", "", 1},
    {MatrixKind::kTridiagonal, "sytrd", "hetrd", "solver_sytrd_ffi", 1},
    {MatrixKind::kSingularValues, "gesdd", "gesdd", "solver_gesdd_ffi", 1},
    {MatrixKind::kSingularValues, "gesvd", "gesvd", "solver_gesvd_ffi", 1},
    {MatrixKind::kSingularValues, "", "", "solver_gesvdj_ffi", 1},
    {MatrixKind::kSingularValues, "", "", "solver_gesvdp_ffi", 1},
    {MatrixKind::kTridiagonalSolve, "gtsv", "gtsv", "sparse_gtsv2_ffi", 4},
    {MatrixKind::kTridiagonalSolve, "", "", kPerturbed, 4},
    {MatrixKind::kPermutation, "", "", "_lu_pivots_to_permutation", 1}};

/// What only some kinds have, and LAPACK's calls and those of GPUs alike.
MatrixOperation with_attributes(const Instruction& instruction,
                                MatrixOperation operation) {
  switch (operation.kind) {
    case MatrixKind::kReflectorProduct:
      operation.left = is_set(instruction, "left");
      operation.transposed = is_set(instruction, "transpose");
      break;
    case MatrixKind::kEigen:
      operation.left_vectors = is_set(instruction, "left") ||
                               letter(instruction, "compute_left") == 'V';
      operation.vectors = is_set(instruction, "right") ||
                          letter(instruction, "compute_right") == 'V';
      break;
    case MatrixKind::kHessenberg:
      operation.low = integer(instruction, "low");
      operation.high = integer(instruction, "high");
      break;
    default:
      break;
  }
  return operation;
}

/// `lapack_sXXX_ffi`, of floats, and those of d (double), c and z (complex).
MatrixOperation lapack_call(const Instruction& instruction,
                            std::string_view name) {
  constexpr std::string_view kBegin = "lapack_", kEnd = "_ffi";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  name = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  constexpr std::string_view kTypes = "sdcz";
  if (name.empty() || kTypes.find(name[0]) == std::string_view::npos) return {};
  const bool complex = name[0] == 'c' || name[0] == 'z';
  for (const RoutineNames& routine : kRoutines) {
    const std::string_view own = complex ? routine.complex : routine.real;
    if (own.empty() || own != name.substr(1)) continue;
    // By a function of Python's, which no program holds.
    if (letter(instruction, "sort") == 'S') return {};
    return with_attributes(
        instruction,
        {.kind = routine.kind,
         .lower = letter(instruction, "uplo") != 'U',
         .left = letter(instruction, "side") != 'R',
         .transposed = letter(instruction, "trans_x") == 'T' ||
                       letter(instruction, "trans_x") == 'C',
         .conjugated = complex && letter(instruction, "trans_x") == 'C',
         .unit_diagonal = letter(instruction, "diag") == 'U',
         .vectors = letter(instruction, "mode") != 'N',
         .by_qr = own == "gesvd",
         .complex = complex});
  }
  return {};
}

/// Whether numbers are complex: by their type, or where they are parted by the
/// number of arrays.
bool takes_complex(const Instruction& instruction, size_t operands) {
  const Shape& shape = instruction.shape;
  const Shape& first =
      shape.is_tuple() && !shape.elements.empty() ? shape.elements[0] : shape;
  return is_complex(first.type) || instruction.operands.size() > operands;
}

SingularVectors singular_vectors(const Instruction& instruction,
                                 std::string_view routine) {
  if (routine == "solver_gesvdj_ffi" || routine == "solver_gesvdp_ffi")
    return SingularVectors::kUV;
  return is_set(instruction, "transposed") ? SingularVectors::kVtU
                                           : SingularVectors::kUVt;
}

/// `cuXXX`, and what they are called on AMD's GPUs: the same routines.
MatrixOperation gpu_call(const Instruction& instruction,
                         std::string_view name) {
  const size_t maker = name.starts_with("cu")    ? 2
                       : name.starts_with("hip") ? 3
                                                 : name.size();
  name = name.substr(maker);
  for (const RoutineNames& routine : kRoutines) {
    if (routine.gpu.empty() || routine.gpu != name) continue;
    return with_attributes(
        instruction, {.kind = routine.kind,
                      .lower = is_set(instruction, "lower"),
                      .vectors = routine.kind != MatrixKind::kSingularValues ||
                                 is_set(instruction, "compute_uv"),
                      .packed_vectors = name == "solver_geev_ffi",
                      .singular = singular_vectors(instruction, name),
                      .solution_alone = true,
                      .perturbed = name == kPerturbed,
                      .complex = takes_complex(instruction, routine.operands)});
  }
  return {};
}

MatrixOperation call_operation(const Instruction& instruction) {
  std::string target = custom_call_target(instruction);
  // The one routine that is jaxlib's own, on CPU too.
  if (target == "tridiagonal_solve_perturbed_ffi")
    target = fmt::format("cu{}", kPerturbed);
  const MatrixOperation lapack = lapack_call(instruction, target);
  return lapack.kind != MatrixKind::kNone ? lapack
                                          : gpu_call(instruction, target);
}

}  // namespace

std::string custom_call_target(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kCustomCall) return {};
  const std::string_view text =
      call_attribute(instruction, "custom_call_target");
  if (text.size() < 2) return {};
  return std::string(text.substr(1, text.size() - 2));
}

std::string opcode_and_target(const Instruction& instruction) {
  const std::string target = custom_call_target(instruction);
  std::string name(opcode_name(instruction.opcode));
  return target.empty() ? name : fmt::format("{} \"{}\"", name, target);
}

std::string does_not_run(const Instruction& instruction) {
  const std::string target = custom_call_target(instruction);
  if (target.starts_with(kComplexCall)) {
    return target.substr(kComplexCall.size()) +
           " of complex numbers does not run";
  }
  return opcode_and_target(instruction) +
         (instruction.shape.is_tuple() ? " with a tuple result" : "") +
         " does not run";
}

Instruction triangular_solve_call(const Instruction& solve) {
  const MatrixOperation operation = matrix_operation(solve);
  const bool is_double = primitive_type_bits(solve.shape.type) == 128;
  const auto code = [](char letter) { return static_cast<int>(letter); };
  const bool adjoint = call_attribute(solve, "transpose_a") == "ADJOINT";
  const char plain = operation.transposed ? 'T' : 'N';
  Instruction call = solve;
  call.opcode = Opcode::kCustomCall;
  std::erase_if(call.attributes, [](const Attribute& attribute) {
    return attribute.name != "metadata" &&
           attribute.name != "control-predecessors";
  });
  call.attributes.push_back(
      {"custom_call_target",
       RawText{fmt::format("\"lapack_{}trsm_ffi\"", is_double ? 'z' : 'c')}});
  call.attributes.push_back(
      {"backend_config",
       RawText{fmt::format("{{diag = {} : ui8, side = {} : ui8, "
                           "trans_x = {} : ui8, uplo = {} : ui8}}",
                           code(operation.unit_diagonal ? 'U' : 'N'),
                           code(operation.left ? 'L' : 'R'),
                           code(adjoint ? 'C' : plain),
                           code(operation.lower ? 'L' : 'U'))}});
  return call;
}

MatrixOperation matrix_operation(const Instruction& instruction) {
  const std::string_view transpose = call_attribute(instruction, "transpose_a");
  switch (instruction.opcode) {
    case Opcode::kCustomCall:
      return call_operation(instruction);
    case Opcode::kCholesky:
      return {.kind = MatrixKind::kCholesky,
              .lower = is_true(instruction, "lower")};
    case Opcode::kTriangularSolve:
      return {.kind = MatrixKind::kTriangularSolve,
              .lower = is_true(instruction, "lower"),
              .left = is_true(instruction, "left_side"),
              .transposed = transpose == "TRANSPOSE" || transpose == "ADJOINT",
              .unit_diagonal = is_true(instruction, "unit_diagonal")};
    default:
      return {};
  }
}

}  // namespace reprise

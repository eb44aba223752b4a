// Attributes of the typed calls stand in backend_config as `uplo = 76 : ui8`,
// LAPACK's letters as their codes.
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

/// The letter that a typed call's `name` is; 0 where it has none.
char letter(const Instruction& instruction, std::string_view name) {
  const std::string_view config = call_attribute(instruction, "backend_config");
  const std::string key = std::string(name) + " = ";
  const size_t at = config.find(key);
  if (at == std::string_view::npos) return 0;
  int value = 0;
  const char* end = config.data() + config.size();
  std::from_chars(config.data() + at + key.size(), end, value);
  return value > 0 && value < 128 ? static_cast<char>(value) : '\0';
}

/// Some have other names for complex numbers.
MatrixKind kind_of_routine(std::string_view routine, bool complex) {
  if (complex) {
    if (routine == "orgqr" || routine == "syevd") return MatrixKind::kNone;
    if (routine == "ungqr") return MatrixKind::kHouseholderProduct;
    if (routine == "heevd") return MatrixKind::kSymmetricEigen;
  }
  if (routine == "potrf") return MatrixKind::kCholesky;
  if (routine == "trsm") return MatrixKind::kTriangularSolve;
  if (routine == "getrf") return MatrixKind::kLu;
  if (routine == "geqrf") return MatrixKind::kQr;
  if (routine == "orgqr") return MatrixKind::kHouseholderProduct;
  if (routine == "syevd") return MatrixKind::kSymmetricEigen;
  if (routine == "gesdd") return MatrixKind::kSingularValues;
  if (routine == "gtsv") return MatrixKind::kTridiagonalSolve;
  return MatrixKind::kNone;
}

/// `lapack_sXXX_ffi`, of floats, and those of d (double), c and z (complex).
MatrixOperation lapack_call(const Instruction& instruction) {
  const std::string target = custom_call_target(instruction);
  std::string_view name = target;
  constexpr std::string_view kBegin = "lapack_", kEnd = "_ffi";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  name = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  constexpr std::string_view kTypes = "sdcz";
  if (name.empty() || kTypes.find(name[0]) == std::string_view::npos) return {};
  const bool complex = name[0] == 'c' || name[0] == 'z';
  return {.kind = kind_of_routine(name.substr(1), complex),
          .lower = letter(instruction, "uplo") != 'U',
          .left = letter(instruction, "side") != 'R',
          .transposed = letter(instruction, "trans_x") == 'T' ||
                        letter(instruction, "trans_x") == 'C',
          .conjugated = complex && letter(instruction, "trans_x") == 'C',
          .unit_diagonal = letter(instruction, "diag") == 'U',
          .vectors = letter(instruction, "mode") != 'N',
          .complex = complex};
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

MatrixOperation matrix_operation(const Instruction& instruction) {
  const std::string_view transpose = call_attribute(instruction, "transpose_a");
  switch (instruction.opcode) {
    case Opcode::kCustomCall:
      return lapack_call(instruction);
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

// What an instruction computes of matrices: XLA's own opcodes, and the custom
// calls of LAPACK that JAX writes on CPU (jaxlib/cpu/lapack_kernels.h), whose
// names and attributes say plainly what they do.
#pragma once

#include <cstdint>
#include <string>

#include "data/hlo/module.h"

namespace reprise {

enum class MatrixKind : uint8_t {
  kNone,
  kCholesky,            ///< a -> factor; LAPACK's also gives `info`.
  kTriangularSolve,     ///< a, b -> x
  kLu,                  ///< a -> factors, pivots from 1, info
  kQr,                  ///< a -> reflectors below r, their factors
  kHouseholderProduct,  ///< reflectors, factors -> q
  kSymmetricEigen,      ///< a -> vectors, values, info
  kSingularValues,      ///< a -> (memory), values, u, vt, info
  kTridiagonalSolve,  ///< three diagonals, b -> what eliminating left, x, info
};

/// Matrices are the last two dimensions; those before count matrices.
struct MatrixOperation {
  MatrixKind kind = MatrixKind::kNone;
  bool lower = true;           ///< Which triangle of `a` is read.
  bool left = true;            ///< Solves a x = b, not x a = b.
  bool transposed = false;     ///< Solves with a's transpose.
  bool conjugated = false;     ///< What is transposed.
  bool unit_diagonal = false;  ///< The diagonal of `a` is not read: ones.
  bool vectors = true;         ///< Eigenvectors too, not values alone.
  /// Of complex numbers, which a call takes and gives in parts
  /// (data/hlo/split_complex.h): two arrays each.
  bool complex = false;
};

/// kNone for all other instructions.
MatrixOperation matrix_operation(const Instruction& instruction);

/// The target of a custom call without its quotes; empty for others.
std::string custom_call_target(const Instruction& instruction);

/// `custom-call "target"`, or the opcode.
std::string opcode_and_target(const Instruction& instruction);

/// The same with `does not run`; of the calls that split_complex leaves, what
/// they stand for.
std::string does_not_run(const Instruction& instruction);

}  // namespace reprise

// What an instruction computes of matrices: XLA's own opcodes, and the custom
// calls that JAX writes, of LAPACK on CPU (jaxlib/cpu/lapack_kernels.h) and of
// cuSOLVER and cuSPARSE on GPUs (jaxlib/gpu/solver_kernels_ffi.h), whose names
// and attributes say plainly what they do.
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
  kPivotedQr,           ///< a, order -> reflectors below r, order, factors
  kHouseholderProduct,  ///< reflectors, factors -> q
  kReflectorProduct,    ///< reflectors, factors, b -> q b
  kSymmetricEigen,      ///< a -> vectors, values, info
  kEigen,               ///< a -> values, left vectors, right ones, info
  kSchur,           ///< a -> form, vectors, values, how many were sorted, info
  kHessenberg,      ///< a -> reflectors below the form, factors, info
  kTridiagonal,     ///< a -> reflectors, diagonal, the one beside it, factors,
                    ///< info
  kSingularValues,  ///< a -> (memory), values, u, vt, info
  kTridiagonalSolve,  ///< three diagonals, b -> what eliminating left, x, info
  kPermutation,       ///< pivots from 0 -> the rows' order
};

/// Which singular vectors a call gives, in order.
enum class SingularVectors : uint8_t {
  kUVt,
  kUV,   ///< The right ones as columns too, as Jacobi's method has them.
  kVtU,  ///< Of a wide matrix, whose transpose cuSOLVER takes.
};

/// Matrices are the last two dimensions; those before count matrices.
struct MatrixOperation {
  MatrixKind kind = MatrixKind::kNone;
  bool lower = true;           ///< Which triangle of `a` is read.
  bool left = true;            ///< Solves a x = b, not x a = b; q b, not b q.
  bool transposed = false;     ///< Solves with a's transpose; qᵀ for q.
  bool conjugated = false;     ///< What is transposed.
  bool unit_diagonal = false;  ///< The diagonal of `a` is not read: ones.
  bool vectors = true;  ///< Eigenvectors (right ones) too, not values alone.
  bool left_vectors = false;  ///< And left ones, of kEigen.
  /// kEigen as cuSOLVER gives it: memory before the values, and vectors of real
  /// numbers, in which a conjugate pair's two parts lie side by side.
  bool packed_vectors = false;
  int32_t low = 1, high = 0;  ///< Rows from 1 that kHessenberg reduces.
  SingularVectors singular = SingularVectors::kUVt;
  bool by_qr = false;           ///< Singular values by gesvd, not gesdd.
  bool solution_alone = false;  ///< A tridiagonal solve gives x and no more.
  bool perturbed = false;       ///< Of a matrix that may be singular.
  /// Of complex numbers, which a call takes and gives in parts
  /// (data/hlo/split_complex.h): two arrays each.
  bool complex = false;
};

/// kNone for all other instructions.
MatrixOperation matrix_operation(const Instruction& instruction);

/// A triangular-solve of complex numbers as the call of LAPACK that JAX writes
/// for it on CPU: the opcode takes no parts.
Instruction triangular_solve_call(const Instruction& solve);

/// The target of a custom call without its quotes; empty for others.
std::string custom_call_target(const Instruction& instruction);

/// `custom-call "target"`, or the opcode.
std::string opcode_and_target(const Instruction& instruction);

/// The same with `does not run`; of the calls that split_complex leaves, what
/// they stand for.
std::string does_not_run(const Instruction& instruction);

}  // namespace reprise

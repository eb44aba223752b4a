// The routines of LAPACK that matrix_routine.cc calls, for float and double and
// complex numbers of both: one name for all, and workspaces of the size that
// they ask for; and products of doubles, which oneDNN has not. OpenBLAS's,
// loaded when a program first needs them. Matrices are column-major, without
// gaps; `info` is as LAPACK states it: 0, or the number from 1 of the pivot at
// which it stopped.
#pragma once

#include <boost/align/aligned_allocator.hpp>
#include <complex>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "data/result.h"

namespace reprise::lapack {

/// Loads them, once a process, before any other call: one thread and the loops
/// of the instructions that this CPU has, so that bits depend on nothing else.
/// Errors: kDevice where OpenBLAS is not installed.
Status load();

/// At the start of a cache line: some of OpenBLAS's loops add up from the first
/// whole vector of an array, so bits depend on where it lies.
template <typename T>
using Array = std::vector<T, boost::alignment::aligned_allocator<T, 64>>;

template <typename T>
inline constexpr bool kIsComplex = !std::is_floating_point_v<T>;

/// Of a number's parts.
template <typename T>
using Real = decltype(std::real(T()));

/// Kept from matrix to matrix.
template <typename T>
struct Workspace {
  Array<T> values;
  Array<Real<T>> reals;  ///< For complex numbers.
  Array<int32_t> integers;
};

/// a = l lᴴ in the lower triangle of `a`, n by n, or uᴴ u in the upper one.
template <typename T>
int32_t potrf(bool lower, int32_t n, T* a);

/// P a = l u in place; pivots[k]: the row, from 1, exchanged with row k.
template <typename T>
int32_t getrf(int32_t rows, int32_t columns, T* a, int32_t* pivots);

/// Reflectors below the diagonal, r above, their factors in `tau`.
template <typename T>
void geqrf(int32_t rows, int32_t columns, T* a, T* tau, Workspace<T>* work);

/// The same of columns in the order that pivots leave, from 1; those whose
/// pivot is not 0 to begin with come first.
template <typename T>
void geqp3(int32_t rows, int32_t columns, T* a, int32_t* pivots, T* tau,
           Workspace<T>* work);

/// q c or c q in place of c, rows by columns; with `transposed` qᴴ for q, the
/// product of reflectors.
template <typename T>
void ormqr(bool left, bool transposed, int32_t rows, int32_t columns,
           int32_t reflectors, const T* a, const T* tau, T* c,
           Workspace<T>* work);

/// The first `columns` columns of the product of `reflectors` of them.
template <typename T>
void orgqr(int32_t rows, int32_t columns, int32_t reflectors, T* a,
           const T* tau, Workspace<T>* work);

/// Eigenvalues, ascending, of a symmetric or Hermitian matrix of which one
/// triangle is read; with `vectors` its columns become them.
template <typename T>
int32_t syevd(bool vectors, bool lower, int32_t n, T* a, Real<T>* values,
              Workspace<T>* work);

/// Eigenvalues of any matrix, and eigenvectors unless null: columns, in which a
/// real matrix has the real part of a conjugate pair's first vector, then the
/// imaginary one.
template <typename T>
int32_t geev(int32_t n, T* a, std::complex<Real<T>>* values, T* left, T* right,
             Workspace<T>* work);

/// a = v s vᴴ: s in place of a, triangular but for 2 by 2 blocks of real
/// matrices, and v unless null.
template <typename T>
int32_t gees(int32_t n, T* a, std::complex<Real<T>>* values, T* v,
             Workspace<T>* work);

/// a = q h qᴴ, where h has one diagonal below the main one: h in place of a,
/// and below it reflectors, whose product q is. Rows from `low` to `high`, from
/// 1, are reduced.
template <typename T>
int32_t gehrd(int32_t n, int32_t low, int32_t high, T* a, T* tau,
              Workspace<T>* work);

/// The same of a symmetric or Hermitian matrix of which one triangle is read:
/// what is left is real, a diagonal and the one beside it.
template <typename T>
int32_t sytrd(bool lower, int32_t n, T* a, Real<T>* diagonal, Real<T>* beside,
              T* tau, Workspace<T>* work);

/// Singular values, descending; u and vt, whole or their first min(rows,
/// columns) columns and rows, unless null.
template <typename T>
int32_t gesdd(bool whole, int32_t rows, int32_t columns, T* a, Real<T>* values,
              T* u, T* vt, Workspace<T>* work);

/// The same by the QR algorithm.
template <typename T>
int32_t gesvd(bool whole, int32_t rows, int32_t columns, T* a, Real<T>* values,
              T* u, T* vt, Workspace<T>* work);

/// x of a tridiagonal system in place of b, n by columns. lower[0] stands in
/// row 1. What elimination leaves stays in the diagonals.
template <typename T>
int32_t gtsv(int32_t n, int32_t columns, T* lower, T* diagonal, T* upper, T* b);

struct Triangle {
  bool left = true;  ///< Solves a x = b, not x a = b.
  bool lower = true;
  bool transposed = false;
  bool conjugated = false;  ///< What is transposed.
  bool unit_diagonal = false;
};

/// x in place of b, rows by columns. Of this one matrices are row-major.
template <typename T>
void trsm(const Triangle& triangle, int32_t rows, int32_t columns, const T* a,
          T* b);

/// A row-major matrix, or its transpose; `leading`: elements from one row in
/// memory to the next.
struct Factor {
  const double* data = nullptr;
  int32_t leading = 0;
  bool transposed = false;
};

/// out[m, n] = (adds ? out : 0) + a b, row-major, summed over k.
void gemm(int32_t m, int32_t n, int32_t k, const Factor& a, const Factor& b,
          double* out, int32_t out_leading, bool adds);

}  // namespace reprise::lapack

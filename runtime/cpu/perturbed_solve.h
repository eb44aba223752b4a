// Tridiagonal systems that may be singular, as JAX solves them to find
// eigenvectors by inverse iteration (its tridiagonal_solve_perturbed; the
// method is that of LAPACK's xLAGTF and xLAGTS).
#pragma once

#include <cstddef>

namespace reprise {

/// x in place of b, n by columns, column-major: by elimination in which rows
/// change places, and pivots so small that x would overflow are made larger, by
/// parts of a unit in the last place of the largest. lower[0] stands in row 1
/// of a matrix that has no row 0 of it. T: float or double, real or complex.
template <typename T>
void perturbed_solve(size_t n, size_t columns, const T* lower,
                     const T* diagonal, const T* upper, T* b);

}  // namespace reprise

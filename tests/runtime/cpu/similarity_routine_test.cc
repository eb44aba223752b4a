// Matrices put together again from their eigenvalues and forms, as
// matrix_routine_test.cc does with factors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/runtime/cpu/matrix_calls.h"

namespace reprise {
namespace {

constexpr size_t kOrders[] = {1, 2, 3, 5, 17, 97};

std::string c128(size_t rows, size_t columns) {
  return fmt::format("c128[B{},{}]", rows, columns);
}

Matrix part(const Matrix& in_turn, bool imaginary, size_t n) {
  Matrix made(n, n);
  for (size_t i = 0; i < n * n; ++i)
    made.values[i] = in_turn.values[2 * i + (imaginary ? 1 : 0)];
  return made;
}

Matrix sum(Matrix a, const Matrix& b, double sign) {
  for (size_t i = 0; i < a.values.size(); ++i)
    a.values[i] += sign * b.values[i];
  return a;
}

/// a v = v w of vectors of length 1; left ones, of the transpose, have the
/// conjugates of w.
void expect_vectors(const Matrix& a, const Matrix& vectors, const Matrix& real,
                    const Matrix& imaginary, double sign) {
  const Matrix re = part(vectors, false, a.rows);
  const Matrix im = part(vectors, true, a.rows);
  const double scale = largest(a) * std::sqrt(a.rows);
  expect_near(product(a, re),
              sum(scaled(re, real), scaled(im, imaginary), -sign), scale);
  expect_near(product(a, im),
              sum(scaled(im, real), scaled(re, imaginary), sign), scale);
  for (size_t j = 0; j < a.rows; ++j) {
    double square = 0;
    for (size_t i = 0; i < a.rows; ++i)
      square += re(i, j) * re(i, j) + im(i, j) * im(i, j);
    EXPECT_NEAR(square, 1, 1e-12);
  }
}

std::vector<Matrix> eigen_of(const Matrix& a, char left, char right) {
  const size_t n = a.rows;
  return called({.target = "lapack_dgeev_ffi",
                 .config = fmt::format(
                     "compute_left = {} : ui8, compute_right = {} : ui8",
                     int{left}, int{right}),
                 .operands = {f64(n, n)},
                 .results = {f64(n), f64(n), c128(n, n), c128(n, n), "s32[B]"}},
                {a.values});
}

TEST(SimilarityRoutine, EigenvectorsOfBothSidesStayInPlace) {
  for (const size_t n : kOrders) {
    const Matrix a = drawn_matrix(n, n, static_cast<uint32_t>(n));
    const std::vector<Matrix> found = eigen_of(a, 'V', 'V');
    expect_vectors(a, found[3], found[0], found[1], 1);
    expect_vectors(turned(a), found[2], found[0], found[1], -1);
    EXPECT_EQ(found[4].values[0], 0);
    const std::vector<Matrix> values = eigen_of(a, 'N', 'N');
    EXPECT_EQ(largest(values[2]) + largest(values[3]), 0);
    double trace = 0;
    for (size_t i = 0; i < n; ++i) trace += a(i, i) - values[0].values[i];
    EXPECT_NEAR(trace, 0, 1e-12 * static_cast<double>(n));
  }
}

TEST(SimilarityRoutine, WhatIsNotFiniteHasNoEigenvalues) {
  Matrix a = identity(9);
  a(8, 0) = std::numeric_limits<double>::infinity();
  const std::vector<Matrix> found = eigen_of(a, 'V', 'V');
  EXPECT_TRUE(std::isnan(found[0].values[0]));
  EXPECT_EQ(found[4].values[0], -4);  // As jaxlib says it.
}

TEST(SimilarityRoutine, SchurFormsMakeTheMatrix) {
  for (const size_t n : kOrders) {
    const Matrix a = drawn_matrix(n, n, static_cast<uint32_t>(n));
    const std::vector<Matrix> found = called(
        {.target = "lapack_dgees_ffi",
         .config = "mode = 86 : ui8, sort = 78 : ui8",
         .operands = {f64(n, n)},
         .results = {f64(n, n), f64(n, n), f64(n), f64(n), "s32[B]", "s32[B]"}},
        {a.values});
    const Matrix t = shaped(found[0], n, n), v = shaped(found[1], n, n);
    expect_near(product(product(v, t), turned(v)), a,
                largest(a) * std::sqrt(n));
    expect_near(product(v, turned(v)), identity(n), 1);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j + 1 < i; ++j) EXPECT_EQ(t(i, j), 0);
    }
    EXPECT_EQ(found[4].values[0] + found[5].values[0], 0);
  }
}

/// q of reflectors that begin below the diagonal.
Matrix below_diagonal(const Matrix& reflectors, const Matrix& factors) {
  const size_t less = reflectors.rows - 1;
  Matrix lower(less, less), q = identity(less + 1);
  for (size_t i = 0; i < less; ++i) {
    for (size_t j = 0; j < less; ++j) lower(i, j) = reflectors(i + 1, j);
  }
  const Matrix found = shaped(called({.target = "lapack_dorgqr_ffi",
                                      .operands = {f64(less, less), f64(less)},
                                      .results = {f64(less, less)}},
                                     {lower.values, factors.values})[0],
                              less, less);
  for (size_t i = 0; i < less; ++i) {
    for (size_t j = 0; j < less; ++j) q(i + 1, j + 1) = found(i, j);
  }
  return q;
}

TEST(SimilarityRoutine, HessenbergFormsMakeTheMatrix) {
  for (const size_t n : kOrders) {
    if (n == 1) continue;
    const Matrix a = drawn_matrix(n, n, static_cast<uint32_t>(n));
    const std::vector<Matrix> found =
        called({.target = "lapack_dgehrd_ffi",
                .config = fmt::format("high = {} : i32, low = 1 : i32", n),
                .operands = {f64(n, n)},
                .results = {f64(n, n), f64(n - 1), "s32[B]"}},
               {a.values});
    Matrix h = shaped(found[0], n, n);
    const Matrix q = below_diagonal(h, found[1]);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j + 1 < i; ++j) h(i, j) = 0;
    }
    expect_near(product(product(q, h), turned(q)), a, largest(a));
    expect_near(product(q, turned(q)), identity(n), 1);
    EXPECT_EQ(found[2].values[0], 0);
  }
}

TEST(SimilarityRoutine, TridiagonalFormsMakeTheMatrix) {
  for (const size_t n : kOrders) {
    if (n == 1) continue;
    const Matrix half = drawn_matrix(n, n, static_cast<uint32_t>(n));
    const Matrix a = sum(half, turned(half), 1);
    for (const bool lower : {true, false}) {
      const std::vector<Matrix> found = called(
          {.target = "lapack_dsytrd_ffi",
           .config =
               fmt::format("uplo = {} : ui8", lower ? int{'L'} : int{'U'}),
           .operands = {f64(n, n)},
           .results = {f64(n, n), f64(n), f64(n - 1), f64(n - 1), "s32[B]"}},
          {triangle(a, lower).values});
      Matrix t(n, n);
      for (size_t i = 0; i < n; ++i) t(i, i) = found[1].values[i];
      for (size_t i = 0; i + 1 < n; ++i)
        t(i, i + 1) = t(i + 1, i) = found[2].values[i];
      double squares = 0;
      for (size_t i = 0; i < n * n; ++i)
        squares += a.values[i] * a.values[i] - t.values[i] * t.values[i];
      EXPECT_NEAR(squares, 0, 1e-11 * static_cast<double>(n * n));
      EXPECT_EQ(found[4].values[0], 0);
      if (!lower) continue;
      const Matrix q = below_diagonal(shaped(found[0], n, n), found[3]);
      expect_near(product(product(q, t), turned(q)), a, largest(a));
    }
  }
}

}  // namespace
}  // namespace reprise

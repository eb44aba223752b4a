// Factors multiplied again, through the calls that JAX writes: matrices that
// are random, of few ranks, with equal eigenvalues, tiny and huge, alone and
// three at a time, by one thread and by two.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/runtime/cpu/matrix_calls.h"

namespace reprise {
namespace {

constexpr size_t kSizes[] = {1, 2, 3, 5, 17, 97};

std::vector<Matrix> eigen(const Matrix& a, bool lower) {
  const size_t n = a.rows;
  return called({.target = "lapack_dsyevd_ffi",
                 .config = fmt::format("mode = 86 : ui8, uplo = {} : ui8",
                                       lower ? int{'L'} : int{'U'}),
                 .operands = {f64(n, n)},
                 .results = {f64(n, n), f64(n), "s32[B]"}},
                {triangle(a, lower).values});
}

void expect_eigen(const Matrix& a) {
  for (const bool lower : {true, false}) {
    const std::vector<Matrix> found = eigen(a, lower);
    const Matrix vectors = shaped(found[0], a.rows, a.rows);
    EXPECT_TRUE(std::ranges::is_sorted(found[1].values));
    expect_near(product(scaled(vectors, found[1]), turned(vectors)), a,
                largest(a));
    expect_near(product(turned(vectors), vectors), identity(a.rows), 1);
    EXPECT_EQ(found[2].values[0], 0);
  }
}

TEST(MatrixRoutine, EigenvectorsMakeTheMatrix) {
  uint32_t seed = 0;
  for (const size_t n : kSizes) {
    Matrix a = drawn_matrix(n, n, ++seed);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) a(i, j) = a(j, i);
    }
    expect_eigen(a);
    for (const double scale : {1e-160, 1e150}) {
      Matrix other = a;
      for (double& value : other.values) value *= scale;
      expect_eigen(other);
    }
    const Matrix few = drawn_matrix(n, std::min<size_t>(n, 2), seed);
    expect_eigen(product(few, turned(few)));
    expect_eigen(identity(n));
  }
}

TEST(MatrixRoutine, WhatIsNotFiniteHasNaNForValues) {
  for (const double value : {std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    Matrix a = identity(60);
    a(7, 7) = value;
    EXPECT_TRUE(std::isnan(eigen(a, true)[1].values[0]));
    const std::vector<Matrix> found = called(
        {.target = "lapack_dgesdd_ffi",
         .config = "mode = 83 : ui8",
         .operands = {f64(60, 60)},
         .results = {f64(60, 60), f64(60), f64(60, 60), f64(60, 60), "s32[B]"}},
        {a.values});
    EXPECT_TRUE(std::isnan(found[1].values[0]));
    EXPECT_TRUE(std::isnan(found[2].values[0]));
  }
}

TEST(MatrixRoutine, SingularVectorsMakeTheMatrix) {
  for (const size_t n : kSizes) {
    for (const size_t columns : {n, n / 2 + 1, 2 * n}) {
      for (const bool by_qr : {false, true}) {
        for (const bool whole : {false, true}) {
          const Matrix a =
              drawn_matrix(n, columns, static_cast<uint32_t>(n + columns));
          const size_t less = std::min(n, columns);
          const size_t u_columns = whole ? n : less;
          const size_t vt_rows = whole ? columns : less;
          const std::vector<Matrix> found = called(
              {.target = by_qr ? "lapack_dgesvd_ffi" : "lapack_dgesdd_ffi",
               .config = fmt::format("mode = {} : ui8", int{'S'}),
               .operands = {f64(n, columns)},
               .results = {f64(n, columns), f64(less), f64(n, u_columns),
                           f64(vt_rows, columns), "s32[B]"}},
              {a.values});
          EXPECT_TRUE(
              std::ranges::is_sorted(found[1].values, std::greater<>()));
          const Matrix u = shaped(found[2], n, u_columns);
          const Matrix vt = shaped(found[3], vt_rows, columns);
          Matrix middle(u_columns, vt_rows);
          for (size_t i = 0; i < less; ++i) middle(i, i) = found[1].values[i];
          expect_near(product(product(u, middle), vt), a, largest(a));
          expect_near(product(turned(u), u), identity(u_columns), 1);
          expect_near(product(vt, turned(vt)), identity(vt_rows), 1);
        }
      }
    }
  }
}

TEST(MatrixRoutine, CholeskyFactorsMakeTheMatrix) {
  for (const size_t n : kSizes) {
    const Matrix half = drawn_matrix(n, n, static_cast<uint32_t>(n));
    Matrix a = product(half, turned(half));
    for (size_t i = 0; i < n; ++i) a(i, i) += 1;
    for (const bool lower : {true, false}) {
      const LapackCall call = {
          .target = "lapack_dpotrf_ffi",
          .config = fmt::format("uplo = {} : ui8", lower ? int{'L'} : int{'U'}),
          .operands = {f64(n, n)},
          .results = {f64(n, n), "s32[B]"}};
      std::vector<Matrix> found = called(call, {triangle(a, lower).values});
      const Matrix l = shaped(found[0], n, n);
      EXPECT_EQ(l.values, triangle(l, lower).values);
      expect_near(lower ? product(l, turned(l)) : product(turned(l), l), a,
                  largest(a));
      EXPECT_EQ(found[1].values[0], 0);
      Matrix broken = a;
      broken(n - 1, n - 1) = -1;
      found = called(call, {broken.values});
      EXPECT_EQ(found[1].values[0], static_cast<double>(n));
      EXPECT_TRUE(std::isnan(found[0].values[0]));
    }
  }
}

/// q whole, of the reflectors in the first columns.
Matrix multiplied(const Matrix& reflectors, const Matrix& factors) {
  const size_t n = reflectors.rows;
  Matrix square(n, n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < std::min(n, reflectors.columns); ++j)
      square(i, j) = reflectors(i, j);
  }
  return shaped(called({.target = "lapack_dorgqr_ffi",
                        .operands = {f64(n, n), f64(factors.columns)},
                        .results = {f64(n, n)}},
                       {square.values, factors.values})[0],
                n, n);
}

TEST(MatrixRoutine, QrFactorsMakeTheMatrix) {
  for (const size_t n : kSizes) {
    for (const size_t columns : {n, n / 2 + 1, 2 * n}) {
      const Matrix a =
          drawn_matrix(n, columns, static_cast<uint32_t>(n + columns));
      const size_t less = std::min(n, columns);
      const std::vector<Matrix> factors =
          called({.target = "lapack_dgeqrf_ffi",
                  .operands = {f64(n, columns)},
                  .results = {f64(n, columns), f64(less)}},
                 {a.values});
      const Matrix both = shaped(factors[0], n, columns);
      const Matrix q = multiplied(both, factors[1]);
      expect_near(product(q, triangle(both, false)), a, largest(a));
      expect_near(product(turned(q), q), identity(n), 1);
    }
  }
}

TEST(MatrixRoutine, PivotsOrderColumnsBySize) {
  for (const size_t n : kSizes) {
    for (const size_t columns : {n, n / 2 + 1, 2 * n}) {
      const Matrix a =
          drawn_matrix(n, columns, static_cast<uint32_t>(n + columns));
      for (const bool last_first : {false, true}) {
        std::vector<double> order(columns, 0);
        order.back() = last_first ? 1 : 0;
        const std::string pivots = fmt::format("s32[B{}]", columns);
        const std::vector<Matrix> found = called(
            {.target = "lapack_dgeqp3_ffi",
             .operands = {f64(n, columns), pivots},
             .results = {f64(n, columns), pivots, f64(std::min(n, columns))}},
            {a.values, order});
        const Matrix both = shaped(found[0], n, columns);
        Matrix ordered = a;
        for (size_t j = 0; j < columns; ++j) {
          const auto from = static_cast<size_t>(found[1].values[j]) - 1;
          for (size_t i = 0; i < n; ++i) ordered(i, j) = a(i, from);
        }
        expect_near(product(multiplied(both, found[2]), triangle(both, false)),
                    ordered, largest(a));
        const size_t first = last_first ? 1 : 0;
        for (size_t k = first + 1; k < std::min(n, columns); ++k)
          EXPECT_LE(std::fabs(both(k, k)),
                    std::fabs(both(k - 1, k - 1)) * (1 + 1e-12));
        if (last_first) {
          EXPECT_EQ(found[1].values[0], static_cast<double>(columns));
        }
      }
    }
  }
}

TEST(MatrixRoutine, ReflectorsMultiplyFromBothSides) {
  for (const size_t n : kSizes) {
    const Matrix a = drawn_matrix(n, n / 2 + 1, static_cast<uint32_t>(n));
    const std::vector<Matrix> factors =
        called({.target = "lapack_dgeqrf_ffi",
                .operands = {f64(n, a.columns)},
                .results = {f64(n, a.columns), f64(a.columns)}},
               {a.values});
    const Matrix q = multiplied(shaped(factors[0], n, a.columns), factors[1]);
    for (int form = 0; form < 4; ++form) {
      const bool left = (form & 1) != 0, transposed = (form & 2) != 0;
      const Matrix b = left ? drawn_matrix(n, 7, 1) : drawn_matrix(7, n, 1);
      const Matrix found =
          shaped(called({.target = "lapack_dormqr_ffi",
                         .config = fmt::format("left = {}, transpose = {}",
                                               left, transposed),
                         .operands = {f64(n, a.columns), f64(a.columns),
                                      f64(b.rows, b.columns)},
                         .results = {f64(b.rows, b.columns)}},
                        {factors[0].values, factors[1].values, b.values})[0],
                 b.rows, b.columns);
      const Matrix by = transposed ? turned(q) : q;
      expect_near(left ? product(by, b) : product(b, by), found, largest(b));
    }
  }
}

Matrix triangular_solve(const Matrix& a, const Matrix& b, bool left, bool lower,
                        bool transposed, bool unit) {
  const std::vector<Matrix> found = called(
      {.target = "lapack_dtrsm_ffi",
       .config = fmt::format(
           "diag = {} : ui8, side = {} : ui8, trans_x = {} : ui8, uplo = {} : "
           "ui8",
           unit ? int{'U'} : int{'N'}, left ? int{'L'} : int{'R'},
           transposed ? int{'T'} : int{'N'}, lower ? int{'L'} : int{'U'}),
       .operands = {f64(a.rows, a.columns), f64(b.rows, b.columns)},
       .results = {f64(b.rows, b.columns)}},
      {a.values, b.values});
  return shaped(found[0], b.rows, b.columns);
}

TEST(MatrixRoutine, TrianglesSolveFromBothSides) {
  for (const size_t n : kSizes) {
    Matrix a = drawn_matrix(n, n, static_cast<uint32_t>(n));
    for (double& value : a.values) value /= static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) a(i, i) += 2;
    for (int form = 0; form < 16; ++form) {
      const bool left = (form & 1) != 0, lower = (form & 2) != 0,
                 transposed = (form & 4) != 0, unit = (form & 8) != 0;
      const Matrix b = left ? drawn_matrix(n, 7, 1) : drawn_matrix(7, n, 1);
      const Matrix x = triangular_solve(a, b, left, lower, transposed, unit);
      Matrix t = triangle(a, lower);
      for (size_t i = 0; unit && i < n; ++i) t(i, i) = 1;
      if (transposed) t = turned(t);
      expect_near(left ? product(t, x) : product(x, t), b, 10);
    }
  }
}

TEST(MatrixRoutine, LuFactorsMakeThePermutedMatrix) {
  for (const size_t n : kSizes) {
    for (const size_t columns : {n, n / 2 + 1, 2 * n}) {
      Matrix a = drawn_matrix(n, columns, static_cast<uint32_t>(3 * n));
      const size_t less = std::min(n, columns);
      const std::vector<Matrix> found =
          called({.target = "lapack_dgetrf_ffi",
                  .operands = {f64(n, columns)},
                  .results = {f64(n, columns), fmt::format("s32[B{}]", less),
                              "s32[B]"}},
                 {a.values});
      const Matrix both = shaped(found[0], n, columns);
      Matrix l(n, less), u(less, columns);
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < less; ++j)
          l(i, j) = i == j ? 1 : j < i ? both(i, j) : 0;
      }
      for (size_t i = 0; i < less; ++i) {
        for (size_t j = i; j < columns; ++j) u(i, j) = both(i, j);
      }
      for (size_t k = 0; k < less; ++k) {
        const auto other = static_cast<size_t>(found[1].values[k]) - 1;
        for (size_t j = 0; j < columns; ++j) std::swap(a(k, j), a(other, j));
      }
      expect_near(product(l, u), a, 10);
      EXPECT_EQ(found[2].values[0], 0);
    }
  }
}

TEST(MatrixRoutine, TridiagonalSystemsSolve) {
  for (const size_t n : kSizes) {
    Matrix a(n, n);
    const Matrix d = drawn_matrix(3, n, static_cast<uint32_t>(n));
    for (size_t i = 0; i < n; ++i) {
      a(i, i) = d(1, i);
      if (i > 0) a(i, i - 1) = d(0, i);
      if (i + 1 < n) a(i, i + 1) = d(2, i);
    }
    const Matrix x = drawn_matrix(n, 4, 9), b = product(a, x);
    const auto diagonal = [&](size_t i) {
      return std::vector<double>(
          d.values.begin() + static_cast<long>(i * n),
          d.values.begin() + static_cast<long>(i * n + n));
    };
    const std::vector<Matrix> found =
        called({.target = "lapack_dgtsv_ffi",
                .operands = {f64(n), f64(n), f64(n), f64(n, 4)},
                .results = {f64(n), f64(n), f64(n), f64(n, 4), "s32[B]"}},
               {diagonal(0), diagonal(1), diagonal(2), b.values});
    const Matrix got = shaped(found[3], n, 4);
    expect_near(product(a, got), b, 10 * (largest(got) + 1));
    EXPECT_EQ(found[4].values[0], 0);
  }
}

}  // namespace
}  // namespace reprise

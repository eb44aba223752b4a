// Factors multiplied again, of matrices that are random, of few ranks,
// diagonal, with equal eigenvalues, tiny and huge.
#include "runtime/cpu/matrix_factorization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace reprise {
namespace {

constexpr size_t kSizes[] = {1, 2, 3, 4, 5, 8, 17, 40, 97};

DenseMatrix random_matrix(size_t rows, size_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  DenseMatrix made(rows, columns);
  for (double& value : made.values) value = normal(random);
  return made;
}

DenseMatrix product(const DenseMatrix& a, const DenseMatrix& b) {
  DenseMatrix made(a.rows, b.columns);
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t k = 0; k < a.columns; ++k) {
      for (size_t j = 0; j < b.columns; ++j) made(i, j) += a(i, k) * b(k, j);
    }
  }
  return made;
}

double largest(const DenseMatrix& a) {
  double most = 0;
  for (const double value : a.values) most = std::max(most, std::fabs(value));
  return most;
}

void expect_equal(const DenseMatrix& a, const DenseMatrix& b, double scale) {
  ASSERT_EQ(a.values.size(), b.values.size());
  const double most = 1e-13 * scale * static_cast<double>(a.rows + 1);
  for (size_t i = 0; i < a.values.size(); ++i)
    ASSERT_NEAR(a.values[i], b.values[i], most) << "element " << i;
}

DenseMatrix identity_of(size_t n) {
  DenseMatrix one(n, n);
  for (size_t i = 0; i < n; ++i) one(i, i) = 1;
  return one;
}

void expect_eigen(const DenseMatrix& a) {
  DenseMatrix vectors = a;
  const std::vector<double> values = symmetric_eigen(&vectors);
  EXPECT_TRUE(std::ranges::is_sorted(values));
  DenseMatrix scaled = vectors;
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < a.rows; ++j) scaled(i, j) *= values[j];
  }
  expect_equal(product(scaled, vectors.transpose()), a, largest(a));
  expect_equal(product(vectors.transpose(), vectors), identity_of(a.rows), 1);
}

TEST(MatrixFactorization, EigenvectorsMakeTheMatrix) {
  uint32_t seed = 0;
  for (const size_t n : kSizes) {
    DenseMatrix a = random_matrix(n, n, ++seed);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) a(i, j) = a(j, i);
    }
    expect_eigen(a);
    for (const double scale : {1e-160, 1e150}) {
      DenseMatrix scaled = a;
      for (double& value : scaled.values) value *= scale;
      expect_eigen(scaled);
    }
    const DenseMatrix few = random_matrix(n, std::min<size_t>(n, 2), seed);
    expect_eigen(product(few, few.transpose()));
    expect_eigen(DenseMatrix(n, n));
    expect_eigen(identity_of(n));
    DenseMatrix diagonal(n, n);
    for (size_t i = 0; i < n; ++i)
      diagonal(i, i) = static_cast<double>(i % 3) - 1;
    expect_eigen(diagonal);
  }
}

TEST(MatrixFactorization, EigenvaluesOfWhatIsNotFiniteAreNaN) {
  for (const double value : {std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    DenseMatrix a = identity_of(300);
    a(7, 7) = value;
    EXPECT_TRUE(std::isnan(symmetric_eigen(&a).at(0)));
    EXPECT_TRUE(std::isnan(a(0, 0)));
  }
}

TEST(MatrixFactorization, CholeskyFactorsMakeTheMatrix) {
  for (const size_t n : kSizes) {
    const DenseMatrix half = random_matrix(n, n, static_cast<uint32_t>(n));
    DenseMatrix a = product(half, half.transpose());
    for (size_t i = 0; i < n; ++i) a(i, i) += 1;
    DenseMatrix l = a;
    ASSERT_EQ(factor_cholesky(&l), 0);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) EXPECT_EQ(l(i, j), 0);
    }
    expect_equal(product(l, l.transpose()), a, largest(a));
    a(n - 1, n - 1) = -1;
    EXPECT_EQ(factor_cholesky(&a), static_cast<int32_t>(n));
    EXPECT_TRUE(std::isnan(a(0, 0)));
  }
}

TEST(MatrixFactorization, QrFactorsMakeTheMatrix) {
  for (const size_t n : kSizes) {
    for (const size_t columns : {n, n / 2 + 1, 2 * n}) {
      const DenseMatrix a =
          random_matrix(n, columns, static_cast<uint32_t>(n + columns));
      DenseMatrix factors = a;
      const std::vector<double> tau = factor_qr(&factors);
      DenseMatrix r(n, columns), q(n, n);
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < columns; ++j)
          (j >= i ? r(i, j) : q(i, j)) = factors(i, j);
      }
      householder_product(tau, &q);
      expect_equal(product(q, r), a, largest(a));
      expect_equal(product(q.transpose(), q), identity_of(n), 1);
    }
  }
}

TEST(MatrixFactorization, LuFactorsAndTrianglesSolve) {
  for (const size_t n : kSizes) {
    const DenseMatrix a = random_matrix(n, n, static_cast<uint32_t>(3 * n));
    const DenseMatrix x = random_matrix(n, 7, static_cast<uint32_t>(5 * n));
    DenseMatrix b = product(a, x), factors = a;
    std::vector<int32_t> pivots;
    ASSERT_EQ(factor_lu(&factors, &pivots), 0);
    for (size_t k = 0; k < n; ++k) {
      for (size_t j = 0; j < b.columns; ++j)
        std::swap(b(k, j), b(static_cast<size_t>(pivots[k]) - 1, j));
    }
    solve_triangular(factors, true, true, &b);
    solve_triangular(factors, false, false, &b);
    for (size_t i = 0; i < b.values.size(); ++i)
      ASSERT_NEAR(b.values[i], x.values[i], 1e-9) << n;
  }
}

}  // namespace
}  // namespace reprise

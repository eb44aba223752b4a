// Factors multiplied again, through the calls that JAX writes: matrices that
// are random, of few ranks, with equal eigenvalues, tiny and huge, alone and
// three at a time, by one thread and by two.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

constexpr size_t kSizes[] = {1, 2, 3, 5, 17, 97};

/// Row-major.
struct Matrix {
  Matrix(size_t row_count, size_t column_count)
      : rows(row_count),
        columns(column_count),
        values(row_count * column_count) {}
  double& operator()(size_t i, size_t j) { return values[i * columns + j]; }
  double operator()(size_t i, size_t j) const {
    return values[i * columns + j];
  }

  size_t rows, columns;
  std::vector<double> values;
};

Matrix drawn(size_t rows, size_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Matrix made(rows, columns);
  for (double& value : made.values) value = normal(random);
  return made;
}

Matrix identity(size_t n) {
  Matrix made(n, n);
  for (size_t i = 0; i < n; ++i) made(i, i) = 1;
  return made;
}

Matrix turned(const Matrix& a) {
  Matrix made(a.columns, a.rows);
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < a.columns; ++j) made(j, i) = a(i, j);
  }
  return made;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix made(a.rows, b.columns);
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t k = 0; k < a.columns; ++k) {
      for (size_t j = 0; j < b.columns; ++j) made(i, j) += a(i, k) * b(k, j);
    }
  }
  return made;
}

/// Elements on and below the diagonal, or on and above it.
Matrix triangle(const Matrix& a, bool lower) {
  Matrix made = a;
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < a.columns; ++j) {
      if (lower ? j > i : j < i) made(i, j) = 0;
    }
  }
  return made;
}

/// Columns scaled.
Matrix scaled(Matrix a, const Matrix& factors) {
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < a.columns; ++j) a(i, j) *= factors.values[j];
  }
  return a;
}

double largest(const Matrix& a) {
  double most = 0;
  for (const double value : a.values) most = std::max(most, std::fabs(value));
  return most;
}

void expect_near(const Matrix& a, const Matrix& b, double scale) {
  ASSERT_EQ(a.values.size(), b.values.size());
  const double most = 1e-13 * scale * static_cast<double>(a.rows + 1);
  for (size_t i = 0; i < a.values.size(); ++i)
    ASSERT_NEAR(a.values[i], b.values[i], most) << "element " << i;
}

/// A custom call: shapes of operands and results without their batch, as
/// `f64[B3,4]`, where B stands for it.
struct LapackCall {
  std::string target, config = {};
  std::vector<std::string> operands = {}, results = {};
};

std::string with_batch(std::string shape, size_t batch) {
  const std::string count = batch == 0 ? "" : std::to_string(batch) + ",";
  shape.replace(shape.find('B'), 1, count);
  if (const size_t at = shape.find(",]"); at != std::string::npos)
    shape.erase(at, 1);
  return shape;
}

std::string text_of(const LapackCall& call, size_t batch) {
  std::string text = "HloModule m\nENTRY main {\n", names, shapes, parts;
  const auto add = [](std::string* to, const std::string& item) {
    *to += (to->empty() ? "" : ", ") + item;
  };
  for (size_t i = 0; i < call.operands.size(); ++i) {
    text += fmt::format("  p{} = {} parameter({})\n", i,
                        with_batch(call.operands[i], batch), i);
    add(&names, fmt::format("p{}", i));
  }
  for (const std::string& shape : call.results)
    add(&shapes, with_batch(shape, batch));
  text += fmt::format(
      "  c = ({}) custom-call({}), custom_call_target=\"{}\", "
      "backend_config={{{}}}\n",
      shapes, names, call.target, call.config);
  for (size_t i = 0; i < call.results.size(); ++i) {
    text += fmt::format("  r{} = {} get-tuple-element(c), index={}\n", i,
                        with_batch(call.results[i], batch), i);
    add(&parts, fmt::format("r{}", i));
  }
  return text + fmt::format("  ROOT t = ({}) tuple({})\n}}\n", shapes, parts);
}

using ResultBytes = std::vector<std::vector<std::byte>>;

ResultBytes results_of(const LapackCall& call,
                       const std::vector<std::vector<double>>& from,
                       size_t batch, size_t threads) {
  TextProgram program(text_of(call, batch), threads);
  for (size_t i = 0; i < from.size(); ++i) {
    const auto to = program.executor().parameter(i);
    for (size_t at = 0; at < to.size(); at += from[i].size() * 8)
      std::memcpy(to.data() + at, from[i].data(), from[i].size() * 8);
  }
  EXPECT_TRUE(program.executor().run_step(0));
  ResultBytes found;
  for (size_t i = 0; i < call.results.size(); ++i) {
    const auto bytes = program.executor().output(i);
    found.emplace_back(bytes.begin(), bytes.end());
  }
  return found;
}

/// Results of one call on f64; three at a time, by two threads, must have the
/// same bits.
std::vector<Matrix> called(const LapackCall& call,
                           const std::vector<std::vector<double>>& from) {
  const ResultBytes alone = results_of(call, from, 0, 1);
  for (const size_t threads : {1, 2}) {
    const ResultBytes three = results_of(call, from, 3, threads);
    for (size_t r = 0; r < alone.size(); ++r) {
      EXPECT_EQ(three[r].size(), 3 * alone[r].size());
      for (size_t at = 0; at < three[r].size(); at += alone[r].size()) {
        EXPECT_EQ(std::memcmp(&three[r][at], alone[r].data(), alone[r].size()),
                  0)
            << call.target << " result " << r;
      }
    }
  }
  std::vector<Matrix> made;
  for (size_t r = 0; r < alone.size(); ++r) {
    const bool integers = call.results[r].starts_with("s32");
    Matrix& to = made.emplace_back(1, alone[r].size() / (integers ? 4 : 8));
    for (size_t i = 0; i < to.columns; ++i) {
      int32_t integer = 0;
      if (!integers) std::memcpy(&to.values[i], &alone[r][i * 8], 8);
      if (integers) std::memcpy(&integer, &alone[r][i * 4], 4);
      if (integers) to.values[i] = integer;
    }
  }
  return made;
}

Matrix shaped(Matrix a, size_t rows, size_t columns) {
  EXPECT_EQ(a.values.size(), rows * columns);
  a.rows = rows;
  a.columns = columns;
  return a;
}

std::string f64(size_t rows, size_t columns) {
  return fmt::format("f64[B{},{}]", rows, columns);
}
std::string f64(size_t n) { return fmt::format("f64[B{}]", n); }

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
    Matrix a = drawn(n, n, ++seed);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) a(i, j) = a(j, i);
    }
    expect_eigen(a);
    for (const double scale : {1e-160, 1e150}) {
      Matrix other = a;
      for (double& value : other.values) value *= scale;
      expect_eigen(other);
    }
    const Matrix few = drawn(n, std::min<size_t>(n, 2), seed);
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
      for (const bool whole : {false, true}) {
        const Matrix a = drawn(n, columns, static_cast<uint32_t>(n + columns));
        const size_t less = std::min(n, columns);
        const size_t u_columns = whole ? n : less;
        const size_t vt_rows = whole ? columns : less;
        const std::vector<Matrix> found =
            called({.target = "lapack_dgesdd_ffi",
                    .config = fmt::format("mode = {} : ui8", int{'S'}),
                    .operands = {f64(n, columns)},
                    .results = {f64(n, columns), f64(less), f64(n, u_columns),
                                f64(vt_rows, columns), "s32[B]"}},
                   {a.values});
        EXPECT_TRUE(std::ranges::is_sorted(found[1].values, std::greater<>()));
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

TEST(MatrixRoutine, CholeskyFactorsMakeTheMatrix) {
  for (const size_t n : kSizes) {
    const Matrix half = drawn(n, n, static_cast<uint32_t>(n));
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

TEST(MatrixRoutine, QrFactorsMakeTheMatrix) {
  for (const size_t n : kSizes) {
    for (const size_t columns : {n, n / 2 + 1, 2 * n}) {
      const Matrix a = drawn(n, columns, static_cast<uint32_t>(n + columns));
      const size_t less = std::min(n, columns);
      const std::vector<Matrix> factors =
          called({.target = "lapack_dgeqrf_ffi",
                  .operands = {f64(n, columns)},
                  .results = {f64(n, columns), f64(less)}},
                 {a.values});
      const Matrix both = shaped(factors[0], n, columns);
      Matrix reflectors(n, n);
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < less; ++j) reflectors(i, j) = both(i, j);
      }
      const std::vector<Matrix> found =
          called({.target = "lapack_dorgqr_ffi",
                  .operands = {f64(n, n), f64(less)},
                  .results = {f64(n, n)}},
                 {reflectors.values, factors[1].values});
      const Matrix q = shaped(found[0], n, n);
      expect_near(product(q, triangle(both, false)), a, largest(a));
      expect_near(product(turned(q), q), identity(n), 1);
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
    Matrix a = drawn(n, n, static_cast<uint32_t>(n));
    for (double& value : a.values) value /= static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) a(i, i) += 2;
    for (int form = 0; form < 16; ++form) {
      const bool left = (form & 1) != 0, lower = (form & 2) != 0,
                 transposed = (form & 4) != 0, unit = (form & 8) != 0;
      const Matrix b = left ? drawn(n, 7, 1) : drawn(7, n, 1);
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
      Matrix a = drawn(n, columns, static_cast<uint32_t>(3 * n));
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
    const Matrix d = drawn(3, n, static_cast<uint32_t>(n));
    for (size_t i = 0; i < n; ++i) {
      a(i, i) = d(1, i);
      if (i > 0) a(i, i - 1) = d(0, i);
      if (i + 1 < n) a(i, i + 1) = d(2, i);
    }
    const Matrix x = drawn(n, 4, 9), b = product(a, x);
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

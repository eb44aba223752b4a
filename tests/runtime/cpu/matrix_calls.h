// Matrices, and calls of LAPACK on them through a program of one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

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

Matrix drawn_matrix(size_t rows, size_t columns, uint32_t seed);
Matrix identity(size_t n);
Matrix turned(const Matrix& a);
Matrix product(const Matrix& a, const Matrix& b);

/// Elements on and below the diagonal, or on and above it.
Matrix triangle(const Matrix& a, bool lower);

/// Columns scaled.
Matrix scaled(Matrix a, const Matrix& factors);

double largest(const Matrix& a);

/// To some units in the last place of `scale`.
void expect_near(const Matrix& a, const Matrix& b, double scale);

/// The same elements as a matrix of that shape.
Matrix shaped(Matrix a, size_t rows, size_t columns);

/// A custom call: shapes of operands and results without their batch, as
/// `f64[B3,4]`, where B stands for it.
struct LapackCall {
  std::string target, config = {};
  std::vector<std::string> operands = {}, results = {};
};

std::string f64(size_t rows, size_t columns);
std::string f64(size_t n);

/// Results of one call on f64, complex ones with parts in turn; three at a
/// time, by two threads, must have the same bits.
std::vector<Matrix> called(const LapackCall& call,
                           const std::vector<std::vector<double>>& from);

}  // namespace reprise

#include "tests/runtime/cpu/matrix_calls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

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
    const auto to = program.executor().parameter(static_cast<int64_t>(i));
    const bool integers = call.operands[i].starts_with("s32");
    const std::vector<int32_t> whole(from[i].begin(), from[i].end());
    const auto bytes = integers ? std::as_bytes(std::span(whole))
                                : std::as_bytes(std::span(from[i]));
    for (size_t at = 0; at < to.size(); at += bytes.size())
      std::memcpy(to.data() + at, bytes.data(), bytes.size());
  }
  EXPECT_TRUE(program.executor().run_step(0));
  ResultBytes found;
  for (size_t i = 0; i < call.results.size(); ++i) {
    const auto bytes = program.executor().output(i);
    found.emplace_back(bytes.begin(), bytes.end());
  }
  return found;
}

}  // namespace

Matrix drawn_matrix(size_t rows, size_t columns, uint32_t seed) {
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

Matrix triangle(const Matrix& a, bool lower) {
  Matrix made = a;
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < a.columns; ++j) {
      if (lower ? j > i : j < i) made(i, j) = 0;
    }
  }
  return made;
}

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

}  // namespace reprise

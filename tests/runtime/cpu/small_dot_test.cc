// Dots that kernels compute, against their definition, and which ones are.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "runtime/cpu/array_view.h"
#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

using Extents = std::vector<int64_t>;

int64_t product(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1},
                         std::multiplies<>());
}

/// Extents by kind, and how each operand orders them: batch, free, contracted.
struct DotText {
  Extents batch, lhs_free, rhs_free, contracted;
  std::vector<size_t> lhs_order, rhs_order;
  std::string type = "f32";

  Extents result() const {
    Extents all = batch;
    all.insert(all.end(), lhs_free.begin(), lhs_free.end());
    all.insert(all.end(), rhs_free.begin(), rhs_free.end());
    return all;
  }
  /// In the order (batch, free, contracted).
  Extents kinds(bool left) const {
    Extents all = batch;
    const Extents& free = left ? lhs_free : rhs_free;
    all.insert(all.end(), free.begin(), free.end());
    all.insert(all.end(), contracted.begin(), contracted.end());
    return all;
  }
  Extents extents(bool left) const {
    Extents all;
    for (const size_t d : left ? lhs_order : rhs_order)
      all.push_back(kinds(left)[d]);
    return all;
  }
  /// Where numbers [from, from + count) of `kinds` stand.
  Extents places(bool left, size_t from, size_t count) const {
    const auto& order = left ? lhs_order : rhs_order;
    Extents found;
    for (size_t k = from; k < from + count; ++k)
      found.push_back(std::find(order.begin(), order.end(), k) - order.begin());
    return found;
  }
  std::string text() const {
    std::string dimensions;
    for (const bool left : {true, false}) {
      const char* side = left ? "lhs" : "rhs";
      const size_t free = (left ? lhs_free : rhs_free).size();
      dimensions += fmt::format(
          ", {}_batch_dims={{{}}}, {}_contracting_dims={{{}}}", side,
          fmt::join(places(left, 0, batch.size()), ","), side,
          fmt::join(places(left, batch.size() + free, contracted.size()), ","));
    }
    const auto shape = [&](const Extents& extents) {
      return fmt::format("{}[{}]", type, fmt::join(extents, ","));
    };
    return fmt::format(
        "HloModule m\nENTRY e {{\n  x = {0} parameter(0)\n  y = {1} "
        "parameter(1)\n  d = {2} dot(x, y){3}\n  ROOT n = {2} negate(d)\n}}\n",
        shape(extents(true)), shape(extents(false)), shape(result()),
        dimensions);
  }

  /// Strides of an operand in the order (batch, free, contracted).
  Extents strides(bool left) const {
    const Extents all = extents(left);
    const auto& order = left ? lhs_order : rhs_order;
    Extents of(all.size());
    int64_t stride = 1;
    for (size_t k = all.size(); k-- > 0; stride *= all[k])
      of[order[k]] = stride;
    return of;
  }
};

bool runs_in_kernels(const Schedule& schedule) {
  return std::all_of(
      schedule.units.begin(), schedule.units.end(),
      [](const Unit& unit) { return unit.kind == UnitKind::kKernel; });
}

/// Elements of a result, and the sum of their products' magnitudes.
std::vector<std::pair<double, double>> definition(const DotText& dot,
                                                  const std::vector<float>& x,
                                                  const std::vector<float>& y) {
  const Extents xs = dot.strides(true), ys = dot.strides(false);
  const size_t batch = dot.batch.size(), left = dot.lhs_free.size(),
               right = dot.rhs_free.size();
  std::vector<std::pair<double, double>> made;
  IndexCounter at(dot.result());
  do {
    double sum = 0, magnitude = 0;
    IndexCounter k(dot.contracted);
    do {
      int64_t a = 0, b = 0;
      for (size_t d = 0; d < batch; ++d) {
        a += at[d] * xs[d];
        b += at[d] * ys[d];
      }
      for (size_t d = 0; d < left; ++d) a += at[batch + d] * xs[batch + d];
      for (size_t d = 0; d < right; ++d)
        b += at[batch + left + d] * ys[batch + d];
      for (size_t d = 0; d < dot.contracted.size(); ++d) {
        a += k[d] * xs[batch + left + d];
        b += k[d] * ys[batch + right + d];
      }
      const double term = static_cast<double>(x[static_cast<size_t>(a)]) *
                          static_cast<double>(y[static_cast<size_t>(b)]);
      sum += term;
      magnitude += std::fabs(term);
    } while (k.next());
    made.emplace_back(sum, magnitude);
  } while (at.next());
  return made;
}

void expect_definition(const DotText& dot, uint32_t seed) {
  SCOPED_TRACE(dot.text());
  TextProgram program(dot.text(), 1, seed % 8 != 0);
  EXPECT_TRUE(runs_in_kernels(program.schedule()));
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::array<std::vector<float>, 2> operands;
  for (size_t n = 0; n < 2; ++n) {
    operands.at(n).resize(static_cast<size_t>(product(dot.extents(n == 0))));
    for (float& value : operands.at(n)) value = uniform(random);
    const auto to = program.executor().parameter(static_cast<int64_t>(n));
    ASSERT_EQ(to.size(), operands.at(n).size() * sizeof(float));
    std::memcpy(to.data(), operands.at(n).data(), to.size());
  }
  ASSERT_TRUE(program.executor().run_step(0));
  const auto want = definition(dot, operands[0], operands[1]);
  const auto got = program.executor().output(0);
  ASSERT_EQ(got.size(), want.size() * sizeof(float));
  for (size_t i = 0; i < want.size(); ++i) {
    float value = 0;
    std::memcpy(&value, got.data() + i * sizeof value, sizeof value);
    ASSERT_NEAR(
        -value, want[i].first,
        want[i].second *
            std::ldexp(static_cast<double>(product(dot.contracted) + 1), -24))
        << i;
  }
}

TEST(SmallDot, IsItsDefinition) {
  for (uint32_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const auto some = [&](size_t most, int64_t least) {
      Extents extents(random() % (most + 1));
      for (int64_t& extent : extents)
        extent = least + static_cast<int64_t>(random() % 3);
      return extents;
    };
    DotText dot;
    dot.batch = some(2, 2);
    dot.lhs_free = some(2, 1);
    dot.rhs_free = some(1, 1);
    if (product(dot.batch) > 1) {
      dot.contracted = some(1, 1);
    } else if (random() % 2 == 0) {
      dot.contracted = {1};
    }
    for (const bool left : {true, false}) {
      auto& order = left ? dot.lhs_order : dot.rhs_order;
      order.resize(dot.kinds(left).size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      // A dot's free dimensions keep their order.
      size_t next = dot.batch.size();
      const size_t end = next + (left ? dot.lhs_free : dot.rhs_free).size();
      for (size_t& kind : order)
        if (kind >= dot.batch.size() && kind < end) kind = next++;
    }
    expect_definition(dot, seed);
  }
}

TEST(SmallDot, OthersAreTheLibrarys) {
  const auto in_kernels = [](const DotText& dot) {
    return runs_in_kernels(TextProgram(dot.text()).schedule());
  };
  const DotText matrices{.batch = {8},
                         .lhs_free = {4},
                         .rhs_free = {4},
                         .contracted = {8},
                         .lhs_order = {0, 1, 2},
                         .rhs_order = {0, 1, 2}};
  EXPECT_TRUE(in_kernels(matrices));
  DotText one = matrices, large = matrices, deep = matrices, half = matrices;
  one.batch = {1};
  EXPECT_FALSE(in_kernels(one));
  large.lhs_free = {8};
  EXPECT_FALSE(in_kernels(large));
  deep.lhs_free = {1};
  deep.contracted = {16};
  EXPECT_FALSE(in_kernels(deep));
  half.type = "bf16";
  EXPECT_FALSE(in_kernels(half));
  // Of depth one, of any size.
  large.contracted = {1};
  large.lhs_free = {300};
  EXPECT_TRUE(in_kernels(large));
}

/// A sum from zero on: -0 is no result.
TEST(SmallDot, OfDepthOneStartsFromZero) {
  TextProgram program(
      "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  y = f32[2] "
      "parameter(1)\n  ROOT d = f32[2,2] dot(x, y), lhs_contracting_dims={}, "
      "rhs_contracting_dims={}\n}\n");
  const std::array<float, 2> x = {0, 1}, y = {-1, -0.F};
  std::memcpy(program.executor().parameter(0).data(), x.data(), sizeof x);
  std::memcpy(program.executor().parameter(1).data(), y.data(), sizeof y);
  ASSERT_TRUE(program.executor().run_step(0));
  std::array<float, 4> got{};
  std::memcpy(got.data(), program.executor().output(0).data(), sizeof got);
  EXPECT_EQ(got, (std::array<float, 4>{0, 0, -1, 0}));
  for (const float value : got) EXPECT_EQ(std::signbit(value), value < 0);
}

}  // namespace
}  // namespace reprise

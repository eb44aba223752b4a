// Simplification of index expressions, by hand and against brute force.
#include "data/kernel/index_expression.h"

#include <gtest/gtest.h>

#include <random>

namespace reprise {
namespace {

/// Value of an expression without runtime values, for given loop variables.
int64_t evaluate(const IndexTable& table, int32_t expression,
                 const std::vector<int64_t>& loops) {
  int64_t sum = table.at(expression).constant;
  for (const IndexTerm& term : table.at(expression).terms) {
    const IndexAtom& atom = table.atom(term.atom);
    int64_t value = 0;
    if (atom.kind == IndexAtom::Kind::kLoop) {
      value = loops[static_cast<size_t>(atom.operand)];
    } else {
      value = evaluate(table, atom.operand, loops);
      if (atom.kind == IndexAtom::Kind::kFloorDiv) value /= atom.divisor;
      if (atom.kind == IndexAtom::Kind::kMod) value %= atom.divisor;
      if (atom.kind == IndexAtom::Kind::kClamp) {
        value = std::min(std::max(value, atom.low), atom.high);
      }
    }
    sum += term.coefficient * value;
  }
  return sum;
}

TEST(IndexExpression, ReshapesOfWholeDimensionsBecomeStrides) {
  IndexTable table;
  // [a=10, b=64, c=256] seen as [640, 256]: row = 64a + b, column = c.
  const int32_t a = table.loop(0, 10), b = table.loop(1, 64),
                c = table.loop(2, 256);
  const std::vector<int32_t> index{a, b, c};
  const std::vector<int64_t> from{10, 64, 256}, to{640, 256};
  const auto view = table.delinearize(table.linearize(index, from), to);
  EXPECT_EQ(view[0], table.add(table.scale(a, 64), b));
  EXPECT_EQ(view[1], c);
}

TEST(IndexExpression, ASplitDimensionComesBackTogether) {
  IndexTable table;
  // [640] seen as [10, 64] and back.
  const int32_t row = table.loop(0, 640);
  const std::vector<int64_t> whole{640}, parts{10, 64};
  const std::vector<int32_t> index{row};
  const auto split = table.delinearize(table.linearize(index, whole), parts);
  EXPECT_NE(split[0], row);
  EXPECT_EQ(table.linearize(split, parts), row);
}

TEST(IndexExpression, AClampThatNeverBindsIsNoClamp) {
  IndexTable table;
  const int32_t i = table.loop(0, 8);
  EXPECT_EQ(table.clamp(i, 0, 7), i);
  EXPECT_NE(table.clamp(i, 0, 6), i);
}

TEST(IndexExpression, ChainsOfReshapesAgreeWithBruteForce) {
  std::mt19937_64 generator(1);
  const std::vector<std::vector<int64_t>> shapes{
      {120},     {2, 60},   {60, 2},      {4, 30},
      {3, 5, 8}, {8, 5, 3}, {2, 3, 4, 5}, {5, 24}};
  for (int round = 0; round < 200; ++round) {
    IndexTable table;
    const auto& domain = shapes[generator() % shapes.size()];
    std::vector<int32_t> index;
    for (size_t d = 0; d < domain.size(); ++d) {
      index.push_back(table.loop(static_cast<int32_t>(d), domain[d]));
    }
    int32_t place = table.linearize(index, domain);
    // Random reshapes, each with its first two dimensions swapped.
    std::vector<std::vector<int64_t>> chain;
    for (int step = 0; step < 3; ++step) {
      const auto& shape = shapes[generator() % shapes.size()];
      auto view = table.delinearize(place, shape);
      auto swapped = shape;
      if (shape.size() > 1) {
        std::swap(view[0], view[1]);
        std::swap(swapped[0], swapped[1]);
      }
      chain.push_back(shape);
      place = table.linearize(view, swapped);
    }
    for (int64_t flat = 0; flat < 120; ++flat) {
      std::vector<int64_t> loops(domain.size());
      int64_t rest = flat;
      for (size_t d = domain.size(); d-- > 0; rest /= domain[d]) {
        loops[d] = rest % domain[d];
      }
      int64_t want = flat;
      for (const auto& shape : chain) {
        if (shape.size() < 2) continue;
        const int64_t inner = 120 / shape[0] / shape[1];
        const int64_t first = want / inner / shape[1];
        const int64_t second = want / inner % shape[1];
        want = (second * shape[0] + first) * inner + want % inner;
      }
      ASSERT_EQ(evaluate(table, place, loops), want) << "round " << round;
      ASSERT_GE(want, table.at(place).low);
      ASSERT_LE(want, table.at(place).high);
    }
  }
}

}  // namespace
}  // namespace reprise

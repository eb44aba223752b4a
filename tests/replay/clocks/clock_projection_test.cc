#include "replay/clocks/clock_projection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace reprise {
namespace {

LinearBound bound(double x, double y, double least) {
  LinearBound result{.terms = {}, .least = least};
  result.add(0, x);
  result.add(1, y);
  return result;
}

TEST(Projection, MovesStraightToABound) {
  Projection projection(2);
  // 3x + 4y >= 25 is nearest to zero at (3, 4).
  EXPECT_TRUE(projection.meet(bound(3, 4, 25)));
  EXPECT_NEAR(projection.point()[0], 3, 1e-12);
  EXPECT_NEAR(projection.point()[1], 4, 1e-12);
}

TEST(Projection, LetsGoOfABoundThatAnotherMakesNeedless) {
  Projection projection(2);
  EXPECT_TRUE(projection.meet(bound(1, 1, 2)));  // (1, 1)
  // x >= 4 alone gives (4, 0), which meets the first one too.
  EXPECT_TRUE(projection.meet(bound(1, 0, 4)));
  EXPECT_NEAR(projection.point()[0], 4, 1e-12);
  EXPECT_NEAR(projection.point()[1], 0, 1e-12);
}

TEST(Projection, KeepsABoundThatStillPushes) {
  Projection projection(2);
  EXPECT_TRUE(projection.meet(bound(1, 1, 2)));  // (1, 1)
  // y <= 0 pushes back: (2, 0) is where both are met.
  EXPECT_TRUE(projection.meet(bound(0, -1, 0)));
  EXPECT_NEAR(projection.point()[0], 2, 1e-12);
  EXPECT_NEAR(projection.point()[1], 0, 1e-12);
}

TEST(Projection, GivesUpWhatContradictsTheRest) {
  Projection projection(2);
  EXPECT_TRUE(projection.meet(bound(1, 0, 2)));
  EXPECT_FALSE(projection.meet(bound(-1, 0, 0)));  // x >= 2 and x <= 0.
  EXPECT_GE(projection.slack(bound(1, 0, 2)), -1e-12);
}

// Random bounds around a point that meets them all: the projection must find a
// point that does, too, and lie no further from zero than that one.
TEST(Projection, MeetsWhateverCanBeMet) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    constexpr size_t kVariables = 8;
    std::array<double, kVariables> meets{};
    for (double& value : meets) value = 10 * normal(random);
    std::vector<LinearBound> bounds;
    for (int i = 0; i < 60; ++i) {
      LinearBound next{.terms = {}};
      double value = 0;
      for (size_t k = 0; k < 4; ++k) {
        const size_t variable = random() % kVariables;
        const double weight = normal(random);
        next.add(variable, weight);
        value += weight * meets[variable];
      }
      next.least = value - 0.1 * std::abs(normal(random));
      bounds.push_back(next);
    }
    Projection projection(kVariables);
    for (int round = 0; round < 100; ++round) {
      for (const LinearBound& next : bounds) {
        if (projection.slack(next) < -1e-9) {
          ASSERT_TRUE(projection.meet(next)) << seed;
        }
      }
    }
    double length = 0, allowed = 0;
    for (const LinearBound& next : bounds) {
      EXPECT_GE(projection.slack(next), -1e-6) << seed;
    }
    for (size_t i = 0; i < kVariables; ++i) {
      length += projection.point()[i] * projection.point()[i];
      allowed += meets[i] * meets[i];
    }
    EXPECT_LE(length, allowed + 1e-6) << seed;
  }
}

}  // namespace
}  // namespace reprise

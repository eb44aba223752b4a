// Minimizes a function of a few positive parameters without derivatives.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

namespace reprise {

/// Explores each parameter by factors exp(±step), then keeps jumping along what
/// an exploration gained (which follows narrow valleys), and halves the step
/// when nothing helps, until it is below 2e-3. Deterministic.
/// Requires: all parameters > 0.
/// Source: Hooke and Jeeves, "Direct search", JACM 8(2), 1961.
class PatternSearch {
 public:
  using Point = std::vector<double>;
  using Loss = std::function<double(const Point&)>;

  explicit PatternSearch(Loss loss) : loss_(std::move(loss)) {}

  Point minimize(Point base) {
    constexpr double kFirstStep = 0.7, kLastStep = 2e-3;
    constexpr int kMostRounds = 120;
    double base_loss = loss_(base);
    double step = kFirstStep;
    for (int round = 0; round < kMostRounds && step > kLastStep; ++round) {
      Point next = base;
      double next_loss = base_loss;
      explore(next, next_loss, step);
      if (next_loss >= base_loss) {
        step /= 2;
        continue;
      }
      for (; next_loss < base_loss && round < kMostRounds; ++round) {
        Point jump = next;
        for (size_t i = 0; i < jump.size(); ++i) {
          jump[i] *= next[i] / base[i];
        }
        base = next;
        base_loss = next_loss;
        double jump_loss = loss_(jump);
        explore(jump, jump_loss, step);
        next = jump;
        next_loss = jump_loss;
      }
    }
    return base;
  }

 private:
  void explore(Point& point, double& best, double step) const {
    for (double& parameter : point) {
      const double kept = parameter;
      for (const double factor : {std::exp(step), std::exp(-step)}) {
        parameter = kept * factor;
        const double tried = loss_(point);
        if (tried < best) {
          best = tried;
          break;
        }
        parameter = kept;
      }
    }
  }

  Loss loss_;
};

}  // namespace reprise

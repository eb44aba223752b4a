#include "replay/clocks/clock_projection.h"

#include <cmath>
#include <limits>

namespace reprise {
namespace {

double product(const LinearBound& a, const LinearBound& b) {
  double sum = 0;
  for (size_t i = 0; i < a.count; ++i) {
    for (size_t j = 0; j < b.count; ++j) {
      if (a.terms[i].variable != b.terms[j].variable) continue;
      sum += a.terms[i].weight * b.terms[j].weight;
    }
  }
  return sum;
}

}  // namespace

double Projection::slack(const LinearBound& bound) const {
  double sum = -bound.least;
  for (size_t i = 0; i < bound.count; ++i) {
    sum += bound.terms[i].weight * point_[bound.terms[i].variable];
  }
  return sum;
}

Projection::Direction Projection::direction_of(const LinearBound& bound) const {
  const size_t size = tight_.size();
  Direction direction{.factor = std::vector<double>(size + 1),
                      .shares = std::vector<double>(size),
                      .free = std::vector<double>(point_.size(), 0)};
  double square = product(bound, bound);
  const double length = square;
  for (size_t j = 0; j < size; ++j) {
    double value = product(tight_[j].bound, bound);
    for (size_t i = 0; i < j; ++i) value -= factor_[j][i] * direction.factor[i];
    direction.factor[j] = value / factor_[j][j];
    square -= direction.factor[j] * direction.factor[j];
  }
  constexpr double kDependent = 1e-10;  // Of the normal's own square.
  direction.free_square = square > kDependent * length ? square : 0;
  direction.factor[size] = std::sqrt(direction.free_square);
  for (size_t j = size; j-- > 0;) {
    double value = direction.factor[j];
    for (size_t k = j + 1; k < size; ++k) {
      value -= factor_[k][j] * direction.shares[k];
    }
    direction.shares[j] = value / factor_[j][j];
  }
  const auto add = [&](const LinearBound& normal, double times) {
    for (size_t i = 0; i < normal.count; ++i) {
      direction.free[normal.terms[i].variable] +=
          times * normal.terms[i].weight;
    }
  };
  add(bound, 1);
  for (size_t j = 0; j < size; ++j) {
    add(tight_[j].bound, -direction.shares[j]);
  }
  return direction;
}

bool Projection::meet(const LinearBound& bound) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double force = 0;
  while (true) {
    const double lacking = -slack(bound);
    if (lacking <= 0) return true;
    Direction direction = direction_of(bound);
    // The step until the bound is met, or a tight one pushes no more.
    const bool can_move = direction.free_square > 0;
    double step = can_move ? lacking / direction.free_square : kNever;
    size_t loose = tight_.size();
    for (size_t j = 0; j < tight_.size(); ++j) {
      if (direction.shares[j] <= 1e-12) continue;
      const double until = tight_[j].force / direction.shares[j];
      if (until >= step) continue;
      step = until;
      loose = j;
    }
    if (step == kNever) return false;
    force += step;
    for (size_t j = 0; j < tight_.size(); ++j) {
      tight_[j].force -= step * direction.shares[j];
    }
    if (can_move) {
      for (size_t i = 0; i < point_.size(); ++i) {
        point_[i] += step * direction.free[i];
      }
    }
    if (loose == tight_.size()) {
      tight_.push_back({bound, force});
      factor_.push_back(std::move(direction.factor));
      return true;
    }
    loosen(loose);
  }
}

// Takes one bound out; rotations make the factor triangular again.
void Projection::loosen(size_t index) {
  tight_.erase(tight_.begin() + static_cast<std::ptrdiff_t>(index));
  factor_.erase(factor_.begin() + static_cast<std::ptrdiff_t>(index));
  for (size_t j = index; j < factor_.size(); ++j) {
    const double a = factor_[j][j], b = factor_[j][j + 1];
    const double length = std::hypot(a, b);
    for (size_t k = j; k < factor_.size(); ++k) {
      const double upper = factor_[k][j], lower = factor_[k][j + 1];
      factor_[k][j] = (a * upper + b * lower) / length;
      factor_[k][j + 1] = (a * lower - b * upper) / length;
    }
    factor_[j].pop_back();
  }
}

}  // namespace reprise

// The nearest point that meets linear bounds, given one by one.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace reprise {

/// Sum of weight x variable over `terms` is at least `least`.
struct LinearBound {
  struct Term {
    size_t variable = 0;
    double weight = 0;
  };
  std::array<Term, 4> terms;  ///< Variables may repeat.
  size_t count = 0;
  double least = 0;

  void add(size_t variable, double weight) {
    terms[count++] = {variable, weight};
  }
};

/// Starts at zero. After each bound that could be met, the point is the one
/// nearest to zero that meets it and all before that are still tight: the dual
/// method of Goldfarb and Idnani (1983), which ends after finitely many bounds.
class Projection {
 public:
  explicit Projection(size_t variables) : point_(variables, 0) {}

  const std::vector<double>& point() const { return point_; }
  /// By how much the bound is met; negative: broken.
  double slack(const LinearBound& bound) const;
  /// False: it contradicts the bounds that are tight, and was given up.
  /// Cost: square of the number of tight bounds.
  bool meet(const LinearBound& bound);

 private:
  struct Tight {
    LinearBound bound;
    double force = 0;  // How hard it pushes; never negative.
  };

  // Of a bound's normal against those of the tight ones.
  struct Direction {
    std::vector<double> factor;  // The new column of the factorization.
    std::vector<double> shares;  // [tight] that make up the rest of it.
    std::vector<double> free;    // The part that no tight bound holds.
    double free_square = 0;
  };
  Direction direction_of(const LinearBound& bound) const;
  void loosen(size_t index);

  std::vector<double> point_;
  std::vector<Tight> tight_;
  // Cholesky factor of the products of the tight normals, by column.
  std::vector<std::vector<double>> factor_;
};

}  // namespace reprise

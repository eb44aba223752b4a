// Dots of bf16 as products of f32, where that is quicker or oneDNN has no
// other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/schedule/schedule.h"

namespace reprise {

/// Dense f32 copies of bf16 matrices and, where the result is bf16, the product
/// of these rounded back, to the nearest, ties to even.
class WidenedDot {
 public:
  /// What a dot widens into: lhs, rhs and result. Dots of which one runs at a
  /// time share it.
  using Scratch = std::array<std::shared_ptr<std::vector<float>>, 3>;

  /// Requires: a plain dot of bf16. `data`: lhs, rhs and result. `scratch` is
  /// used where it is large enough, and replaced where not.
  WidenedDot(const DotSpec& spec, const std::byte* lhs, const std::byte* rhs,
             std::byte* out, Scratch& scratch);

  /// The product in f32, over `lhs`, `rhs` and `out`.
  DotSpec spec() const;
  std::byte* lhs() const { return matrices_[0].product; }
  std::byte* rhs() const { return matrices_[1].product; }
  std::byte* out() const { return matrices_[2].product; }

  void load() const;   ///< Before the product.
  void store() const;  ///< After it.

 private:
  struct Matrix {
    MatrixView view, dense;
    std::vector<size_t> order;  ///< Dimensions, the widest stride first.
    std::byte* data = nullptr;
    std::shared_ptr<std::vector<float>> values;  ///< None where `data` is f32.
    std::byte* product = nullptr;                ///< The values, or `data`.
  };
  static Matrix matrix(const MatrixView& view, std::byte* data,
                       std::shared_ptr<std::vector<float>>& scratch);

  std::array<Matrix, 3> matrices_;
};

}  // namespace reprise

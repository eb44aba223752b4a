// Dots of 16-bit floats where oneDNN has no primitive for them: older CPUs.
#pragma once

#include <cstddef>
#include <vector>

#include "data/schedule/schedule.h"

namespace reprise {

/// bf16 matrices as dense f32 ones and, where the result is bf16, the product
/// of these rounded back, to the nearest, ties to even.
class WidenedDot {
 public:
  /// Requires: a plain dot of bf16. `data`: lhs, rhs and result.
  WidenedDot(const DotSpec& spec, const std::byte* lhs, const std::byte* rhs,
             std::byte* out);

  /// The product in f32, over `lhs`, `rhs` and `out`.
  DotSpec spec() const;
  float* lhs() { return lhs_.values.data(); }
  float* rhs() { return rhs_.values.data(); }
  float* out() { return out_.values.data(); }

  void load();   ///< Before the product.
  void store();  ///< After it.

 private:
  struct Matrix {
    MatrixView view;
    std::byte* data = nullptr;
    std::vector<float> values;  ///< Row-major.
  };
  static Matrix matrix(const MatrixView& view, const std::byte* data);

  bool rounds_ = true;
  Matrix lhs_, rhs_, out_;
};

}  // namespace reprise

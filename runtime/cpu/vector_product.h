// Products of an f32 matrix and a vector, which are as long as reading the
// matrix takes: the value head of a network, and the gradient of its weights.
// oneDNN 2.6.3 takes 1.5 times as long (1024x256: 51 us), and of a matrix whose
// rows lie along the result three times (101 us for 33). And of many pairs of
// short vectors, each of which oneDNN takes 0.1 us for (Zen 4, 64 of 96).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/schedule/schedule.h"

namespace reprise {

struct DotMemory;

/// One bound to its memory. Each sum's order is that of the shape alone, so a
/// part of the result has the bits of the whole.
class VectorProduct {
 public:
  /// Nothing where a dot is no such product, the matrix is contiguous along
  /// neither dimension, or this machine has no fused multiply-add. Ignores
  /// epilogues.
  static std::optional<VectorProduct> bind(const DotSpec& spec,
                                           const DotMemory& memory);
  void run() const;

 private:
  /// From one matrix of the batch to the next, in elements.
  struct BatchDimension {
    int64_t extent, matrix, vector, result;
  };
  void run_one(const float* matrix, const float* vector, float* result) const;
  void run_batch(size_t dimension, const float* matrix, const float* vector,
                 float* result) const;

  std::vector<BatchDimension> batch_;
  const float *matrix_ = nullptr, *vector_ = nullptr;
  float* result_ = nullptr;
  int64_t rows_ = 0, depth_ = 0;  ///< Elements of result and sums.
  int64_t row_stride_ = 1, depth_stride_ = 1;
  int64_t vector_stride_ = 1, result_stride_ = 1;
};

}  // namespace reprise

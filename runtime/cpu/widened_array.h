// Arrays that a routine takes as f32, whatever floats they are in memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/hlo/combiner.h"
#include "runtime/cpu/matrix_product.h"

namespace reprise {

/// An array of f32, or of another type's elements in f32, which hold them.
class WidenedArray {
 public:
  WidenedArray(PrimitiveType type, std::span<std::byte> bytes)
      : type_(type), bytes_(bytes) {
    const auto bits = static_cast<size_t>(primitive_type_bits(type));
    if (type != PrimitiveType::kF32) values_.resize(bytes.size() * 8 / bits);
  }

  /// Stays where it is.
  float* data() {
    return values_.empty() ? reinterpret_cast<float*>(bytes_.data())
                           : values_.data();
  }
  size_t size() const {
    return values_.empty() ? bytes_.size() / sizeof(float) : values_.size();
  }
  /// From memory.
  void load() {
    if (!values_.empty())
      load_sums(SumType::kF32, type_, bytes_.data(), 1, std::ssize(values_),
                reinterpret_cast<std::byte*>(values_.data()));
  }
  /// To memory, rounded.
  void store() const {
    if (!values_.empty())
      store_sums(SumType::kF32,
                 reinterpret_cast<const std::byte*>(values_.data()),
                 std::ssize(values_), type_, bytes_.data(), 1);
  }

 private:
  PrimitiveType type_;
  std::span<std::byte> bytes_;
  std::vector<float> values_;
};

}  // namespace reprise

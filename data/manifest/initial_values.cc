#include "data/manifest/initial_values.h"

#include <algorithm>

namespace reprise {

uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

float uniform_value(uint64_t seed, uint64_t i, double scale) {
  const uint64_t hash = splitmix64(splitmix64(seed) + i);
  const double unit = static_cast<double>(hash >> 40) * 0x1p-24;
  return static_cast<float>((2 * unit - 1) * scale);
}

void fill_initial(const ManifestParameter& parameter, std::span<float> values) {
  switch (parameter.init) {
    case InitKind::kUniform:
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = uniform_value(parameter.seed, i, parameter.scale);
      }
      return;
    case InitKind::kZeros:
      std::fill(values.begin(), values.end(), 0.0F);
      return;
    case InitKind::kOnes:
      std::fill(values.begin(), values.end(), 1.0F);
      return;
    case InitKind::kConstant:
      std::fill(values.begin(), values.end(),
                static_cast<float>(parameter.value));
      return;
  }
}

uint64_t batch_hash(uint64_t seed, uint64_t step, uint64_t rank, uint64_t row) {
  return splitmix64(splitmix64(splitmix64(seed) + step) + rank * 1000003 + row);
}

}  // namespace reprise

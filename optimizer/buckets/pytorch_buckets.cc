#include "optimizer/buckets/pytorch_buckets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "data/result.h"

namespace reprise {

std::vector<GradientGroup> pytorch_buckets(
    std::span<const SizedGradient> gradients,
    std::span<const int64_t> caps_bytes) {
  REPRISE_CHECK(!caps_bytes.empty());
  struct Open {
    GradientGroup bucket;
    int64_t bytes = 0;
    size_t cap = 0;
  };
  std::map<uint32_t, Open> open;
  std::vector<GradientGroup> buckets;
  for (uint32_t i = 0; i < gradients.size(); ++i) {
    Open& of_key = open[gradients[i].key];
    of_key.bucket.push_back(i);
    of_key.bytes += gradients[i].bytes;
    if (of_key.bytes < caps_bytes[of_key.cap]) continue;
    buckets.push_back(std::exchange(of_key.bucket, {}));
    of_key.bytes = 0;
    of_key.cap = std::min(of_key.cap + 1, caps_bytes.size() - 1);
  }
  const auto closed = static_cast<std::ptrdiff_t>(buckets.size());
  for (auto& [key, of_key] : open) {
    if (!of_key.bucket.empty()) buckets.push_back(std::move(of_key.bucket));
  }
  std::sort(buckets.begin() + closed, buckets.end());
  return buckets;
}

}  // namespace reprise

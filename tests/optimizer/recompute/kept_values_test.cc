// The least cut against all choices of kept values.
#include "optimizer/recompute/kept_values.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace reprise {
namespace {

std::vector<CrossingValue> random_values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<CrossingValue> values(count);
  for (size_t v = 0; v < count; ++v) {
    values[v].bytes = random() % 4 == 0 ? 0 : 1 + random() % 9;
    values[v].recomputable = random() % 3 != 0;
    values[v].needed = random() % 3 == 0;
    for (size_t input = 0; input < v; ++input) {
      if (random() % 3 == 0)
        values[v].inputs.push_back(static_cast<uint32_t>(input));
    }
  }
  return values;
}

bool is_reached(const std::vector<CrossingValue>& values,
                const std::vector<bool>& kept, size_t value) {
  if (kept[value]) return true;
  if (!values[value].recomputable) return false;
  for (const uint32_t input : values[value].inputs) {
    if (!is_reached(values, kept, input)) return false;
  }
  return true;
}

bool suffices(const std::vector<CrossingValue>& values,
              const std::vector<bool>& kept) {
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].needed && !is_reached(values, kept, v)) return false;
  }
  return true;
}

int64_t bytes_of(const std::vector<CrossingValue>& values,
                 const std::vector<bool>& kept) {
  int64_t bytes = 0;
  for (size_t v = 0; v < values.size(); ++v)
    bytes += kept[v] ? values[v].bytes : 0;
  return bytes;
}

TEST(KeptValues, AreTheFewestBytesOfAllChoices) {
  constexpr size_t kCount = 9;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto values = random_values(kCount, seed);
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (uint32_t mask = 0; mask < 1U << kCount; ++mask) {
      std::vector<bool> kept(kCount);
      for (size_t v = 0; v < kCount; ++v) kept[v] = (mask >> v & 1U) != 0;
      if (suffices(values, kept))
        fewest = std::min(fewest, bytes_of(values, kept));
    }
    const std::vector<bool> kept = fewest_bytes_kept(values);
    EXPECT_TRUE(suffices(values, kept)) << seed;
    EXPECT_EQ(bytes_of(values, kept), fewest) << seed;
  }
}

/// A value as big as what it follows from is kept, not computed again.
TEST(KeptValues, ComputesNothingAgainForNoBytes) {
  const std::vector<bool> kept = fewest_bytes_kept(
      {{.bytes = 8},
       {.bytes = 8, .recomputable = true, .inputs = {0}},
       {.bytes = 8, .recomputable = true, .needed = true, .inputs = {1}}});
  EXPECT_EQ(kept, (std::vector<bool>{false, false, true}));
}

/// Two values of one source are computed again, where either alone is not.
TEST(KeptValues, OneSourceStandsForTwoValues) {
  const std::vector<bool> kept = fewest_bytes_kept(
      {{.bytes = 8},
       {.bytes = 8, .recomputable = true, .needed = true, .inputs = {0}},
       {.bytes = 8, .recomputable = true, .needed = true, .inputs = {0}}});
  EXPECT_EQ(kept, (std::vector<bool>{true, false, false}));
}

}  // namespace
}  // namespace reprise

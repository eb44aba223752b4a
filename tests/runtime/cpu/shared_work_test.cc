#include "runtime/cpu/shared_work.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

/// The trial of a unit that takes these times, and how each run was done.
SharingTrial trial(int64_t whole_ns, int64_t in_parts_ns) {
  SharingTrial trial;
  for (uint32_t run = 0; !trial.is_over(); ++run) {
    EXPECT_EQ(trial.in_parts(), run % 2 == 0);
    // The first of each kind finds nothing in any cache.
    const int64_t cold_ns = run < 2 ? 1'000'000 : 0;
    trial.add(cold_ns + (trial.in_parts() ? in_parts_ns : whole_ns));
  }
  return trial;
}

TEST(SharingTrial, KeepsSharedWhatGainsAFifth) {
  EXPECT_TRUE(trial(10'000, 5'500).in_parts());
  EXPECT_TRUE(trial(10'000, 7'900).in_parts());
  EXPECT_FALSE(trial(10'000, 8'100).in_parts());
  EXPECT_FALSE(trial(10'000, 14'000).in_parts());
}

}  // namespace
}  // namespace reprise

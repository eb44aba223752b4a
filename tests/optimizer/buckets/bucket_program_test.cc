#include "optimizer/buckets/bucket_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace reprise {
namespace {

BucketProgram random_program(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  BucketProgram program;
  int64_t ready = 0;
  for (size_t i = 0; i < count; ++i) {
    ready += static_cast<int64_t>(random() % 30);
    program.gradients.push_back(
        {.ready_ns = ready,
         .bytes = 1 + static_cast<int64_t>(random() % 50),
         .update_ns = static_cast<int64_t>(random() % 12),
         .key = seed % 3 == 0 ? static_cast<uint32_t>(random() % 2) : 0});
  }
  program.compute_free_ns = ready + static_cast<int64_t>(random() % 20);
  const int64_t latency = static_cast<int64_t>(random() % 40);
  // Not monotone per byte, to leave the program nothing to lean on.
  program.price_ns = [latency](int64_t bytes, uint32_t key) {
    return latency + bytes / 2 + (bytes % 7) * (1 + key);
  };
  return program;
}

// Bucket after bucket: sent when its last gradient is ready and the link free,
// updated when it has arrived and compute is free.
int64_t finish_of(const BucketProgram& program,
                  const std::vector<size_t>& borders) {
  int64_t link_free = 0, compute_free = program.compute_free_ns;
  size_t begin = 0;
  for (const size_t end : borders) {
    int64_t bytes = 0, update_ns = 0;
    for (size_t i = begin; i < end; ++i) {
      bytes += program.gradients[i].bytes;
      update_ns += program.gradients[i].update_ns;
    }
    const ReadyGradient& last = program.gradients[end - 1];
    link_free =
        std::max(link_free, last.ready_ns) + program.price_ns(bytes, last.key);
    compute_free = std::max(compute_free, link_free) + update_ns;
    begin = end;
  }
  return compute_free;
}

int64_t brute_force(const BucketProgram& program) {
  const size_t count = program.gradients.size();
  int64_t best = std::numeric_limits<int64_t>::max();
  for (uint64_t cuts = 0; cuts < (uint64_t{1} << (count - 1)); ++cuts) {
    std::vector<size_t> borders;
    bool legal = true;
    for (size_t i = 1; i <= count; ++i) {
      const bool border = i == count || ((cuts >> (i - 1)) & 1);
      if (border) borders.push_back(i);
      if (!border && program.gradients[i].key != program.gradients[i - 1].key)
        legal = false;
    }
    if (legal) best = std::min(best, finish_of(program, borders));
  }
  return best;
}

TEST(BucketProgram, EqualsBruteForce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const BucketProgram program = random_program(1 + seed % 12, seed);
    const BucketSolution solution = solve_buckets(program);
    EXPECT_EQ(solution.finish_ns, brute_force(program)) << seed;
    EXPECT_EQ(solution.finish_ns, finish_of(program, solution.borders)) << seed;
  }
}

TEST(BucketProgram, TakesOneBucketWhenAllIsReadyAtOnce) {
  // Latency 10, 1 ns a byte, no updates: one bucket ends at 5 + 10 + 30 = 45,
  // three at 5 + 30 + 30 = 65.
  const BucketProgram program{
      .gradients = {{5, 10, 0, 0}, {5, 10, 0, 0}, {5, 10, 0, 0}},
      .compute_free_ns = 5,
      .price_ns = [](int64_t bytes, uint32_t) { return 10 + bytes; }};
  const BucketSolution solution = solve_buckets(program);
  EXPECT_EQ(solution.borders, (std::vector<size_t>{3}));
  EXPECT_EQ(solution.finish_ns, 45);
}

TEST(BucketProgram, OverlapsUpdatesWithTheNextBucket) {
  // No latency; the first bucket's update (20) hides behind the second
  // transfer: buckets end at 20 and 40, updates at 20 + 20 = 40 and 40 + 20
  // = 60. One bucket would end at 40 + 40 = 80.
  const BucketProgram program{
      .gradients = {{0, 20, 20, 0}, {0, 20, 20, 0}},
      .compute_free_ns = 0,
      .price_ns = [](int64_t bytes, uint32_t) { return bytes; }};
  EXPECT_EQ(solve_buckets(program).finish_ns, 60);
}

}  // namespace
}  // namespace reprise

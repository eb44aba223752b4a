// The fake cuBLASLt offers algorithms that take different times on the fake
// device's clock.
#include "runtime/cuda/dot_algorithms.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/cuda/fake_cublas.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/testing/matrix_view.h"

namespace reprise {
namespace {

DotSpec dot_of(int64_t m, int64_t n, int64_t k) {
  return {.lhs = view({m, k}, {0, 1}),
          .rhs = view({k, n}, {0, 1}),
          .out = view({m, n}, {0, 1})};
}

/// Two ranks, one after the other: what rank 0 tells, rank 1 hears.
class RankAfterRank : public ProcessGroup {
 public:
  explicit RankAfterRank(int rank, std::string told = {})
      : rank_(rank), told_(std::move(told)) {}
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  int local_rank() const override { return rank_; }
  int local_size() const override { return 2; }
  Result<std::vector<std::string>> all_gather(std::string_view mine) override {
    if (rank_ == 0) told_ = mine;
    return std::vector<std::string>{told_, ""};
  }
  Result<int64_t> ping(int) override { return 0; }
  Status answer_ping(int) override { return {}; }
  std::vector<int> roll_call(double) override { return {}; }
  void abort(int) override {}
  const std::string& told() const { return told_; }

 private:
  int rank_;
  std::string told_;
};

/// One rank's device with dots of two shapes on it.
class DotRank {
 public:
  DotRank() {
    context_ = *DeviceContext::open(0);
    library_ = *CublasLibrary::create(driver(), {.workspace_bytes = 1 << 16});
    stream_ = *make_stream(driver(), /*urgent=*/false);
    for (const int64_t m : {16, 32}) {
      const DotSpec spec = dot_of(m, 8, 4);
      CublasMemory memory;
      for (CUdeviceptr* address : {&memory.lhs, &memory.rhs, &memory.out}) {
        memory_.push_back(*DeviceMemory::allocate(driver(), 4 * 1024));
        *address = memory_.back().address();
      }
      calls_.push_back(*library_->bind(spec, memory));
    }
  }
  const Driver& driver() const { return context_->driver(); }
  DotAlgorithms choose(ProcessGroup& group, const std::string& cache) {
    const auto chosen =
        choose_dot_algorithms(*library_, *context_, cache, group);
    EXPECT_TRUE(chosen) << chosen.error().message;
    return *chosen;
  }
  /// Runs each dot once.
  void multiply() {
    for (const CublasLibrary::Call& call : calls_) {
      const Status ran = call.enqueue(stream_.get());
      EXPECT_TRUE(ran) << ran.error().message;
    }
    EXPECT_TRUE(driver().synchronize(stream_.get()));
  }

 private:
  std::shared_ptr<const DeviceContext> context_;
  std::unique_ptr<CublasLibrary> library_;
  CudaStream stream_;
  std::vector<DeviceMemory> memory_;
  std::vector<CublasLibrary::Call> calls_;
};

class DotAlgorithmsTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda_clear();
    std::filesystem::remove_all(cache());
  }
  void TearDown() override {
    offer({0});
    EXPECT_STREQ(fake_cuda_report(), "");
    EXPECT_EQ(fake_cuda_live_objects(), 0);
    std::filesystem::remove_all(cache());
  }
  static void offer(const std::vector<int64_t>& costs_ns, int refused = -1) {
    fake_cublas_offer(costs_ns.data(), static_cast<int>(costs_ns.size()),
                      refused);
  }
  static std::string cache() {
    return testing::TempDir() + "dot_algorithms_test";
  }
};

TEST_F(DotAlgorithmsTest, TakeTheFastestThatTheLibraryOffers) {
  offer({90'000, 50'000, 20'000, 70'000});
  DotRank rank;
  const auto group = make_single_process_group();
  EXPECT_EQ(rank.choose(*group, cache()).timed, 2);
  offer({90'000, 50'000, 20'000, 70'000});
  rank.multiply();
  EXPECT_EQ(fake_cublas_launches(2), 2U);
}

TEST_F(DotAlgorithmsTest, KeepTheFirstWhereAnotherIsHardlyFaster) {
  offer({50'000, 49'900, 49'800});
  DotRank rank;
  const auto group = make_single_process_group();
  rank.choose(*group, cache());
  offer({50'000, 49'900, 49'800});
  rank.multiply();
  EXPECT_EQ(fake_cublas_launches(0), 2U);
}

TEST_F(DotAlgorithmsTest, AreTimedOnceAShape) {
  offer({90'000, 50'000});
  const auto group = make_single_process_group();
  EXPECT_EQ(DotRank().choose(*group, cache()).timed, 2);
  // Had it timed them again it would take the first.
  offer({50'000, 90'000});
  DotRank rank;
  EXPECT_EQ(rank.choose(*group, cache()).timed, 0);
  EXPECT_EQ(fake_cublas_launches(0), 0U);
  rank.multiply();
  EXPECT_EQ(fake_cublas_launches(1), 2U);
}

TEST_F(DotAlgorithmsTest, OneThatIsRefusedWhenUsedGivesWayToTheNext) {
  offer({90'000, 50'000, 20'000}, /*refused=*/2);
  DotRank rank;
  const auto group = make_single_process_group();
  rank.choose(*group, cache());
  rank.multiply();
  offer({90'000, 50'000, 20'000}, /*refused=*/1);
  rank.multiply();
  rank.multiply();
  EXPECT_EQ(fake_cublas_launches(0), 4U) << "the next of the library's own";
}

TEST_F(DotAlgorithmsTest, AreRankZerosOnAllRanks) {
  offer({90'000, 50'000});
  RankAfterRank zero(0);
  EXPECT_EQ(DotRank().choose(zero, cache()).timed, 2);
  RankAfterRank one(1, zero.told());
  DotRank rank;
  offer({50'000, 90'000});
  EXPECT_EQ(rank.choose(one, "").timed, 0);
  rank.multiply();
  EXPECT_EQ(fake_cublas_launches(0), 0U);
  EXPECT_EQ(fake_cublas_launches(1), 2U);
}

TEST_F(DotAlgorithmsTest, OfAnotherDeviceOrVersionAreNotTaken) {
  offer({90'000, 50'000});
  RankAfterRank zero(0);
  DotRank().choose(zero, cache());
  std::string other = zero.told();
  other[0] = other[0] == '0' ? '1' : '0';
  RankAfterRank one(1, other);
  DotRank rank;
  rank.choose(one, "");
  offer({90'000, 50'000});
  rank.multiply();
  EXPECT_EQ(fake_cublas_launches(0), 2U);
}

TEST_F(DotAlgorithmsTest, AreNotTimedWithoutMemoryForIt) {
  offer({90'000, 50'000});
  DotRank rank;
  const auto group = make_single_process_group();
  fake_cuda_fail("cuMemAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY);
  const DotAlgorithms chosen = rank.choose(*group, cache());
  EXPECT_NE(chosen.note.find("dots keep cuBLASLt's first choice: "),
            std::string::npos);
  offer({90'000, 50'000});
  rank.multiply();
  EXPECT_EQ(fake_cublas_launches(0), 2U);
}

}  // namespace
}  // namespace reprise

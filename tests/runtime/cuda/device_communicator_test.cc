// Both communicators on the fake driver, whose streams run late and in an
// order of the seed: what does not wait for its stream gives a wrong sum. Ranks
// are threads that share the device.
#include "runtime/cuda/device_communicator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/host_staged_communicator.h"
#include "runtime/cuda/nccl_communicator.h"
#include "tests/runtime/cuda/fake_driver.h"

namespace reprise {
namespace {

constexpr size_t kElements = 50'000;

/// One rank: its context, memory of kElements floats and two streams.
struct Rank {
  int number = 0;
  ProcessGroup* group = nullptr;
  std::shared_ptr<const DeviceContext> context;
  DeviceMemory memory;
  PinnedMemory operands, results;  ///< Read late and written late.
  CudaStream stream, other;
  /// Closed when all ranks are done: earlier, a peer would miss us.
  std::unique_ptr<DeviceCommunicator> communicator;

  const Driver& driver() const { return context->driver(); }
  static std::span<float> floats(const PinnedMemory& memory) {
    return {reinterpret_cast<float*>(memory.bytes().data()), kElements};
  }
  DeviceSpan span() const { return {memory.address(), memory.size_bytes()}; }
  void upload(const CudaStream& on) const {
    driver().copy_to_device_async(memory.address(), operands.bytes().data(),
                                  memory.size_bytes(), on.get());
  }
  void download(const CudaStream& on) const {
    driver().copy_to_host_async(results.bytes().data(), memory.address(),
                                memory.size_bytes(), on.get());
    driver().stream_synchronize(on.get());
  }
};

void open_rank(Rank& rank) {
  auto context = DeviceContext::open(0);
  ASSERT_TRUE(context) << context.error().message;
  rank.context = *context;
  const Driver& driver = rank.driver();
  rank.memory = *DeviceMemory::allocate(driver, kElements * sizeof(float));
  rank.operands = *PinnedMemory::allocate(driver, kElements * sizeof(float));
  rank.results = *PinnedMemory::allocate(driver, kElements * sizeof(float));
  rank.stream = *make_stream(driver, true);
  rank.other = *make_stream(driver, true);
}

// Runs `body` on `ranks` threads, for several interleavings.
void run_ranks(int ranks, const std::function<void(Rank&)>& body) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    fake_cuda_seed(seed);
    std::string path =
        std::filesystem::temp_directory_path() / "device_ranks_XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    std::vector<std::thread> threads;
    for (int number = 0; number < ranks; ++number) {
      threads.emplace_back([&, number] {
        auto group = make_file_process_group(path + "/r", number, ranks, 100);
        ASSERT_TRUE(group) << group.error().message;
        Rank rank;
        rank.number = number;
        rank.group = group->get();
        open_rank(rank);
        body(rank);
        rank.driver().stream_synchronize(rank.stream.get());
        rank.driver().stream_synchronize(rank.other.get());
        ASSERT_TRUE((*group)->barrier());
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::filesystem::remove_all(path);
    EXPECT_STREQ(fake_cuda_report(), "");
  }
}

CollectiveSpec sum_of(size_t elements, int ranks) {
  CollectiveSpec spec;
  spec.elements = static_cast<int64_t>(elements);
  spec.bytes = spec.elements * 4;
  const Location whole{.size_bytes = spec.bytes};
  spec.arrays = {{whole, whole}};
  spec.groups.emplace_back(static_cast<size_t>(ranks));
  std::iota(spec.groups[0].begin(), spec.groups[0].end(), 0);
  return spec;
}

// Whole numbers below 2²⁴ add exactly in f32, in any order.
float operand(int rank, size_t i) {
  return static_cast<float>((i * 37 + static_cast<size_t>(rank) * 11) % 1009);
}
float sum(int ranks, size_t i) {
  float total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += operand(rank, i);
  return total;
}

void fill(Rank& rank) {
  for (size_t i = 0; i < kElements; ++i) {
    Rank::floats(rank.operands)[i] = operand(rank.number, i);
  }
}

/// [begin, end) has been summed `times` times over, the rest never.
void expect_sums(const Rank& rank, int ranks, size_t begin, size_t end,
                 int times = 1) {
  for (size_t i = 0; i < kElements; ++i) {
    float expected = operand(rank.number, i);
    if (i >= begin && i < end) {
      expected = sum(ranks, i);
      for (int more = 1; more < times; ++more) {
        expected *= static_cast<float>(ranks);
      }
    }
    ASSERT_EQ(Rank::floats(rank.results)[i], expected) << i;
  }
}

std::unique_ptr<DeviceCommunicator> make_staged(const Rank& rank) {
  auto host = make_gloo_communicator(*rank.group, 100);
  EXPECT_TRUE(host) << host.error().message;
  return make_host_staged_communicator(rank.driver(), std::move(*host));
}

std::unique_ptr<DeviceCommunicator> make_nccl(const Rank& rank) {
  auto made = make_nccl_communicator(
      *rank.group,
      {.make_current = [context =
                            rank.context] { return context->make_current(); },
       .clear = {}},
      100);
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

using Make = std::unique_ptr<DeviceCommunicator> (*)(const Rank&);

class DeviceAllReduce : public testing::TestWithParam<std::tuple<Make, int>> {};

TEST_P(DeviceAllReduce, ComesAfterWhatIsOnItsStreamAndBeforeWhatFollows) {
  const auto [make, ranks] = GetParam();
  run_ranks(ranks, [make = make, ranks = ranks](Rank& rank) {
    const auto& communicator = rank.communicator = make(rank);
    ASSERT_TRUE(communicator->attach(rank.span(), kElements * 4));
    const struct {
      size_t begin, end;
    } parts[] = {{0, kElements}, {7, 8}, {1000, 33'333}};
    for (const auto [begin, end] : parts) {
      fill(rank);
      rank.upload(rank.stream);
      const Status done = communicator->enqueue(
          sum_of(end - begin, ranks), rank.memory.address() + begin * 4,
          rank.memory.address() + begin * 4, rank.stream.get());
      ASSERT_TRUE(done) << done.error().message;
      ASSERT_TRUE(communicator->poll());
      rank.download(rank.stream);
      expect_sums(rank, ranks, begin, end);
    }
  });
}

TEST_P(DeviceAllReduce, MayFollowAnotherWithoutWaiting) {
  const auto [make, ranks] = GetParam();
  run_ranks(ranks, [make = make, ranks = ranks](Rank& rank) {
    const auto& communicator = rank.communicator = make(rank);
    ASSERT_TRUE(communicator->attach(rank.span(), kElements * 4));
    fill(rank);
    rank.upload(rank.stream);
    const auto joined = make_event(rank.driver(), false);
    // The second is on another stream, which waits for the first one's.
    ASSERT_TRUE(
        communicator->enqueue(sum_of(kElements, ranks), rank.memory.address(),
                              rank.memory.address(), rank.stream.get()));
    rank.driver().event_record(joined->get(), rank.stream.get());
    rank.driver().stream_wait_event(rank.other.get(), joined->get(), 0);
    ASSERT_TRUE(communicator->enqueue(sum_of(kElements, ranks),
                                      rank.memory.address(),
                                      rank.memory.address(), rank.other.get()));
    rank.download(rank.other);
    expect_sums(rank, ranks, 0, kElements, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(
    By, DeviceAllReduce,
    testing::Combine(testing::Values(make_staged, make_nccl),
                     testing::Values(2, 3)),
    [](const auto& one) {
      const bool staged = std::get<0>(one.param) == make_staged;
      return fmt::format("{}Among{}", staged ? "HostStaged" : "Nccl",
                         std::get<1>(one.param));
    });

CUgraph captured_sum(const Rank& rank, int ranks) {
  const Driver& driver = rank.driver();
  CUgraph graph = nullptr;
  EXPECT_EQ(driver.stream_begin_capture(rank.stream.get(),
                                        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            CUDA_SUCCESS);
  EXPECT_TRUE(rank.communicator->enqueue(
      sum_of(kElements, ranks), rank.memory.address(), rank.memory.address(),
      rank.stream.get()));
  EXPECT_EQ(driver.stream_end_capture(rank.stream.get(), &graph), CUDA_SUCCESS);
  return graph;
}

TEST(NcclCommunicator, IsPartOfACapturedGraph) {
  constexpr int kRanks = 2, kLaunches = 3;
  run_ranks(kRanks, [](Rank& rank) {
    rank.communicator = make_nccl(rank);
    const Driver& driver = rank.driver();
    fill(rank);
    rank.upload(rank.stream);
    // In one process, only one may capture and none do much else meanwhile.
    CUgraph graph = nullptr;
    for (int turn = 0; turn < kRanks; ++turn) {
      ASSERT_TRUE(rank.group->barrier());
      if (turn == rank.number) graph = captured_sum(rank, kRanks);
    }
    ASSERT_TRUE(rank.group->barrier());
    const CudaGraph owned(graph, {&driver, &Driver::graph_destroy});
    CUgraphExec executable = nullptr;
    ASSERT_EQ(driver.graph_instantiate(&executable, graph, 0), CUDA_SUCCESS);
    const CudaGraphExecutable kept(
        executable, {&driver, &Driver::graph_executable_destroy});
    for (int launch = 0; launch < kLaunches; ++launch) {
      ASSERT_EQ(driver.graph_launch(executable, rank.stream.get()),
                CUDA_SUCCESS);
    }
    rank.download(rank.stream);
    expect_sums(rank, kRanks, 0, kElements, kLaunches);
  });
}

TEST(NcclCommunicator, SaysWhatNcclSaysOfACallItRefuses) {
  run_ranks(1, [](Rank& rank) {
    const auto& communicator = rank.communicator = make_nccl(rank);
    float elsewhere = 0;
    const Status refused = communicator->enqueue(
        sum_of(1, 1), reinterpret_cast<uint64_t>(&elsewhere),
        reinterpret_cast<uint64_t>(&elsewhere), rank.stream.get());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kDevice);
    EXPECT_NE(refused.error().message.find("invalid argument"),
              std::string::npos);
    fake_cuda_clear();  // The fake driver noticed as well.
  });
}

TEST(HostStagedCommunicator, RefusesWhatItsHostRefuses) {
  run_ranks(2, [](Rank& rank) {
    const auto& communicator = rank.communicator = make_staged(rank);
    EXPECT_TRUE(communicator->is_host_staged());
    CollectiveSpec spec = sum_of(8, 2);
    EXPECT_TRUE(communicator->check(spec));
    spec.type = PrimitiveType::kC64;
    const Status refused = communicator->check(spec);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  });
}

// The first result may still lie in the staging memory when the second operand
// comes there.
TEST(HostStagedCommunicator, KeepsResultsOfTwoStreamsApart) {
  constexpr size_t kHalf = kElements / 2;
  run_ranks(2, [](Rank& rank) {
    const auto& communicator = rank.communicator = make_staged(rank);
    ASSERT_TRUE(communicator->attach(rank.span(), kHalf * 4));
    fill(rank);
    rank.upload(rank.stream);
    rank.driver().stream_synchronize(rank.stream.get());
    ASSERT_TRUE(communicator->enqueue(sum_of(kHalf, 2), rank.memory.address(),
                                      rank.memory.address(),
                                      rank.stream.get()));
    ASSERT_TRUE(communicator->enqueue(
        sum_of(kHalf, 2), rank.memory.address() + kHalf * 4,
        rank.memory.address() + kHalf * 4, rank.other.get()));
    rank.driver().stream_synchronize(rank.stream.get());
    rank.download(rank.other);
    expect_sums(rank, 2, 0, kElements);
  });
}

TEST(HostStagedCommunicator, PassesOnThatAPeerIsLost) {
  run_ranks(2, [](Rank& rank) {
    const auto& communicator = rank.communicator = make_staged(rank);
    ASSERT_TRUE(communicator->attach(rank.span(), kElements * 4));
    if (rank.number == 1) return rank.communicator.reset();
    const Status lost =
        communicator->enqueue(sum_of(64, 2), rank.memory.address(),
                              rank.memory.address(), rank.stream.get());
    ASSERT_FALSE(lost);
    EXPECT_NE(lost.error().message.find("rank 1"), std::string::npos);
  });
}

}  // namespace
}  // namespace reprise

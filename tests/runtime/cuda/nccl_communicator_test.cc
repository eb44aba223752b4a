// Ranks are threads; NCCL is the fake one, which adds in host memory: a wrong
// count, type or operation gives a wrong result.
#include "runtime/cuda/nccl_communicator.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/cuda/nccl_library.h"

namespace reprise {
namespace {

using Body = std::function<void(int rank, ProcessGroup&)>;

// Runs `body` on `ranks` threads.
void run_ranks(int ranks, const Body& body) {
  std::string path =
      std::filesystem::temp_directory_path() / "nccl_ranks_XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = make_file_process_group(path + "/r", rank, ranks, 100);
      ASSERT_TRUE(group) << group.error().message;
      body(rank, **group);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove_all(path);
}

NcclDevice no_device() {
  return {.make_current = [] { return Status(); },
          .clear =
              [](uint64_t address, size_t bytes, CUstream_st*) {
                std::memset(std::bit_cast<void*>(address), 0, bytes);
                return Status();
              }};
}

std::unique_ptr<DeviceCommunicator> connected(ProcessGroup& group) {
  auto made = make_nccl_communicator(group, no_device(), 100);
  EXPECT_TRUE(made) << made.error().message;
  return made ? std::move(*made) : nullptr;
}

CollectiveSpec all_reduce(PrimitiveType type, size_t elements, int ranks) {
  CollectiveSpec spec;
  spec.type = type;
  spec.elements = static_cast<int64_t>(elements);
  spec.bytes = spec.elements * primitive_type_bits(type) / 8;
  spec.groups.emplace_back();
  for (int rank = 0; rank < ranks; ++rank) spec.groups[0].push_back(rank);
  return spec;
}

// Small whole numbers: their sums and products over three ranks are at most
// 5³ = 125, which bf16's 8 bits of mantissa hold exactly. No zeros: a product
// with one has a sign that whole numbers lack.
int operand(int rank, size_t i) {
  const auto number =
      static_cast<int>((i * 7 + static_cast<size_t>(rank) * 3) % 10) - 5;
  return number < 0 ? number : number + 1;
}

int expected(Reduction operation, int ranks, size_t i) {
  int result = operand(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int next = operand(rank, i);
    if (operation == Reduction::kSum) result += next;
    if (operation == Reduction::kProduct) result *= next;
    if (operation == Reduction::kMax) result = std::max(result, next);
    if (operation == Reduction::kMin) result = std::min(result, next);
  }
  return result;
}

// 16-bit floats of whole numbers below 256, by their bits.
uint16_t as_bf16(int value) {
  return static_cast<uint16_t>(
      std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
}
uint16_t as_f16(int value) {
  // f32 bits 23…30 are the exponent plus 127, f16 bits 10…14 that plus 15; of
  // the mantissa the upper 10 bits, the others being zero here.
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (value == 0) return 0;
  return static_cast<uint16_t>(bits >> 16 & 0x8000) |
         static_cast<uint16_t>(((bits >> 23 & 255) - 112) << 10) |
         static_cast<uint16_t>(bits >> 13 & 1023);
}

void store(PrimitiveType type, int value, std::byte* at) {
  const auto put = [&](auto number) {
    std::memcpy(at, &number, sizeof number);
  };
  switch (type) {
    case PrimitiveType::kF32:
      return put(static_cast<float>(value));
    case PrimitiveType::kF64:
      return put(static_cast<double>(value));
    case PrimitiveType::kBF16:
      return put(as_bf16(value));
    case PrimitiveType::kF16:
      return put(as_f16(value));
    case PrimitiveType::kS64:
      return put(static_cast<int64_t>(value));
    default:
      return put(static_cast<int32_t>(value));
  }
}

struct Case {
  PrimitiveType type;
  Reduction operation;
  int ranks;
};

class NcclAllReduce : public testing::TestWithParam<Case> {};

TEST_P(NcclAllReduce, IsExactForWholeNumbers) {
  const Case one = GetParam();
  const size_t element = static_cast<size_t>(primitive_type_bits(one.type) / 8);
  run_ranks(one.ranks, [&](int rank, ProcessGroup& group) {
    auto communicator = connected(group);
    ASSERT_TRUE(communicator);
    for (const size_t elements : {size_t{1}, size_t{1000}, size_t{100'003}}) {
      CollectiveSpec spec = all_reduce(one.type, elements, one.ranks);
      spec.reduction = one.operation;
      ASSERT_TRUE(communicator->check(spec));
      // One element more than is asked for, which must stay as it is.
      std::vector<std::byte> data((elements + 1) * element), wanted = data;
      for (size_t i = 0; i <= elements; ++i) {
        store(one.type, operand(rank, i), data.data() + i * element);
        store(one.type,
              i < elements ? expected(one.operation, one.ranks, i)
                           : operand(rank, i),
              wanted.data() + i * element);
      }
      const auto address = reinterpret_cast<uint64_t>(data.data());
      const Status done =
          communicator->enqueue(spec, address, address, nullptr);
      ASSERT_TRUE(done) << done.error().message;
      ASSERT_TRUE(communicator->poll());
      EXPECT_EQ(data, wanted) << elements;
    }
    ASSERT_TRUE(group.barrier());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Types, NcclAllReduce,
    testing::Values(Case{PrimitiveType::kF32, Reduction::kSum, 2},
                    Case{PrimitiveType::kF32, Reduction::kSum, 3},
                    Case{PrimitiveType::kF64, Reduction::kMin, 2},
                    Case{PrimitiveType::kBF16, Reduction::kSum, 3},
                    Case{PrimitiveType::kBF16, Reduction::kProduct, 3},
                    Case{PrimitiveType::kF16, Reduction::kSum, 2},
                    Case{PrimitiveType::kF16, Reduction::kMax, 3},
                    Case{PrimitiveType::kS32, Reduction::kProduct, 2},
                    Case{PrimitiveType::kS64, Reduction::kSum, 3}),
    [](const auto& each) {
      return fmt::format(
          "{}Operation{}Among{}", primitive_type_name(each.param.type),
          static_cast<int>(each.param.operation), each.param.ranks);
    });

// Rank r gives {100 r, 100 r + 1, …}; parts are of 5 elements.
TEST(NcclCommunicator, GathersAndScattersParts) {
  constexpr int kRanks = 3;
  constexpr size_t kPart = 5, kWhole = kPart * kRanks;
  run_ranks(kRanks, [&](int rank, ProcessGroup& group) {
    auto communicator = connected(group);
    ASSERT_TRUE(communicator);
    CollectiveSpec spec = all_reduce(PrimitiveType::kF32, kWhole, kRanks);
    spec.kind = CollectiveKind::kAllGather;
    ASSERT_TRUE(communicator->check(spec));
    std::vector<float> mine(kWhole), all(kWhole, -1), part(kPart, -1);
    for (size_t i = 0; i < kWhole; ++i)
      mine[i] = static_cast<float>(100 * rank) + static_cast<float>(i);
    const auto address = [](std::vector<float>& values) {
      return reinterpret_cast<uint64_t>(values.data());
    };
    ASSERT_TRUE(
        communicator->enqueue(spec, address(mine), address(all), nullptr));
    spec.kind = CollectiveKind::kReduceScatter;
    ASSERT_TRUE(communicator->check(spec));
    ASSERT_TRUE(
        communicator->enqueue(spec, address(mine), address(part), nullptr));
    for (size_t i = 0; i < kWhole; ++i) {
      EXPECT_EQ(all[i], static_cast<float>(i / kPart * 100 + i % kPart));
    }
    // 0 + 100 + 200 and three times the place in the whole.
    for (size_t i = 0; i < kPart; ++i) {
      const size_t place = static_cast<size_t>(rank) * kPart + i;
      EXPECT_EQ(part[i], static_cast<float>(300 + 3 * place));
    }
    ASSERT_TRUE(group.barrier());
  });
}

// One kernel, and each array's own answer.
TEST(NcclCommunicator, ABucketOfArraysIsOneGroupOfCalls) {
  constexpr int kRanks = 3;
  run_ranks(kRanks, [&](int rank, ProcessGroup& group) {
    auto communicator = connected(group);
    ASSERT_TRUE(communicator);
    CollectiveSpec spec = all_reduce(PrimitiveType::kF32, 3 * kRanks, kRanks);
    const auto bytes = [](int64_t elements) {
      return Location{.size_bytes = 4 * elements};
    };
    spec.arrays = {{bytes(1), bytes(kRanks)}, {bytes(2), bytes(2 * kRanks)}};
    spec.kind = CollectiveKind::kAllGather;
    std::vector<float> one(kRanks), two(2 * kRanks), from(2 * kRanks);
    for (size_t i = 0; i < from.size(); ++i)
      from[i] = static_cast<float>(10 * rank) + static_cast<float>(i);
    const auto address = [](std::vector<float>& values) {
      return reinterpret_cast<uint64_t>(values.data());
    };
    std::vector<ArrayAddresses> arrays{{address(from), address(one)},
                                       {address(from), address(two)}};
    ASSERT_TRUE(communicator->enqueue(spec, arrays, nullptr));
    EXPECT_EQ(one, (std::vector<float>{0, 10, 20}));
    EXPECT_EQ(two, (std::vector<float>{0, 1, 10, 11, 20, 21}));
    spec.kind = CollectiveKind::kReduceScatter;
    for (CollectiveArray& array : spec.arrays)
      std::swap(array.input, array.output);
    ASSERT_TRUE(communicator->enqueue(spec, arrays, nullptr));
    const auto place = static_cast<float>(rank);
    EXPECT_EQ(one[0], 30 + 3 * place);
    EXPECT_EQ(two[0], 30 + 3 * (2 * place));
    EXPECT_EQ(two[1], 30 + 3 * (2 * place + 1));
    ASSERT_TRUE(group.barrier());
  });
}

/// What one collective leaves on each rank of 4, whose element i is
/// 10 rank + i.
std::vector<std::vector<float>> left_by(const CollectiveSpec& spec,
                                        size_t out) {
  std::vector<std::vector<float>> left(4);
  run_ranks(4, [&](int rank, ProcessGroup& group) {
    auto communicator = connected(group);
    ASSERT_TRUE(communicator);
    std::vector<float> data(8), to(out, -1);
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<float>(10 * rank) + static_cast<float>(i);
    ASSERT_TRUE(communicator->check(spec));
    const Status joined = communicator->join(spec);
    ASSERT_TRUE(joined) << joined.error().message;
    ASSERT_TRUE(communicator->join(spec));  // Once is enough.
    const bool in_place = is_bytewise(spec.kind);
    const auto from = std::bit_cast<uint64_t>(data.data());
    const Status done = communicator->enqueue(
        spec, from, in_place ? from : std::bit_cast<uint64_t>(to.data()),
        nullptr);
    ASSERT_TRUE(done) << done.error().message;
    ASSERT_TRUE(communicator->poll());
    if (in_place) std::copy_n(data.begin(), out, to.begin());
    left[static_cast<size_t>(rank)] = to;
    ASSERT_TRUE(group.barrier());
  });
  return left;
}

CollectiveSpec among(CollectiveKind kind,
                     std::vector<std::vector<int64_t>> groups,
                     size_t elements) {
  CollectiveSpec spec = all_reduce(PrimitiveType::kF32, elements, 1);
  spec.kind = kind;
  spec.groups = std::move(groups);
  return spec;
}

using Left = std::vector<std::vector<float>>;

// Parts stand in the order in which the group names its ranks.
TEST(NcclCommunicator, JoinsGroupsOfRanks) {
  const std::vector<std::vector<int64_t>> groups = {{3, 0}, {1, 2}};
  EXPECT_EQ(left_by(among(CollectiveKind::kAllGather, groups, 2), 2),
            (Left{{30, 0}, {10, 20}, {10, 20}, {30, 0}}));
  EXPECT_EQ(left_by(among(CollectiveKind::kAllToAll, groups, 2), 2),
            (Left{{31, 1}, {10, 20}, {11, 21}, {30, 0}}));
  EXPECT_EQ(left_by(among(CollectiveKind::kReduceScatter, groups, 2), 1),
            (Left{{32}, {30}, {32}, {30}}));
  EXPECT_EQ(left_by(among(CollectiveKind::kAllReduce, groups, 1), 1),
            (Left{{30}, {30}, {30}, {30}}));
  EXPECT_EQ(left_by(among(CollectiveKind::kAllReduce, {{0, 1, 2}, {3}}, 1), 1),
            (Left{{30}, {30}, {30}, {30}}));
}

TEST(NcclCommunicator, LeavesZerosWhereNobodySends) {
  EXPECT_EQ(left_by(among(CollectiveKind::kBroadcast, {{2, 1}}, 1), 1),
            (Left{{0}, {20}, {20}, {0}}));
  CollectiveSpec spec = among(CollectiveKind::kPermute, {{0, 1, 2}}, 2);
  spec.pairs = {{0, 2}, {1, 1}};
  EXPECT_EQ(left_by(spec, 2), (Left{{0, 0}, {10, 11}, {0, 1}, {0, 0}}));
}

TEST(NcclCommunicator, RefusesWhatItCannotDoByName) {
  run_ranks(2, [](int, ProcessGroup& group) {
    auto communicator = connected(group);
    ASSERT_TRUE(communicator);
    EXPECT_FALSE(communicator->is_host_staged());
    CollectiveSpec spec = all_reduce(PrimitiveType::kPred, 8, 2);
    const Status type = communicator->check(spec);
    ASSERT_FALSE(type);
    EXPECT_EQ(type.error().kind, ErrorKind::kUnsupported);
    EXPECT_NE(type.error().message.find("pred"), std::string::npos);
    spec = all_reduce(PrimitiveType::kF32, 8, 2);
    spec.kind = CollectiveKind::kScatter;
    EXPECT_FALSE(communicator->check(spec));
    spec = all_reduce(PrimitiveType::kF32, 8, 3);
    EXPECT_FALSE(communicator->check(spec));
    ASSERT_TRUE(group.barrier());
  });
}

// What rank 1 does in this test, rank 0 learns at its next call.
TEST(NcclCommunicator, NamesThePeerThatIsLost) {
  run_ranks(2, [](int rank, ProcessGroup& group) {
    auto communicator = connected(group);
    ASSERT_TRUE(communicator);
    std::vector<float> data(64);
    const auto address = reinterpret_cast<uint64_t>(data.data());
    const CollectiveSpec spec = all_reduce(PrimitiveType::kF32, 64, 2);
    ASSERT_TRUE(group.barrier());  // Both are connected.
    if (rank == 1) communicator->abort();
    ASSERT_TRUE(group.barrier());
    const Status polled = communicator->poll();
    const Status enqueued =
        communicator->enqueue(spec, address, address, nullptr);
    ASSERT_FALSE(polled);
    ASSERT_FALSE(enqueued);
    EXPECT_EQ(enqueued.error().kind, ErrorKind::kDevice);
    const std::string wanted =
        rank == 1 ? "rank 1: NCCL was aborted" : "rank 1 may be lost";
    EXPECT_NE(polled.error().message.find(wanted), std::string::npos)
        << polled.error().message;
    communicator->abort();
    communicator->abort();  // Once is enough, twice does no harm.
  });
}

TEST(NcclCommunicator, EndsWithinItsTimeWhenAPeerNeverConnects) {
  run_ranks(2, [](int rank, ProcessGroup& group) {
    if (rank == 1) {  // Takes part in the exchange of the id, then stays away.
      ASSERT_TRUE(group.all_gather(std::string(128, 'x')));
      return;
    }
    const auto made = make_nccl_communicator(group, no_device(), 0.2);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::kDevice);
    EXPECT_NE(made.error().message.find("within 0.2 s"), std::string::npos)
        << made.error().message;
  });
}

TEST(NcclCommunicator, SaysWhichRankHasNoNccl) {
  run_ranks(2, [](int rank, ProcessGroup& group) {
    if (rank == 1) {
      ASSERT_TRUE(group.all_gather(""));
      return;
    }
    const auto made = make_nccl_communicator(group, no_device(), 100);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message, "rank 1 has no NCCL");
  });
}

TEST(NcclCommunicator, ConnectsOnlyWhereTheDeviceIsCurrent) {
  run_ranks(1, [](int, ProcessGroup& group) {
    NcclDevice device = no_device();
    device.make_current = [] {
      return fail(ErrorKind::kDevice, "context is gone");
    };
    const auto made = make_nccl_communicator(group, device, 20);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message, "context is gone");
  });
}

TEST(SoloDeviceCommunicator, DoesNothing) {
  auto communicator = make_solo_device_communicator();
  EXPECT_TRUE(communicator->is_immediate());
  EXPECT_FALSE(communicator->is_host_staged());
  float value = 3;
  EXPECT_TRUE(communicator->enqueue(
      all_reduce(PrimitiveType::kF32, 1, 2), reinterpret_cast<uint64_t>(&value),
      reinterpret_cast<uint64_t>(&value), nullptr));
  EXPECT_EQ(value, 3);
}

}  // namespace
}  // namespace reprise

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  // What is loaded is found again by its name, whatever the search path says.
  if (::dlopen(REPRISE_FAKE_NCCL, RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
  return RUN_ALL_TESTS();
}

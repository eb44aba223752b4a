// Ranks are threads here: each has its own Gloo context, and they meet through
// files as ranks without MPI do.
#include "runtime/process/communicator.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/file.h"

namespace reprise {
namespace {

using Body = std::function<void(int rank, Communicator&, std::span<float>)>;

// Runs `body` on `ranks` threads, each with `elements` floats of its own.
void run_ranks(int ranks, size_t elements, double timeout_s, const Body& body) {
  const std::string directory =
      (std::filesystem::temp_directory_path() / "reprise_ranks_XXXXXX");
  std::string path = directory;
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = make_file_process_group(path + "/r", rank, ranks, 20);
      ASSERT_TRUE(group) << group.error().message;
      auto communicator = make_gloo_communicator(**group, timeout_s);
      ASSERT_TRUE(communicator) << communicator.error().message;
      std::vector<float> memory(elements);
      const Status attached =
          (*communicator)->attach(std::as_writable_bytes(std::span(memory)));
      ASSERT_TRUE(attached) << attached.error().message;
      body(rank, **communicator, memory);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove_all(path);
}

// The same of ranks that end together: one that ends closes its connections,
// with what the others have not read yet.
void run_to_the_end(int ranks, size_t elements, const Body& body) {
  std::latch ended(ranks);
  run_ranks(ranks, elements, 20,
            [&](int rank, Communicator& communicator, std::span<float> data) {
              body(rank, communicator, data);
              ended.arrive_and_wait();
            });
}

CollectiveSpec sum_of(size_t elements, int ranks) {
  CollectiveSpec spec;
  spec.elements = static_cast<int64_t>(elements);
  spec.bytes = spec.elements * 4;
  spec.groups.emplace_back();
  for (int rank = 0; rank < ranks; ++rank) spec.groups[0].push_back(rank);
  return spec;
}

float operand(int rank, size_t i) {
  return std::sin(static_cast<float>(i) + 0.37f * static_cast<float>(rank));
}

class AllReduce : public testing::TestWithParam<int> {};

TEST_P(AllReduce, GivesTheSameBitsOnAllRanksForAnySize) {
  const int ranks = GetParam();
  constexpr size_t kMost = 1'000'003;
  std::vector<std::vector<std::vector<float>>> results(
      static_cast<size_t>(ranks));
  const std::vector<size_t> sizes = {1,     16,    1000, 32768,
                                     32769, kMost, 3,    kMost};
  run_to_the_end(
      ranks, kMost,
      [&](int rank, Communicator& communicator, std::span<float> data) {
        for (const size_t size : sizes) {
          for (size_t i = 0; i < size; ++i) data[i] = operand(rank, i);
          const Status done =
              communicator.run(sum_of(size, ranks), data.data(), data.data());
          ASSERT_TRUE(done) << done.error().message;
          results[static_cast<size_t>(rank)].emplace_back(
              data.begin(), data.begin() + static_cast<long>(size));
        }
      });
  for (size_t s = 0; s < sizes.size(); ++s) {
    for (size_t rank = 1; rank < results.size(); ++rank) {
      EXPECT_EQ(results[rank][s], results[0][s]);
    }
    for (size_t i = 0; i < sizes[s]; i += 997) {
      double expected = 0;
      for (int rank = 0; rank < ranks; ++rank) expected += operand(rank, i);
      // Each of the additions rounds once: at most `ranks` half-units of 4.
      ASSERT_NEAR(results[0][s][i], expected, ranks * 2.4e-7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce, testing::Values(2, 3, 4));

/// bf16 numbers of few bits: sums of them are exact.
std::vector<uint16_t> halves(int rank, size_t count) {
  std::vector<uint16_t> bits(count);
  for (size_t i = 0; i < count; ++i) {
    const float value =
        static_cast<float>((i + 3 * static_cast<size_t>(rank)) % 16);
    bits[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  }
  return bits;
}

TEST_P(AllReduce, Adds16BitFloats) {
  const int ranks = GetParam();
  constexpr size_t kCount = 40'001;
  run_to_the_end(
      ranks, kCount,
      [&](int rank, Communicator& communicator, std::span<float> data) {
        CollectiveSpec spec = sum_of(kCount, ranks);
        spec.type = PrimitiveType::kBF16;
        spec.bytes = 2 * spec.elements;
        ASSERT_TRUE(communicator.check(spec));
        std::memcpy(data.data(), halves(rank, kCount).data(), 2 * kCount);
        const Status done = communicator.run(spec, data.data(), data.data());
        ASSERT_TRUE(done) << done.error().message;
        std::vector<uint16_t> sums(kCount);
        std::memcpy(sums.data(), data.data(), 2 * kCount);
        for (size_t i = 0; i < kCount; ++i) {
          float expected = 0;
          for (int r = 0; r < ranks; ++r) {
            expected +=
                static_cast<float>((i + 3 * static_cast<size_t>(r)) % 16);
          }
          const auto bits = static_cast<uint32_t>(sums[i]) << 16;
          ASSERT_EQ(std::bit_cast<float>(bits), expected) << i;
        }
      });
}

// 256 and ones: bf16 has 8 bits, so 256 + 1 rounds back to 256, and only sums
// that round once reach 258 (of 3 ranks) and 260 (of 4: 259, half to even).
TEST_P(AllReduce, RoundsSumsOf16BitFloatsOnce) {
  const int ranks = GetParam();
  constexpr size_t kCount = 1001;
  const float expected =
      std::vector<float>{256, 258, 260}.at(static_cast<size_t>(ranks - 2));
  run_to_the_end(
      ranks, kCount,
      [&](int rank, Communicator& communicator, std::span<float> data) {
        CollectiveSpec spec = sum_of(kCount, ranks);
        spec.type = PrimitiveType::kBF16;
        spec.bytes = 2 * spec.elements;
        const float value = rank == 0 ? 256.0F : 1.0F;
        const std::vector<uint16_t> bits(
            kCount,
            static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
        std::memcpy(data.data(), bits.data(), 2 * kCount);
        const Status done = communicator.run(spec, data.data(), data.data());
        ASSERT_TRUE(done) << done.error().message;
        std::vector<uint16_t> sums(kCount);
        std::memcpy(sums.data(), data.data(), 2 * kCount);
        for (size_t i = 0; i < kCount; ++i) {
          const auto wide = static_cast<uint32_t>(sums[i]) << 16;
          ASSERT_EQ(std::bit_cast<float>(wide), expected) << rank << " " << i;
        }
      });
}

/// What one collective leaves on each rank of 4, whose element i is
/// 10 rank + i.
std::vector<std::vector<float>> left_by(const CollectiveSpec& spec, size_t in,
                                        size_t out) {
  std::vector<std::vector<float>> left(4);
  run_to_the_end(
      4, 16, [&](int rank, Communicator& communicator, std::span<float> data) {
        for (size_t i = 0; i < in; ++i)
          data[i] = static_cast<float>(10 * rank) + static_cast<float>(i);
        ASSERT_TRUE(communicator.check(spec));
        std::vector<float> to(out, -1);
        const bool in_place = is_bytewise(spec.kind);
        const Status done = communicator.run(
            spec, data.data(), in_place ? data.data() : to.data());
        ASSERT_TRUE(done) << done.error().message;
        if (in_place) std::copy_n(data.begin(), out, to.begin());
        left[static_cast<size_t>(rank)] = to;
      });
  return left;
}

CollectiveSpec among(CollectiveKind kind,
                     std::vector<std::vector<int64_t>> groups,
                     int64_t elements) {
  CollectiveSpec spec;
  spec.kind = kind;
  spec.groups = std::move(groups);
  spec.elements = elements;
  spec.bytes = 4 * elements;
  return spec;
}

/// A bucket of three arrays of 1, 3000 and 7 elements a rank beside each of
/// them alone: what each leaves on `rank` of its group.
struct Apart {
  std::vector<std::vector<float>> together, alone;
};

Apart bucket_and_each(CollectiveKind kind,
                      const std::vector<std::vector<int64_t>>& groups, int rank,
                      Communicator& communicator) {
  const size_t ranks = groups[0].size();
  CollectiveSpec spec = among(kind, groups, 0);
  std::vector<std::vector<float>> inputs;
  Apart left;
  std::vector<ArrayBytes> arrays;
  for (const size_t part : {1U, 3000U, 7U}) {
    const bool gathers = kind == CollectiveKind::kAllGather;
    const size_t in = gathers ? part : part * ranks;
    const size_t out = gathers ? part * ranks : part;
    for (size_t i = 0; i < in; ++i) {
      if (i == 0) inputs.emplace_back(in);
      inputs.back()[i] =
          std::sin(static_cast<float>(rank) + 0.1F * static_cast<float>(i));
    }
    const auto location = [](size_t elements) {
      return Location{.size_bytes = static_cast<int64_t>(4 * elements)};
    };
    spec.arrays.push_back({location(in), location(out)});
    spec.elements += static_cast<int64_t>(part * ranks);
    left.together.emplace_back(out, -1);
    left.alone.emplace_back(out, -1);
    const Status done = communicator.run(
        among(kind, groups, static_cast<int64_t>(part * ranks)),
        inputs.back().data(), left.alone.back().data());
    EXPECT_TRUE(done) << done.error().message;
  }
  spec.bytes = 4 * spec.elements;
  for (size_t a = 0; a < inputs.size(); ++a)
    arrays.push_back({inputs[a].data(), left.together[a].data()});
  const Status done = communicator.run(spec, arrays, 0);
  EXPECT_TRUE(done) << done.error().message;
  return left;
}

// Twice: what is left of one must not be taken for the next.
TEST(Buckets, OfGathersAndOfScattersLeaveWhatEachLeavesAlone) {
  for (const auto& groups : std::vector<std::vector<std::vector<int64_t>>>{
           {{0, 1}}, {{0, 1, 2}}, {{3, 1}, {0, 2}}, {{1, 3, 0, 2}}}) {
    const int ranks = static_cast<int>(groups.size() * groups[0].size());
    run_to_the_end(
        ranks, 16, [&](int rank, Communicator& communicator, std::span<float>) {
          for (const CollectiveKind kind :
               {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                CollectiveKind::kAllGather}) {
            const Apart left =
                bucket_and_each(kind, groups, rank, communicator);
            EXPECT_EQ(left.together, left.alone) << ranks << " " << rank;
          }
        });
  }
}

using Left = std::vector<std::vector<float>>;

// Parts stand in the order in which the group names its ranks.
TEST(Groups, GiveEachRankThePartOfItsPlace) {
  const std::vector<std::vector<int64_t>> groups = {{3, 0}, {1, 2}};
  EXPECT_EQ(left_by(among(CollectiveKind::kAllGather, groups, 2), 1, 2),
            (Left{{30, 0}, {10, 20}, {10, 20}, {30, 0}}));
  EXPECT_EQ(left_by(among(CollectiveKind::kAllToAll, groups, 2), 2, 2),
            (Left{{31, 1}, {10, 20}, {11, 21}, {30, 0}}));
  // 30 + 0, 31 + 1; 10 + 20, 11 + 21.
  EXPECT_EQ(left_by(among(CollectiveKind::kReduceScatter, groups, 2), 2, 1),
            (Left{{32}, {30}, {32}, {30}}));
  EXPECT_EQ(left_by(among(CollectiveKind::kAllReduce, groups, 1), 1, 1),
            (Left{{30}, {30}, {30}, {30}}));
  EXPECT_EQ(left_by(among(CollectiveKind::kBroadcast, groups, 2), 2, 2),
            (Left{{30, 31}, {10, 11}, {10, 11}, {30, 31}}));
}

TEST(Groups, OfDifferentSizesAndOfOneRank) {
  EXPECT_EQ(
      left_by(among(CollectiveKind::kAllReduce, {{0, 1, 2}, {3}}, 1), 1, 1),
      (Left{{30}, {30}, {30}, {30}}));
  EXPECT_EQ(
      left_by(among(CollectiveKind::kAllToAll, {{0}, {1}, {2}, {3}}, 1), 1, 1),
      (Left{{0}, {10}, {20}, {30}}));
}

TEST(Groups, LeaveZerosWhereNobodySends) {
  EXPECT_EQ(left_by(among(CollectiveKind::kBroadcast, {{2, 1}}, 1), 1, 1),
            (Left{{0}, {20}, {20}, {0}}));
  CollectiveSpec spec = among(CollectiveKind::kPermute, {{0, 1, 2}}, 2);
  spec.pairs = {{0, 2}, {1, 1}};
  EXPECT_EQ(left_by(spec, 2, 2), (Left{{0, 0}, {10, 11}, {0, 1}, {0, 0}}));
}

// A rank that is one call of its group ahead does not reach into the other's.
TEST(Groups, FollowEachOtherOnTheSameConnections) {
  run_to_the_end(
      4, 16, [&](int rank, Communicator& communicator, std::span<float> data) {
        for (int round = 0; round < 50; ++round) {
          data[0] = static_cast<float>(1 + rank);
          for (const auto& groups :
               {std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}},
                {{0, 2}, {1, 3}}}) {
            ASSERT_TRUE(
                communicator.run(among(CollectiveKind::kAllReduce, groups, 1),
                                 data.data(), data.data()));
          }
          ASSERT_EQ(data[0], 10);
        }
      });
}

// ((1e8 + 1) - 1e8) + 1 is 1 in f32; from the second or the last rank on it is
// 0.
TEST(Communicator, SumsSmallArraysAndPartsInTheOrderOfRanks) {
  constexpr int kRanks = 4;
  constexpr float kOf[] = {1e8f, 1, -1e8f, 1};
  constexpr size_t kSmall = 2048, kLarge = 4 * 50'000;
  const auto ones = [](std::span<const float> values) {
    return static_cast<size_t>(std::count(values.begin(), values.end(), 1.0f));
  };
  run_to_the_end(
      kRanks, kLarge,
      [&](int rank, Communicator& communicator, std::span<float> data) {
        const auto fill = [&] {
          std::fill(data.begin(), data.end(), kOf[static_cast<size_t>(rank)]);
        };
        fill();
        const Status small =
            communicator.run(sum_of(kSmall, kRanks), data.data(), data.data());
        ASSERT_TRUE(small) << small.error().message;
        EXPECT_EQ(ones(data.first(kSmall)), kSmall);

        fill();
        CollectiveSpec parts = sum_of(kLarge, kRanks);
        parts.kind = CollectiveKind::kReduceScatter;
        std::vector<float> part(kLarge / kRanks);
        const Status large = communicator.run(parts, data.data(), part.data());
        ASSERT_TRUE(large) << large.error().message;
        EXPECT_EQ(ones(part), part.size());
      });
}

// The least send buffer of this process's connections; nothing without any.
std::optional<int> least_send_buffer() {
  std::optional<int> least;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    sockaddr_storage peer = {};
    socklen_t length = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer),
                      &length) != 0 ||
        (peer.ss_family != AF_INET && peer.ss_family != AF_INET6)) {
      continue;
    }
    int bytes = 0;
    length = sizeof bytes;
    EXPECT_EQ(::getsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, &length),
              0);
    least = std::min(least.value_or(bytes), bytes);
  }
  return least;
}

// A message that is larger than its socket's buffer waits for acknowledgements:
// 64 KiB among two ranks of one host took 40 ms after a first loss of 4 bytes.
TEST(Communicator, SmallMessagesLeaveRoomForLargeOnes) {
  static constexpr int kSegment = 128 << 10;
  run_to_the_end(2, 64,
                 [](int, Communicator& communicator, std::span<float> data) {
                   const Status done =
                       communicator.run(sum_of(1, 2), data.data(), data.data());
                   ASSERT_TRUE(done) << done.error().message;
                   const std::optional<int> least = least_send_buffer();
                   ASSERT_TRUE(least);
                   EXPECT_GE(*least, kSegment);
                 });
}

TEST(Communicator, NamesARankThatKeepsSilent) {
  std::latch given_up(1);
  run_ranks(2, 64, 2,
            [&](int rank, Communicator& communicator, std::span<float> data) {
              if (rank == 1) return given_up.wait();
              const Status done =
                  communicator.run(sum_of(64, 2), data.data(), data.data());
              given_up.count_down();
              ASSERT_FALSE(done);
              EXPECT_EQ(done.error().kind, ErrorKind::kDevice);
              EXPECT_NE(done.error().message.find("rank 1 kept silent"),
                        std::string::npos)
                  << done.error().message;
            });
}

TEST(Communicator, NamesARankThatIsLost) {
  run_ranks(2, 64, 20,
            [](int rank, Communicator& communicator, std::span<float> data) {
              if (rank == 1) return;  // Its connections close.
              const Status done =
                  communicator.run(sum_of(64, 2), data.data(), data.data());
              ASSERT_FALSE(done);
              EXPECT_NE(done.error().message.find("rank 1 was lost"),
                        std::string::npos)
                  << done.error().message;
            });
}

TEST(Communicator, WritingToALostRankIsNoSignal) {
  std::signal(SIGPIPE, SIG_DFL);
  run_ranks(2, 64, 20, [](int, Communicator&, std::span<float>) {});
  struct sigaction action {};
  ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, SIG_IGN);
}

TEST(Communicator, FailsOnAllRanksLongBeforeItsTimeoutAfterALoss) {
  run_ranks(
      4, 64, 60,
      [](int rank, Communicator& communicator, std::span<float> data) {
        if (rank == 1) return;
        const auto start = std::chrono::steady_clock::now();
        EXPECT_FALSE(communicator.run(sum_of(64, 4), data.data(), data.data()));
        EXPECT_LT(std::chrono::steady_clock::now() - start,
                  std::chrono::seconds(30));
      });
}

TEST(Communicator, SaysOnAllRanksWhichOneCannotListen) {
  std::string path = std::filesystem::temp_directory_path() / "reprise_XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const auto message_of = [&](int rank) {
    const auto group = make_file_process_group(path + "/r", rank, 2, 20);
    const auto made = make_gloo_communicator(**group, 5);
    return made ? std::string("connected") : made.error().message;
  };
  std::string first;
  std::thread rank_0([&] { first = message_of(0); });
  // Rank 0 has its address, by the loopback, once it gives it to rank 1.
  while (!std::filesystem::exists(path + "/r.0.0"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::setenv("REPRISE_INTERFACE", "absent0", 1);
  const std::string second = message_of(1);
  ::unsetenv("REPRISE_INTERFACE");
  rank_0.join();
  std::filesystem::remove_all(path);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.find("rank 1 cannot listen on 'absent0'"), 0u) << first;
}

TEST(FileProcessGroup, LeavesNoFilesBehind) {
  std::string path = std::filesystem::temp_directory_path() / "reprise_XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const auto meet = [&](int rank) {
    const auto group = make_file_process_group(path + "/r", rank, 2, 20);
    for (int round = 0; round < 3; ++round)
      ASSERT_EQ((*group)->all_gather(std::to_string(10 * rank + round)),
                (std::vector<std::string>{std::to_string(round),
                                          std::to_string(10 + round)}));
  };
  for (int run = 0; run < 2; ++run) {
    std::thread other(meet, 1);
    meet(0);
    other.join();
    EXPECT_TRUE(std::filesystem::is_empty(path)) << run;
  }
  std::filesystem::remove_all(path);
}

// std::stoll threw here, or took what only begins with a number.
TEST(FileProcessGroup, RefusesAnAnswerThatIsNoTime) {
  std::string path = std::filesystem::temp_directory_path() / "reprise_XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const auto group = make_file_process_group(path + "/r", 0, 2, 20);
  for (const char* answer :
       {"", "soon", "12 o'clock", "99999999999999999999"}) {
    ASSERT_TRUE(write_file_atomically(path + "/r.pong.1", answer));
    const Result<int64_t> stamp = (*group)->ping(1);
    ASSERT_FALSE(stamp) << answer;
    EXPECT_EQ(stamp.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(stamp.error().message.find("r.pong.1: expected a time"),
              std::string::npos);
  }
  ASSERT_TRUE(write_file_atomically(path + "/r.pong.1", "-12"));
  EXPECT_EQ(*(*group)->ping(1), -12);
  std::filesystem::remove_all(path);
}

TEST(Communicator, RefusesWhatItCannotDoByName) {
  run_ranks(2, 64, 20, [](int, Communicator& communicator, std::span<float>) {
    CollectiveSpec spec = sum_of(64, 2);
    spec.type = PrimitiveType::kC64;
    EXPECT_EQ(communicator.check(spec).error().kind, ErrorKind::kUnsupported);
    spec = sum_of(64, 3);
    EXPECT_EQ(communicator.check(spec).error().kind, ErrorKind::kInvalid);
    spec = sum_of(64, 2);
    spec.kind = CollectiveKind::kScatter;
    EXPECT_EQ(communicator.check(spec).error().kind, ErrorKind::kUnsupported);
  });
}

}  // namespace
}  // namespace reprise

#include "profiler/gather/gather_profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "data/file.h"
#include "data/trace/trace.h"
#include "profiler/gather/profile_files.h"
#include "replay/clocks/clock_alignment.h"
#include "tests/testing/process_shard_builder.h"

namespace reprise {
namespace {

using Kind = RecordKind;

class ProfileGather : public ::testing::Test {
 protected:
  ProfileGather() {
    std::string pattern = ::testing::TempDir() + "profile.XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~ProfileGather() override { std::filesystem::remove_all(path_); }

  void add(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    ASSERT_TRUE(write_file_atomically(file.string(), bytes));
  }

  /// A rank on a host of its own: 20 all-reduces that last 100 us, one each
  /// millisecond, in the host's monotonic clock from `base_ns` on.
  void add_host(int rank, int64_t base_ns, int64_t epoch_offset_ns) const {
    ShardBuilder shard(fmt::format(
        R"({{"host":"h{0}","process":9,"parent":1,"boot_id":"b{0}","rank":{0},)"
        R"("ranks":2,"local_rank":0,"program":"/bin/p","arguments":[],)"
        R"("source":"process","image":1,"start_ns":{1},)"
        R"("epoch_offset_ns":{2}}})",
        rank, base_ns, epoch_offset_ns));
    for (int64_t i = 0; i < 20; ++i) {
      const int64_t start_ns = base_ns + i * 1'000'000;
      shard
          .add({.start_ns = start_ns - 5000,
                .end_ns = start_ns - 4000,
                .correlation = i,
                .stream = 9,
                .kind = Kind::kCall},
               "cudaLaunchKernelExC")
          .add({.start_ns = start_ns,
                .end_ns = start_ns + 100'000,
                .correlation = i,
                .stream = 20,
                .device = 0,
                .kind = Kind::kKernel},
               "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
          .add({.start_ns = start_ns - 3900,
                .end_ns = start_ns - 3800,
                .correlation = 1000 + i,
                .bytes = 4096,
                .stream = 9,
                .sequence = i,
                .kind = Kind::kCollective},
               "AllReduce",
               fmt::format(R"({{"op":"AllReduce","communicator":"0xc",)"
                           R"("rank":{},"ranks":2,"data_type":"ncclFloat32",)"
                           R"("count":1024}})",
                           rank));
    }
    shard.end();
    add(fmt::format("host{}/h{}.9.process.shard", rank, rank), shard.bytes());
  }

  static GatherOptions options() {
    return {.align_clocks = [](Trace& trace) { align_clocks(trace); }};
  }

  std::string path_;
};

// Both hosts started each all-reduce at the same true time. Host 1 booted 7 s
// before host 0, and its wall clock is 1 ms ahead, by which the epoch alone
// would be wrong; what the ranks did together says better.
TEST_F(ProfileGather, ClocksOfSeveralHostsAreAligned) {
  constexpr int64_t kEpoch = 1'700'000'000'000'000'000;
  add_host(0, 10'000'000'000, kEpoch);
  add_host(1, 17'000'000'000, kEpoch - 7'000'000'000 + 1'000'000);
  const std::string output = path_ + ".trace";
  const auto gathered = gather_profile(path_, output, options());
  ASSERT_TRUE(gathered) << gathered.error().message;
  EXPECT_EQ(gathered->ranks, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(gathered->files[0].path, "host0/h0.9.process.shard");
  const auto trace = read_trace(output);
  std::filesystem::remove(output);
  ASSERT_TRUE(trace) << trace.error().message;
  std::vector<std::vector<int64_t>> starts(2);
  for (const Event& event : trace->events) {
    if (event.kind != EventKind::kCollective) continue;
    starts[event.rank].push_back(
        to_rank0_ns(trace->ranks[event.rank], event.start_ns));
  }
  ASSERT_EQ(starts[0].size(), 20u);
  ASSERT_EQ(starts[1].size(), 20u);
  EXPECT_EQ(starts[0][0], kEpoch + 10'000'000'000);
  for (size_t i = 0; i < 20; ++i) {
    // Ends of the ranks differ by less than a third of a stay of 100 us.
    EXPECT_LT(std::abs(starts[1][i] - starts[0][i]), 34'000);
  }
}

TEST_F(ProfileGather, ADirectoryWithoutShardsIsNone) {
  add("notes.txt", "hello");
  const auto gathered = gather_profile(path_, path_ + ".trace", options());
  ASSERT_FALSE(gathered);
  EXPECT_EQ(gathered.error().kind, ErrorKind::kUnsupported);
}

TEST_F(ProfileGather, ShardsOfATrainerNeedItsContext) {
  add("rank.0.shard", "RPRSHARD");
  const auto gathered = gather_profile(path_, path_ + ".trace", options());
  ASSERT_FALSE(gathered);
  EXPECT_NE(gathered.error().message.find("trainer.json"), std::string::npos);
  EXPECT_FALSE(holds_trainer(path_));
  add("host0/trainer.json", "{}");
  EXPECT_TRUE(holds_trainer(path_));
  const auto broken = gather_profile(path_, path_ + ".trace", options());
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, ErrorKind::kParse);
}

// Shards of one run are in directories of its name, one a host; those of
// another run are apart from it, and later.
TEST_F(ProfileGather, RunsOfATrainerAreToldApart) {
  add("host0/training.1000.h0.5/rank.0.shard", "RPRSHARD");
  add("host0/training.1000.h0.5/trainer.json", "{}");
  add("host1/training.1000.h0.5/rank.1.shard", "RPRSHARD");
  add("host0/training.2000.h0.4/trainer.json", "{}");
  add("host0/training.2000.h0.4/rank.0.shard", "RPRSHARD");
  add("host0/training.3000.h0.7/trainer.json", "{}");  // It never stepped.
  const auto files = find_profile_files(path_);
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->trainers.size(), 2u);
  const TrainerRun& first = files->trainers[0];
  EXPECT_EQ(first.name, "training.1000.h0.5");
  EXPECT_EQ(first.context, path_ + "/host0/training.1000.h0.5/trainer.json");
  EXPECT_EQ(first.shards,
            (std::vector<std::string>{
                path_ + "/host0/training.1000.h0.5/rank.0.shard",
                path_ + "/host1/training.1000.h0.5/rank.1.shard"}));
  EXPECT_EQ(files->trainers[1].name, "training.2000.h0.4");
  EXPECT_EQ(files->trainers[1].shards.size(), 1u);
}

TEST(PathOfRun, NumbersAllButTheFirst) {
  EXPECT_EQ(path_of_run("d.x/t.trace", 1), "d.x/t.trace");
  EXPECT_EQ(path_of_run("d.x/t.trace", 2), "d.x/t.2.trace");
  EXPECT_EQ(path_of_run("d.x/t", 3), "d.x/t.3");
}

TEST(StepWindow, HasTwoSidesEitherOfWhichMayBeOpen) {
  EXPECT_EQ(parse_step_window("3:7")->first, 3);
  EXPECT_EQ(parse_step_window("3:7")->end, 7);
  EXPECT_EQ(parse_step_window(":7")->first, 0);
  EXPECT_EQ(parse_step_window("3:")->end, INT64_MAX);
  for (const char* text : {"", ":", "3", "7:3", "3:3", "a:4", "3:b", "-1:4",
                           "1:2:3", " 1:2", "99999999999999999999:"}) {
    EXPECT_FALSE(parse_step_window(text)) << text;
  }
}

}  // namespace
}  // namespace reprise

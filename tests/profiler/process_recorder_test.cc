#include "profiler/process_recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "data/io/crc32.h"
#include "profiler/process_checksum.h"
#include "tests/profiler/process_shard_contents.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

/// Longer than any test: drains happen where a test asks for them.
constexpr int64_t kNever = 1'000'000'000'000;

class ProcessRecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "process_recorder.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  ProcessRecorder::Options options(uint32_t capacity = 1 << 16) const {
    return {.directory = directory_.string(),
            .source = "test",
            .capacity = capacity,
            .drain_period_ns = kNever};
  }
  StrictShardContents only_shard() const {
    auto shards = read_shard_directory(directory_);
    EXPECT_EQ(shards.size(), 1U);
    return shards.begin()->second;
  }

  fs::path directory_;
};

ProcessRecord numbered(int64_t thread, int64_t number) {
  ProcessRecord record;
  record.start_ns = number;
  record.end_ns = number + 1;
  record.stream = thread;
  record.sequence = number;
  record.kind = RecordKind::kMark;
  return record;
}

TEST(ProcessChecksum, IsTheOneOfTheTraceStore) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i * 37);
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const std::string_view head = std::string_view(bytes).substr(0, length);
    ASSERT_EQ(process_checksum(head), crc32(head)) << length;
    ASSERT_EQ(process_checksum(std::string_view(bytes).substr(length),
                               process_checksum(head)),
              crc32(bytes));
  }
}

TEST_F(ProcessRecorderTest, WritesWhoTheProcessIs) {
  ::setenv("RANK", "3", 1);
  ::setenv("WORLD_SIZE", "8", 1);
  ::setenv("LOCAL_RANK", "1", 1);
  const int64_t before = ProcessRecorder::now_ns();
  ProcessRecorder::start(options())->finish();
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("LOCAL_RANK");
  const StrictShardContents shard = only_shard();
  EXPECT_EQ(shard.header.at("process"), ::getpid());
  EXPECT_EQ(shard.header.at("parent"), ::getppid());
  EXPECT_EQ(shard.header.at("rank"), 3);
  EXPECT_EQ(shard.header.at("ranks"), 8);
  EXPECT_EQ(shard.header.at("local_rank"), 1);
  EXPECT_EQ(shard.header.at("source"), "test");
  EXPECT_EQ(shard.header.at("image"), 1);
  EXPECT_EQ(shard.header.at("program"),
            fs::read_symlink("/proc/self/exe").string());
  EXPECT_FALSE(shard.header.at("arguments").empty());
  EXPECT_GE(shard.header.at("start_ns"), before);
  EXPECT_GE(shard.end.at("end_ns"), shard.header.at("start_ns"));
  // 2020-01-01 in ns: any clock that was set lies beyond.
  EXPECT_GT(shard.header.at("epoch_offset_ns").get<int64_t>() + before,
            1'577'836'800'000'000'000);
}

TEST_F(ProcessRecorderTest, ARankNeedsItsNumberOfRanks) {
  ::setenv("RANK", "3", 1);
  ::setenv("WORLD_SIZE", "2", 1);  // No rank 3 of 2.
  ProcessRecorder::start(options())->finish();
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
  EXPECT_EQ(only_shard().header.at("rank"), -1);
}

TEST_F(ProcessRecorderTest, KeepsEveryRecordOfEveryThreadInOrder) {
  constexpr int kThreads = 4, kRecords = 10'000;
  auto recorder = ProcessRecorder::start(options());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kRecords; ++i) {
        ProcessRecord record = numbered(thread, i);
        // 100 names, the same ones from all threads.
        record.name = recorder->string_id("name " + std::to_string(i % 100));
        EXPECT_TRUE(recorder->record(record));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  recorder->finish();
  const StrictShardContents shard = only_shard();
  ASSERT_EQ(shard.records.size(), size_t{kThreads * kRecords});
  EXPECT_EQ(shard.names.size(), 101U);
  std::array<int64_t, kThreads> next{};
  for (const ProcessRecord& record : shard.records) {
    const auto thread = static_cast<size_t>(record.stream);
    EXPECT_EQ(record.sequence, next.at(thread)++);
    EXPECT_EQ(shard.name(record),
              "name " + std::to_string(record.sequence % 100));
  }
  EXPECT_EQ(shard.end.at("lost"), nlohmann::json::object());
}

TEST_F(ProcessRecorderTest, CountsWhatAFullRingRefuses) {
  // 64 places, a drain at half of them at the earliest: of 10,000 records in a
  // row some are refused, and then exactly those are missing.
  auto recorder = ProcessRecorder::start(options(64));
  uint64_t refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (!recorder->record(numbered(0, i))) ++refused;
  }
  recorder->finish();
  const StrictShardContents shard = only_shard();
  EXPECT_EQ(shard.records.size(), 10'000 - refused);
  EXPECT_EQ(shard.lost("ring full"), refused);
}

TEST_F(ProcessRecorderTest, CollectedRecordsAreNeverRefused) {
  // The first collection brings 1,000 records through a ring of 64. The writer
  // may collect too, so nothing is said of how often.
  ProcessRecorder::Options chosen = options(64);
  std::atomic<int> calls{0};
  chosen.collect_context = &calls;
  chosen.collect = [](void* context, ProcessRecorder& recorder) {
    if (++*static_cast<std::atomic<int>*>(context) > 1) return;
    for (int i = 0; i < 1'000; ++i) {
      EXPECT_TRUE(recorder.record(numbered(0, i)));
    }
  };
  auto recorder = ProcessRecorder::start(chosen);
  recorder->flush();
  recorder->finish();
  const StrictShardContents shard = only_shard();
  EXPECT_EQ(shard.records.size(), 1'000U);
  EXPECT_EQ(shard.end.at("lost"), nlohmann::json::object());
}

TEST_F(ProcessRecorderTest, FlushHandsOverBeforeTheEnd) {
  auto recorder = ProcessRecorder::start(options());
  recorder->record(numbered(0, 7));
  recorder->note("cupti", "one \"quote\"");
  recorder->flush();
  const StrictShardContents shard = only_shard();
  ASSERT_EQ(shard.records.size(), 1U);
  EXPECT_EQ(shard.records[0].sequence, 7);
  EXPECT_EQ(shard.notes.at("cupti"), "one \"quote\"");
  EXPECT_TRUE(shard.end.is_null());
}

TEST_F(ProcessRecorderTest, CountsLossesByReason) {
  auto recorder = ProcessRecorder::start(options());
  recorder->count_lost("cupti dropped", 3);
  recorder->count_lost("cupti dropped", 4);
  recorder->count_lost("no timestamp", 1);
  recorder->count_lost("nothing", 0);
  recorder->finish();
  EXPECT_EQ(
      only_shard().end.at("lost"),
      nlohmann::json::parse(R"({"cupti dropped": 7, "no timestamp": 1})"));
}

TEST_F(ProcessRecorderTest, AfterTheEndCallsDoNothing) {
  auto recorder = ProcessRecorder::start(options());
  recorder->finish();
  EXPECT_FALSE(recorder->record(numbered(0, 1)));
  EXPECT_EQ(recorder->string_id("late"), 0U);
  recorder->note("late", "late");
  recorder->flush();
  recorder->finish();
  EXPECT_TRUE(only_shard().records.empty());
}

TEST_F(ProcessRecorderTest, CutsLongNames) {
  auto recorder = ProcessRecorder::start(options());
  const std::string longest(4096, 'x');
  EXPECT_EQ(recorder->string_id(""), 0U);
  EXPECT_EQ(recorder->string_id(longest + "y"), 1U);
  EXPECT_EQ(recorder->string_id(longest), 1U);
  EXPECT_EQ(recorder->string_id("y"), 2U);
}

TEST_F(ProcessRecorderTest, NoDirectoryNoRecorder) {
  ProcessRecorder::Options chosen = options();
  chosen.directory = (directory_ / "absent").string();
  EXPECT_EQ(ProcessRecorder::start(chosen), nullptr);
}

TEST_F(ProcessRecorderTest, TheChildOfAForkRecordsNothing) {
  auto recorder = ProcessRecorder::start(options());
  recorder->record(numbered(0, 1));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool was_taken = recorder->record(numbered(0, 2));
    recorder->note("child", "was here");
    recorder->flush();
    recorder.reset();
    ::_exit(was_taken ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  recorder->record(numbered(0, 3));
  recorder->finish();
  const StrictShardContents shard = only_shard();
  ASSERT_EQ(shard.records.size(), 2U);
  EXPECT_EQ(shard.records[1].sequence, 3);
  EXPECT_TRUE(shard.notes.empty());
}

TEST_F(ProcessRecorderTest, TheChildOfAForkMayStartItsOwn) {
  auto recorder = ProcessRecorder::start(options());
  const pid_t child = ::fork();
  if (child == 0) {
    auto own = ProcessRecorder::start(options());
    own->record(numbered(0, 2));
    own->finish();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  recorder->finish();
  const auto shards = read_shard_directory(directory_);
  ASSERT_EQ(shards.size(), 2U);
  std::set<int64_t> processes;
  for (const auto& [name, shard] : shards) {
    processes.insert(shard.header.at("process").get<int64_t>());
  }
  EXPECT_EQ(processes, (std::set<int64_t>{::getpid(), child}));
}

TEST_F(ProcessRecorderTest, ASecondImageOfAProcessKeepsTheFirst) {
  ProcessRecorder::start(options())->finish();
  ProcessRecorder::start(options())->finish();
  const auto shards = read_shard_directory(directory_);
  ASSERT_EQ(shards.size(), 2U);
  std::set<int> images;
  for (const auto& [name, shard] : shards) {
    images.insert(shard.header.at("image").get<int>());
  }
  EXPECT_EQ(images, (std::set<int>{1, 2}));
}

TEST_F(ProcessRecorderTest, AHostThatClosesEveryDescriptorKeepsItsOwnFiles) {
  auto recorder = ProcessRecorder::start(options());
  // What daemons do; then the number of the shard goes to a file of the host.
  const fs::path precious = directory_ / "precious";
  int mine = -1;
  for (int number = 3; number < 1024; ++number) {
    std::error_code none;
    const fs::path link = "/proc/self/fd/" + std::to_string(number);
    const fs::path target = fs::read_symlink(link, none);
    if (target.extension() != ".shard") continue;
    const int file = ::open(precious.c_str(), O_CREAT | O_WRONLY, 0600);
    mine = ::dup2(file, number);
    ::close(file);
  }
  ASSERT_GE(mine, 0);
  recorder->record(numbered(0, 1));
  recorder->finish();
  ::close(mine);
  EXPECT_EQ(fs::file_size(precious), 0U);
  EXPECT_EQ(only_shard().records.size(), 1U);
  EXPECT_FALSE(only_shard().end.is_null());
}

}  // namespace
}  // namespace reprise

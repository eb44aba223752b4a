// The injection library decides on the window, and NCCL's plugin and the
// interposer keep to it: two ranks, all libraries real, the fake NCCL below.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/formats/process_shard/process_shard_contents.h"
#include "data/import/import.h"
#include "replay/collectives/collectives.h"

namespace reprise {
namespace {

using Environment = std::map<std::string, std::string>;

const Environment kPlugin = {{"LD_PRELOAD", REPRISE_TEST_INJECT},
                             {"NCCL_PROFILER_PLUGIN", REPRISE_TEST_PLUGIN}};
const Environment kInterposer = {
    {"LD_PRELOAD", REPRISE_TEST_INJECT ":" REPRISE_TEST_PRELOAD}};
const Environment kPluginAlone = {
    {"NCCL_PROFILER_PLUGIN", REPRISE_TEST_PLUGIN}};

/// Sequences and bytes of calls, sorted.
using Calls = std::vector<std::pair<int64_t, int64_t>>;

class NcclWindow : public testing::Test {
 protected:
  NcclWindow() {
    std::string pattern = testing::TempDir() + "window.XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~NcclWindow() override { std::filesystem::remove_all(directory_); }

  void run(Environment environment, const char* steps) const {
    environment["REPRISE_PROFILE_STEPS"] = steps;
    environment["REPRISE_PROFILE_DIRECTORY"] = directory_;
    const pid_t child = ::fork();
    if (child == 0) {
      for (const auto& [name, text] : environment) {
        ::setenv(name.c_str(), text.c_str(), 1);
      }
      ::execl(REPRISE_TEST_WINDOW_HOST, REPRISE_TEST_WINDOW_HOST, nullptr);
      ::_exit(99);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }

  /// Of each rank, within the window or, `outside` it, captured into graphs.
  std::vector<Calls> calls(bool outside = false) const {
    std::vector<Calls> ranks;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const auto shard = ProcessShardContents::open(entry.path());
      EXPECT_TRUE(shard) << shard.error().message;
      if (!shard || shard->identity().source != "nccl") continue;
      Calls& calls = ranks.emplace_back();
      const Status read = shard->each_segment([&](auto records) {
        for (const ProcessRecord& record : records) {
          const bool is_outside = (record.flags & kOutsideWindow) != 0;
          if (record.kind != RecordKind::kCollective || is_outside != outside) {
            continue;
          }
          calls.emplace_back(record.sequence, record.bytes);
        }
      });
      EXPECT_TRUE(read) << read.error().message;
      std::sort(calls.begin(), calls.end());
    }
    return ranks;
  }

  std::string directory_;
};

/// Of steps `first` to `end` - 1: calls 2 s and 2 s + 1, of 4 × (100 + s)
/// bytes.
Calls calls_of_steps(int64_t first, int64_t end) {
  Calls calls;
  for (int64_t step = first; step < end; ++step) {
    for (int64_t i = 0; i < 2; ++i) {
      calls.emplace_back(2 * step + i, 4 * (100 + step));
    }
  }
  return calls;
}

TEST_F(NcclWindow, CutsTheSameCallsOfThePluginOnBothRanks) {
  run(kPlugin, "2:4");
  const auto ranks = calls();
  ASSERT_EQ(ranks.size(), 2U);
  for (const auto& rank : ranks) EXPECT_EQ(rank, calls_of_steps(2, 4));
  // What is gathered of them is matched, though the sequences begin at 4.
  ImportOptions options;
  options.kind = "process-shard";
  auto result = import_files(std::vector<std::string>{directory_}, options);
  ASSERT_TRUE(result) << result.error().message;
  const auto trace = gather_spools(result->spools);
  ASSERT_TRUE(trace) << trace.error().message;
  const CollectiveMatching matching = match_collectives(*trace);
  EXPECT_TRUE(matching.notes.empty()) << matching.notes.front();
  ASSERT_EQ(matching.collectives.size(), 4U);
  std::map<int64_t, int64_t> bytes;
  for (const MatchedCollective& collective : matching.collectives) {
    EXPECT_EQ(collective.members.size(), 2U);
    bytes[collective.sequence] = collective.bytes;
  }
  EXPECT_EQ(bytes, (std::map<int64_t, int64_t>{
                       {4, 408}, {5, 408}, {6, 412}, {7, 412}}));
}

TEST_F(NcclWindow, CutsTheSameCallsOfTheInterposerOnBothRanks) {
  run(kInterposer, "2:4");
  const auto ranks = calls();
  ASSERT_EQ(ranks.size(), 2U);
  for (const auto& rank : ranks) EXPECT_EQ(rank, calls_of_steps(2, 4));
}

// Replays within the window run what was captured before it.
TEST_F(NcclWindow, KeepsWhatTheInterposerSeesCaptured) {
  Environment environment = kInterposer;
  environment["FAKE_CAPTURE"] = REPRISE_TEST_CAPTURE;
  run(environment, "2:4");
  const auto ranks = calls(), captured = calls(/*outside=*/true);
  ASSERT_EQ(ranks.size(), 2U);
  for (const auto& rank : ranks) EXPECT_EQ(rank, calls_of_steps(2, 4));
  for (const auto& rank : captured) EXPECT_EQ(rank, calls_of_steps(0, 1));
}

TEST_F(NcclWindow, IsOpenWhereNobodyDecides) {
  run(kPluginAlone, "2:4");
  const auto ranks = calls();
  ASSERT_EQ(ranks.size(), 2U);
  for (const auto& rank : ranks) EXPECT_EQ(rank, calls_of_steps(0, 6));
}

}  // namespace
}  // namespace reprise

// The real interposer in processes of its own, with the fake NCCL behind it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <set>

#include "profiler/nccl/event_writer.h"
#include "tests/profiler/nccl/nccl_host.h"

namespace reprise {
namespace {

using nlohmann::json;
using Environment = std::map<std::string, std::string>;

const Environment kPreloaded = {{"LD_PRELOAD", REPRISE_TEST_PRELOAD}};

struct Ended {
  int status = -1;
  std::string output;
};

Ended run_program(const std::vector<std::string>& command,
                  const std::filesystem::path& directory,
                  const Environment& environment) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  Ended ended;
  ended.status = run_host(directory, environment, [&] {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    std::vector<char*> arguments;
    for (const std::string& word : command) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    return 99;
  });
  ::close(ends[1]);
  std::array<char, 256> text;
  // A pipe holds what these programs print.
  for (ssize_t got; (got = ::read(ends[0], text.data(), text.size())) > 0;) {
    ended.output.append(text.data(), static_cast<size_t>(got));
  }
  ::close(ends[0]);
  return ended;
}

const std::vector<std::string> kLinked = {REPRISE_TEST_LINKED_HOST};
const std::vector<std::string> kOpening = {REPRISE_TEST_OPENING_HOST,
                                           REPRISE_TEST_MODULE};

/// The calls of one rank of one communicator, in their order.
std::vector<ProcessRecord> calls_of(const StrictShardContents& shard,
                                    const std::string& communicator, int rank) {
  std::vector<ProcessRecord> calls;
  for (const ProcessRecord& record : shard.of(RecordKind::kCollective)) {
    const json info = shard.info(record);
    if (info["communicator"] == communicator && info["rank"] == rank) {
      calls.push_back(record);
    }
  }
  return calls;
}

std::string communicator_named(const StrictShardContents& shard,
                               const std::string& name) {
  for (const ProcessRecord& record : shard.of(RecordKind::kCollective)) {
    const json info = shard.info(record);
    if (info.value("communicator_name", "") == name) {
      return info["communicator"];
    }
  }
  return "";
}

struct Expected {
  const char* op;
  int64_t bytes, sequence;
  const char* data_type;
  int root;  ///< Or the peer of the other rank; -1: a root that is not said.
};

// As preload_work.cc makes them. Bytes: count × size of the type.
constexpr std::array kExpected = {
    Expected{"AllReduce", 4000, 0, "ncclFloat32", -1},
    Expected{"Broadcast", 40, 1, "ncclInt32", 1},
    Expected{"Broadcast", 36, 2, "ncclInt32", 0},
    Expected{"Reduce", 32, 3, "ncclInt32", 1},
    Expected{"AllGather", 48, 4, "ncclInt64", -1},
    Expected{"ReduceScatter", 40, 5, "ncclInt64", -1},
    Expected{"AlltoAll", 4, 6, "ncclUint8", -1},
    Expected{"Send", 24, -1, "ncclFloat64", -1},
    Expected{"Recv", 24, -1, "ncclFloat64", -1}};

void expect_calls_of_rank(const StrictShardContents& shard, int rank) {
  const auto calls = calls_of(shard, communicator_named(shard, "grads"), rank);
  ASSERT_EQ(calls.size(), kExpected.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    const Expected& expected = kExpected[i];
    const json info = shard.info(calls[i]);
    EXPECT_EQ(shard.name(calls[i]), expected.op);
    EXPECT_EQ(info["op"], expected.op);
    EXPECT_EQ(calls[i].bytes, expected.bytes);
    EXPECT_EQ(calls[i].sequence, expected.sequence);
    EXPECT_EQ(info["data_type"], expected.data_type);
    EXPECT_EQ(info.value("root", -1), expected.root);
    EXPECT_EQ(info.value("peer", -1), i < 7 ? -1 : 1 - rank);
    EXPECT_EQ(info["ranks"], 2);
    EXPECT_LE(calls[i].start_ns, calls[i].end_ns);
    EXPECT_GE(calls[i].correlation, kFirstNcclId);
    // The last two are in one group.
    EXPECT_EQ(calls[i].graph_node, i < 7 ? -1 : calls[7].graph_node);
    if (i == 7) {
      EXPECT_GE(calls[i].graph_node, kFirstNcclId);
    }
  }
}

void expect_groups(const StrictShardContents& shard) {
  std::map<int64_t, ProcessRecord> groups;
  for (const ProcessRecord& range : shard.of(RecordKind::kRange)) {
    EXPECT_EQ(shard.name(range), "ncclGroup");
    groups[range.correlation] = range;
  }
  // Each rank's messages, and the two pairs on one thread; the group that only
  // made communicators is one more.
  EXPECT_EQ(groups.size(), 5U);
  for (const ProcessRecord& call : shard.of(RecordKind::kCollective)) {
    if (call.graph_node == -1) continue;
    const ProcessRecord& group = groups.at(call.graph_node);
    EXPECT_LE(group.start_ns, call.start_ns);
    EXPECT_GE(group.end_ns, call.end_ns);
    EXPECT_EQ(group.stream, call.stream);
  }
}

// Besides "grads": its part, whose ranks are turned round, and two pairs on one
// thread, each with one sum of one s32 that is the first of its communicator.
void expect_other_communicators(const StrictShardContents& shard) {
  std::map<std::string, std::set<int>> ranks;
  for (const ProcessRecord& record : shard.of(RecordKind::kCollective)) {
    const json info = shard.info(record);
    if (info.contains("communicator_name")) continue;
    EXPECT_EQ(record.bytes, 4);
    EXPECT_EQ(record.sequence, 0);
    EXPECT_EQ(info["ranks"], 2);
    ranks[info["communicator"]].insert(info["rank"].get<int>());
  }
  EXPECT_EQ(ranks.size(), 3U);
  for (const auto& [name, both] : ranks) {
    EXPECT_EQ(both, (std::set<int>{0, 1})) << name;
  }
}

class NcclPreload : public testing::Test {
 protected:
  StrictShardContents shard() const { return only_shard(directory_.path()); }
  ScratchDirectory directory_;
};

TEST_F(NcclPreload, RecordsEveryCallAndChangesNone) {
  const Ended plain = run_program(kLinked, "", {});
  ASSERT_EQ(plain.status, 7 << 8);
  ASSERT_FALSE(plain.output.empty());
  const Ended recorded = run_program(kLinked, directory_.path(), kPreloaded);
  EXPECT_EQ(recorded.status, plain.status);
  EXPECT_EQ(recorded.output, plain.output);
  const StrictShardContents left = shard();
  EXPECT_EQ(left.header["source"], "nccl");
  for (const int rank : {0, 1}) expect_calls_of_rank(left, rank);
  expect_groups(left);
  expect_other_communicators(left);
  // 2 ranks with 9 calls and one in the part, and 2 pairs of ranks; the call to
  // the aborted communicator failed.
  EXPECT_EQ(left.of(RecordKind::kCollective).size(), 2 * 10 + 4U);
  EXPECT_TRUE(left.end["lost"].empty());
}

TEST_F(NcclPreload, FindsAnNcclThatOneModuleLoadedForItself) {
  const Ended plain = run_program(kOpening, "", {});
  ASSERT_EQ(plain.status, 7 << 8);
  const Ended recorded = run_program(kOpening, directory_.path(), kPreloaded);
  EXPECT_EQ(recorded.status, plain.status);
  EXPECT_EQ(recorded.output, plain.output);
  EXPECT_EQ(shard().of(RecordKind::kCollective).size(), 24U);
}

TEST_F(NcclPreload, LeavesTheRecordToThePluginWhereThereIsOne) {
  Environment both = kPreloaded;
  both["NCCL_PROFILER_PLUGIN"] = REPRISE_TEST_PLUGIN;
  const Ended plain = run_program(kLinked, "", {});
  const Ended recorded = run_program(kLinked, directory_.path(), both);
  EXPECT_EQ(recorded.status, plain.status);
  EXPECT_EQ(recorded.output, plain.output);
  const StrictShardContents left = shard();  // Exactly one.
  EXPECT_EQ(left.of(RecordKind::kCollective).size(), 24U);
  EXPECT_EQ(left.of(RecordKind::kDeviceTimer).size(), 48U);
}

TEST_F(NcclPreload, LeavesNothingOfAProgramWithoutNccl) {
  const Ended ended =
      run_program({"/bin/echo", "there"}, directory_.path(), kPreloaded);
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "there\n");
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  // Nor of one with NCCL that is not to be recorded.
  const Ended unasked = run_program(kLinked, "", kPreloaded);
  EXPECT_EQ(unasked.status, 7 << 8);
  EXPECT_EQ(unasked.output, run_program(kLinked, "", {}).output);
}

}  // namespace
}  // namespace reprise

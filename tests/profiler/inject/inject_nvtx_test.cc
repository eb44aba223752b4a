// NVTX ranges of programs under the real injection library, without CUPTI.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/profiler/inject/host_process.h"

namespace reprise {
namespace {

class InjectNvtx : public testing::TestWithParam<const char*> {
 protected:
  int play(const std::string& scenario, const Variables& more = {}) const {
    return host_.run_injected({GetParam(), scenario}, more);
  }
  HostProcesses host_;
};

std::vector<std::string> names(const StrictShardContents& shard,
                               RecordKind kind) {
  std::vector<std::string> all;
  for (const ProcessRecord& record : shard.of(kind)) {
    all.push_back(shard.name(record));
  }
  return all;
}

TEST_P(InjectNvtx, RangesAndMarksOfAllKinds) {
  ASSERT_EQ(play("ranges"), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  std::map<std::string, ProcessRecord> ranges;
  for (const ProcessRecord& record : shard.of(RecordKind::kRange)) {
    EXPECT_TRUE(ranges.emplace(shard.name(record), record).second);
    EXPECT_LE(record.start_ns, record.end_ns);
  }
  ASSERT_EQ(ranges.size(), 6U);
  const ProcessRecord& outer = ranges.at("outer");
  const ProcessRecord& inner = ranges.at("inn\u00e9r \u2192");
  EXPECT_EQ(outer.stream, shard.header.at("process"));  // The main thread.
  EXPECT_EQ(outer.device, -1);
  EXPECT_LE(outer.start_ns, inner.start_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_NE(ranges.at("of a thread").stream, outer.stream);
  // A range belongs to the thread that started it.
  EXPECT_EQ(ranges.at("across threads").stream, outer.stream);
  EXPECT_EQ(ranges.at("across threads").flags, 1);
  // Open across the end of "outer", in its own domain.
  const ProcessRecord& registered = ranges.at("registered");
  EXPECT_LE(registered.start_ns, outer.end_ns);
  EXPECT_LE(outer.end_ns, registered.end_ns);
  EXPECT_EQ(shard.info(registered),
            nlohmann::json({{"domain", "my \"domain\""}}));
  EXPECT_EQ(shard.info(ranges.at("ascii")), shard.info(registered));
  EXPECT_EQ(shard.info(outer), nlohmann::json::object());
  const auto marks = shard.of(RecordKind::kMark);
  ASSERT_EQ(marks.size(), 1U);
  EXPECT_EQ(shard.name(marks[0]), "mark");
  EXPECT_EQ(marks[0].start_ns, marks[0].end_ns);
  EXPECT_EQ(shard.notes.at("thread " + std::to_string(outer.stream)),
            "the main one");
}

TEST_P(InjectNvtx, DeeperRangesThanThereIsRoomForAreCounted) {
  ASSERT_EQ(play("deep"), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_EQ(shard.of(RecordKind::kRange).size(), 64U);
  EXPECT_EQ(shard.lost("nvtx nested too deep"), 6U);
}

TEST_P(InjectNvtx, StepRangesMakeAWindow) {
  ASSERT_EQ(play("steps", {{"REPRISE_PROFILE_STEPS", "2:4"}}), kStatus7);
  EXPECT_EQ(names(host_.only_shard(), RecordKind::kRange),
            (std::vector<std::string>{"work", "ProfilerStep#2", "work",
                                      "ProfilerStep#3"}));
}

TEST_P(InjectNvtx, RangesOfAChosenNameMakeAWindow) {
  // "epoch" has no number: its ranges are counted from 0.
  ASSERT_EQ(play("named", {{"REPRISE_PROFILE_STEPS", "1:3"},
                           {"REPRISE_PROFILE_RANGE", "epoch"}}),
            kStatus7);
  EXPECT_EQ(names(host_.only_shard(), RecordKind::kMark),
            (std::vector<std::string>{"1", "2"}));
}

TEST_P(InjectNvtx, AForkedWorkerHasAShardOfItsOwn) {
  ASSERT_EQ(play("fork"), kStatus7);
  std::map<std::vector<std::string>, bool> ended;
  for (const auto& [file, shard] : host_.shards()) {
    ended[names(shard, RecordKind::kRange)] = !shard.end.is_null();
  }
  EXPECT_EQ(ended, (std::map<std::vector<std::string>, bool>{
                       {{"of the parent"}, true}, {{"of the child"}, true}}));
}

TEST_P(InjectNvtx, AKilledProgramLeavesWhatTheWriterHasAppended) {
  EXPECT_EQ(play("killed"), SIGKILL);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_EQ(shard.of(RecordKind::kRange).size(), 10U);
  EXPECT_TRUE(shard.end.is_null());
}

TEST_P(InjectNvtx, AWindowThatNeverOpenedIsSaid) {
  ASSERT_EQ(play("ranges", {{"REPRISE_PROFILE_STEPS", "2:4"}}), kStatus7);
  const StrictShardContents shard = host_.only_shard();
  EXPECT_TRUE(shard.records.empty());
  EXPECT_EQ(shard.notes.at("window"),
            "steps 2:4: never came, no step mark or range was in them");
}

TEST_P(InjectNvtx, WithoutADirectoryNvtxIsOff) {
  const int status = host_.run({GetParam(), "deep"},
                               {{"NVTX_INJECTION64_PATH", REPRISE_INJECT}});
  // The instance of our own says so; nvtx3's own turns its calls off.
  EXPECT_TRUE(status == kStatus7 || status == 9 << 8) << status;
  EXPECT_TRUE(host_.shards().empty());
}

INSTANTIATE_TEST_SUITE_P(Programs, InjectNvtx, testing::Values(NVTX_PROGRAMS),
                         [](const auto& program) {
                           return program.index == 0 ? "OwnInstance" : "Nvtx3";
                         });

}  // namespace
}  // namespace reprise

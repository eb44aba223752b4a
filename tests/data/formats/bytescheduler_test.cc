#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "data/formats/bytescheduler/bytescheduler_reader.h"
#include "data/import/import.h"
#include "tests/testing/directories.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

// The second tensor overtakes the first; one communication is left open.
constexpr const char* kSchedulerTimeline =
    R"([{"ph": "M", "args": {"name": "w0"}, "pid": 0, "name": "process_name"}, )"
    R"({"ph": "B", "pid": 0, "ts": 1, "name": "INITCOMMUNICATION"}, )"
    R"({"ph": "E", "pid": 0, "ts": 5, "name": "INITCOMMUNICATION"}, )"
    R"({"ph": "M", "args": {"name": "w1"}, "pid": 1, "name": "process_name"}, )"
    R"({"ph": "B", "pid": 0, "ts": 10, "name": "PUSH_PULLQUEUE"}, )"
    R"({"ph": "B", "pid": 1, "ts": 11, "name": "PUSH_PULLQUEUE"}, )"
    R"({"ph": "B", "pid": 0, "ts": 12, "name": "PUSH_PULLCOMMUNICATION"}, )"
    R"({"ph": "E", "pid": 1, "ts": 13, "name": "PUSH_PULLQUEUE"}, )"
    R"({"ph": "B", "pid": 1, "ts": 13, "name": "PUSH_PULLCOMMUNICATION"}, )"
    R"({"ph": "E", "pid": 0, "ts": 14, "name": "PUSH_PULLQUEUE"}, )"
    R"({"ph": "E", "pid": 1, "ts": 20, "name": "PUSH_PULLCOMMUNICATION"}, )";

TEST(ByteScheduler, MatchesOverlappingBeginsAndEndsByName) {
  ReadInput input = read_input(bytescheduler_reader(), kSchedulerTimeline);
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  const Trace trace = input.gather();
  // INIT, two queues (10 to 14 and 11 to 13) and one communication.
  ASSERT_EQ(trace.events.size(), 4U);
  EXPECT_EQ(trace.events[0].kind, EventKind::kOther);
  EXPECT_EQ(trace.events[1].end_ns - trace.events[1].start_ns, 4'000);
  EXPECT_EQ(trace.events[2].end_ns - trace.events[2].start_ns, 2'000);
  const Event& communication = trace.events[3];
  EXPECT_EQ(communication.kind, EventKind::kCollective);
  EXPECT_EQ(communication.start_ns, 13'000);
  EXPECT_EQ(communication.end_ns, 20'000);
  EXPECT_EQ(trace.streams[communication.stream].name, "w1");
  EXPECT_EQ(trace.collectives[static_cast<size_t>(communication.detail)].kind,
            CollectiveKind::kAllReduce);
  EXPECT_EQ(input.report.dropped.at("begin without an end"), 1);
}

TEST(ByteScheduler, ReadsARealTimelineWhole) {
  const std::string path =
      shared_directory() +
      "/traces/bytescheduler/mxnet_vgg16/timeline_worker.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no shared traces";
  ReadInput input =
      read_input(bytescheduler_reader(), bytes_of_member(path, ""));
  ASSERT_TRUE(input.recognized);
  const Trace trace = input.gather();
  // Counted by a few lines of Python: 330 rows of metadata and 986 pairs, of
  // which 326 are PUSH_PULLCOMMUNICATION (10,228,689 us in all) and 165
  // PULLCOMMUNICATION.
  EXPECT_EQ(input.report.ignored.at("metadata row"), 330);
  EXPECT_TRUE(input.report.dropped.empty());
  EXPECT_EQ(trace.events.size(), 986U);
  EXPECT_EQ(input.report.collectives, 326 + 165);
  int64_t push_pull_ns = 0;
  for (const Event& event : trace.events) {
    if (trace.text(event.name) == "PUSH_PULLCOMMUNICATION") {
      push_pull_ns += event.end_ns - event.start_ns;
    }
  }
  EXPECT_EQ(push_pull_ns, 10'228'689'000);
}

}  // namespace
}  // namespace reprise

#include <gtest/gtest.h>

#include "data/formats/byteps/byteps_reader.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

// As docs/timeline.md of BytePS describes it: a tensor of one partition.
constexpr const char* kBytepsTimeline = R"({"traceEvents": [
{"ph": "X", "args": {"name": "Comm.byteps.gradient_0"}, "pid": "Comm.byteps.gradient_0", "name": "Comm.byteps.gradient_0", "ts": 1574685989504865, "dur": 24026, "tid": "total"},
{"ph": "X", "args": {"name": "Comm.byteps.gradient_0"}, "pid": "Comm.byteps.gradient_0", "name": "Comm.byteps.gradient_0.REDUCE", "ts": 1574685989504870, "dur": 20, "tid": "26148864"},
{"ph": "X", "args": {"name": "Comm.byteps.gradient_0"}, "pid": "Comm.byteps.gradient_0", "name": "Comm.byteps.gradient_0.COPYD2H", "ts": 1574685989504890, "dur": 30, "tid": "26148864"},
{"ph": "X", "args": {"name": "Comm.byteps.gradient_0"}, "pid": "Comm.byteps.gradient_0", "name": "Comm.byteps.gradient_0.PUSH", "ts": 1574685989504920, "dur": 40, "tid": "26148864"},
{"ph": "X", "args": {"name": "Comm.byteps.gradient_0"}, "pid": "Comm.byteps.gradient_0", "name": "Comm.byteps.gradient_0.PULL", "ts": 1574685989504960, "dur": "N/A", "tid": "26148864"}],
"displayTimeUnit": "ms"})";

TEST(BytePs, ReadsTensorsAndTheirPartitions) {
  ReadInput input = read_input(byteps_reader(), kBytepsTimeline);
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  const Trace trace = input.gather();
  ASSERT_EQ(trace.events.size(), 4U);
  EXPECT_EQ(trace.ranks[0].clock_domain, "epoch");
  EXPECT_EQ(trace.events[0].kind, EventKind::kAnnotation);
  EXPECT_EQ(trace.events[0].start_ns, 1574685989504865'000);
  EXPECT_EQ(trace.events[0].end_ns, 1574685989528891'000);
  EXPECT_EQ(trace.streams[trace.events[0].stream].name,
            "Comm.byteps.gradient_0");
  const auto op = [&](size_t place) {
    return trace.collectives[static_cast<size_t>(trace.events[place].detail)]
        .kind;
  };
  EXPECT_EQ(op(1), CollectiveKind::kReduce);
  EXPECT_EQ(trace.events[2].kind, EventKind::kCopy);
  EXPECT_EQ(op(3), CollectiveKind::kSend);
  EXPECT_EQ(
      trace.collectives[static_cast<size_t>(trace.events[3].detail)].group_size,
      1);
  EXPECT_EQ(trace.streams[trace.events[3].stream].name,
            "Comm.byteps.gradient_0 partition 26148864");
  EXPECT_EQ(input.report.dropped.at("no usable duration"), 1);
}

}  // namespace
}  // namespace reprise

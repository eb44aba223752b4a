#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/formats/horovod/horovod_reader.h"
#include "data/formats/kineto/kineto_reader.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

// Two ranks reduce 64 x 3 floats over NCCL, and then a tensor whose timeline
// has nothing finer than ALLREDUCE. Several events a line; never closed.
constexpr const char* kHorovodTimeline = R"([
{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros":1700000000000000}},
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad/w1"}},
{"name": "process_sort_index", "ph": "M", "pid": 1, "args": {"sort_index": 1}},
{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 100, "pid": 1},{"ph": "X", "name": "1", "ts": 100, "pid": 1, "dur": 0},{"ph": "X", "name": "0", "ts": 150, "pid": 1, "dur": 0},
{"ph": "E", "ts": 160, "pid": 1},
{"ph": "i", "name": "CYCLE_START", "ts": 165, "s": "g"},
{"ph": "B", "name": "ALLREDUCE", "ts": 170, "pid": 1},
{"ph": "B", "name": "QUEUE", "ts": 171, "pid": 1},
{"ph": "E", "ts": 175, "pid": 1},
{"ph": "B", "name": "MEMCPY_IN_FUSION_BUFFER", "ts": 175, "pid": 1},
{"ph": "E", "ts": 180, "pid": 1},
{"ph": "B", "name": "NCCL_ALLREDUCE", "ts": 180, "pid": 1},
{"ph": "E", "ts": 250, "pid": 1},
{"ph": "E", "ts": 260, "pid": 1, "args": {"dtype": "float32", "shape": "[64, 3]"}},
{"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "grad/w2"}},
{"ph": "B", "name": "ALLREDUCE", "ts": 300, "pid": 2},
{"ph": "E", "ts": 310, "pid": 2, "args": {"dtype": "float16", "shape": "[]"}},
{"ph": "B", "name": "ALLREDUCE", "ts": 400, "pid": 2},
)";

TEST(Horovod, ReadsAnUnclosedTimeline) {
  ReadInput input = read_input(horovod_reader(), kHorovodTimeline);
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status) << input.status.error().message;
  const Trace trace = input.gather();
  // NEGOTIATE, CYCLE_START, ALLREDUCE, QUEUE, MEMCPY_IN, NCCL_ALLREDUCE of the
  // first tensor and one ALLREDUCE of the second; its other one never ended.
  ASSERT_EQ(trace.events.size(), 7U);
  EXPECT_EQ(input.report.collectives, 2);
  EXPECT_EQ(input.report.dropped.at("begin without an end"), 1);
  EXPECT_EQ(input.report.repaired.count("array not closed"), 1U);
  ASSERT_EQ(trace.ranks.size(), 1U);
  EXPECT_EQ(trace.ranks[0].rank, 0U);
  EXPECT_EQ(trace.ranks[0].clock_domain, "epoch");
  EXPECT_EQ(trace.environment.at("world_size"), "2");
}

TEST(Horovod, KnowsTheCollectiveOfATensor) {
  ReadInput input = read_input(horovod_reader(), kHorovodTimeline);
  const Trace trace = input.gather();
  const Event* const transfer = find_event(trace, "NCCL_ALLREDUCE");
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(transfer->kind, EventKind::kCollective);
  EXPECT_EQ(transfer->start_ns, 1700000000000180'000);
  EXPECT_EQ(transfer->end_ns, 1700000000000250'000);
  EXPECT_EQ(transfer->bytes, 64 * 3 * 4);
  EXPECT_EQ(trace.streams[transfer->stream].name, "grad/w1");
  EXPECT_EQ(trace.streams[transfer->stream].kind, StreamKind::kTensor);
  const CollectiveInfo& info =
      trace.collectives[static_cast<size_t>(transfer->detail)];
  EXPECT_EQ(info.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(info.type, PrimitiveType::kF32);
  EXPECT_EQ(info.group, (std::vector<uint32_t>{0, 1}));
  // Around something finer, the whole is but a range; alone, it is it.
  EXPECT_EQ(find_event(trace, "ALLREDUCE", 0)->kind, EventKind::kAnnotation);
  const Event* const alone = find_event(trace, "ALLREDUCE", 1);
  EXPECT_EQ(alone->kind, EventKind::kCollective);
  EXPECT_EQ(alone->bytes, 2);
  EXPECT_EQ(find_event(trace, "MEMCPY_IN_FUSION_BUFFER")->kind,
            EventKind::kCopy);
}

TEST(Horovod, TensorsThatWereFusedAreOneTransfer) {
  // Two tensors of 100 and 20 floats; what follows them is another transfer.
  const auto row = [](int pid, int begin, int end, int floats) {
    return fmt::format(
        R"({{"ph": "B", "name": "ALLREDUCE", "ts": {1}, "pid": {0}}},
{{"ph": "B", "name": "NCCL_ALLREDUCE", "ts": {1}, "pid": {0}}},
{{"ph": "E", "ts": {2}, "pid": {0}}},
{{"ph": "E", "ts": {2}, "pid": {0}, "args": {{"dtype": "float32", "shape": "[{3}]"}}}},
)",
        pid, begin, end, floats);
  };
  ReadInput input = read_input(
      horovod_reader(),
      R"([{"name": "process_name", "ph": "M", "pid": 0, "args": )"
      R"({"start_time_since_epoch_in_micros":1700000000000000}},)"
      "\n" +
          row(1, 100, 300, 100) + row(2, 105, 302, 20) + row(3, 302, 350, 7));
  ASSERT_TRUE(input.recognized);
  EXPECT_EQ(input.report.collectives, 2);
  const Trace trace = input.gather();
  std::vector<Event> transfers;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kCollective) transfers.push_back(event);
  }
  ASSERT_EQ(transfers.size(), 2u);
  EXPECT_EQ(transfers[0].bytes, 480);
  EXPECT_EQ(transfers[0].end_ns - transfers[0].start_ns, 202'000);
  EXPECT_EQ(transfers[1].bytes, 28);
  EXPECT_EQ(find_event(trace, "NCCL_ALLREDUCE", 1)->kind,
            EventKind::kAnnotation);
}

TEST(Horovod, KeepsWhenEachRankWasReady) {
  ReadInput input = read_input(horovod_reader(), kHorovodTimeline);
  const Trace trace = input.gather();
  const Event* const negotiation = find_event(trace, "NEGOTIATE_ALLREDUCE");
  ASSERT_NE(negotiation, nullptr);
  ASSERT_GE(negotiation->attributes, 0);
  EXPECT_EQ(trace.strings[static_cast<size_t>(negotiation->attributes)],
            R"({"ready_ns":{"0":50000,"1":0}})");
}

TEST(Horovod, ReadsTimesOfAMonotonicClockAndClosedArrays) {
  // 2018: no base, absolute steady time; here closed.
  ReadInput input = read_input(horovod_reader(), R"([
{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "w"}},
{"ph": "B", "name": "NEGOTIATE_ALLGATHER", "ts": 900000000001, "pid": 0},
{"ph": "E", "ts": 900000000002, "pid": 0},
{"ph": "B", "name": "ALLGATHER", "ts": 900000000002, "pid": 0},
{"ph": "B", "name": "MPI_ALLGATHER", "ts": 900000000003, "pid": 0},
{"ph": "E", "ts": 900000000009, "pid": 0},
{"ph": "E", "ts": 900000000010, "pid": 0}
])");
  ASSERT_TRUE(input.recognized);
  const Trace trace = input.gather();
  const Event* const gather = find_event(trace, "MPI_ALLGATHER");
  ASSERT_NE(gather, nullptr);
  EXPECT_EQ(gather->start_ns, 900000000003'000);
  EXPECT_EQ(trace.collectives[static_cast<size_t>(gather->detail)].kind,
            CollectiveKind::kAllGather);
  EXPECT_TRUE(input.report.dropped.empty());
  EXPECT_TRUE(input.report.repaired.empty());
  EXPECT_EQ(trace.ranks[0].clock_domain, "");
}

TEST(Horovod, CountsWhatDoesNotNest) {
  ReadInput input = read_input(horovod_reader(), R"([
{"ph": "E", "ts": 1, "pid": 0},
{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": "inf", "pid": 0},
{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 9, "pid": 0},
{"ph": "E", "ts": 8, "pid": 0}])");
  EXPECT_EQ(input.report.dropped.at("end without a begin"), 1);
  EXPECT_EQ(input.report.dropped.at("no usable time"), 1);
  EXPECT_EQ(input.report.dropped.at("end before start"), 1);
  EXPECT_FALSE(input.report.refused.empty());
}

TEST(Horovod, LeavesOtherTimelinesToTheirReaders) {
  const std::string kineto =
      R"({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op",)"
      R"("name": "horovod", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]})";
  EXPECT_FALSE(read_input(horovod_reader(), kineto).recognized);
  EXPECT_FALSE(read_input(kineto_reader(), kHorovodTimeline).recognized);
}

}  // namespace
}  // namespace reprise

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "data/formats/pytorch_et/pytorch_et_reader.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

/// A call of PyTorch's schema 1.1.1 by the member at `place` of a group that
/// counts `size` ranks from `start` on, each `stride` from the last.
std::string call(int id, const std::string& group, int place, int start,
                 int stride, int size, const std::string& name = "allreduce") {
  return fmt::format(
      R"({{"id": {}, "name": "record_param_comms", "ctrl_deps": 1, "inputs": )"
      R"({{"values": [[[3, 4, 0, 1024, 2, "cuda:0"]], 0, ["{}", "TP"], {}, )"
      R"("{}", [], [], {}, {}, {}], "shapes": [], "types": []}}, "attrs": []}})",
      id, group, place, name, start, stride, size);
}

uint32_t rank_of(const std::string& nodes) {
  ReadInput read =
      read_input(pytorch_et_reader(),
                 R"({"schema": "1.1.1-chakra.0.0.4", "pid": 11, "nodes": [)" +
                     nodes + "]}");
  EXPECT_TRUE(read.recognized);
  EXPECT_EQ(read.spool.rank_count(), 1U);
  return read.spool.rank(0).rank;
}

// Tensor and data parallelism of two each: Megatron calls nobody else.
TEST(PytorchEt, TheRankIsTheMemberThatAllItsGroupsHaveThere) {
  EXPECT_EQ(rank_of(call(2, "1", 1, 2, 1, 2) + "," + call(3, "3", 1, 1, 2, 2)),
            3U);
}

// What is sent names the peer's place, not the own one.
TEST(PytorchEt, AMessageTellsNoRank) {
  EXPECT_EQ(rank_of(call(2, "1", 1, 0, 1, 4, "send")), kUnknownRank);
}

TEST(PytorchEt, TheRankStaysOpenWhereGroupsDisagree) {
  EXPECT_EQ(rank_of(call(2, "1", 1, 2, 1, 2) + "," + call(3, "3", 0, 1, 2, 2)),
            kUnknownRank);
}

// chakra_trace_link's nodes: what Kineto did not have is without a time.
TEST(PytorchEt, UntimedNodesAmongTimedOnesLastAsLongAsWhatLiesInThem) {
  const auto node = [](int id, const char* name, int parent,
                       const char* more = "") {
    return fmt::format(
        R"(, {{"id": {}, "name": "{}", "ctrl_deps": {}, "attrs": [)"
        R"({{"name": "tid", "type": "uint64", "value": 1}}]{}}})",
        id, name, parent, more);
  };
  ReadInput read = read_input(
      pytorch_et_reader(),
      R"({"schema": "1.1.1-chakra.0.0.4", "pid": 11, "nodes": [)"
      R"({"id": 1, "name": "[pytorch|profiler|execution_trace|process]",)"
      R"( "ctrl_deps": 1, "attrs": []})" +
          node(2, "[pytorch|profiler|execution_trace|thread]", 1) +
          node(3, "ProfilerStep#4", 2) + node(4, "outer", 3) +
          node(5, "first", 4, R"(, "ts": 5000000000.0, "inclusive_dur": 30)") +
          node(6, "kernel", 5,
               R"(, "ts": 5000000040.0, "inclusive_dur": 70,)"
               R"( "cat": "kernel", "stream": 7)") +
          node(7, "last", 3, R"(, "ts": 5000000030.0, "inclusive_dur": 20)") +
          node(8, "unmatched", 3) + "]}");
  EXPECT_EQ(read.report.events, 5);
  EXPECT_EQ(read.report.ignored.at("node without a time"), 3);
  const Trace trace = read.gather();
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].step, 4);
  EXPECT_EQ(trace.steps[0].start_ns, 5'000'000'000'000);
  EXPECT_EQ(trace.steps[0].end_ns, 5'000'000'050'000);
  for (const Event& event : trace.events) {
    EXPECT_GE(event.start_ns, 5'000'000'000'000) << trace.text(event.name);
  }
  EXPECT_EQ(find_event(trace, "outer")->end_ns, 5'000'000'030'000);
}

}  // namespace
}  // namespace reprise

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

}  // namespace
}  // namespace reprise

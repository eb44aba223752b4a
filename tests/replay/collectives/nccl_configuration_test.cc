#include "replay/collectives/nccl_configuration.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace reprise {
namespace {

TEST(NcclConfiguration, KernelsNamesSayIt) {
  const auto of = [](std::string_view name) {
    return nccl_configuration_of(name).text();
  };
  EXPECT_EQ(of("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)"), "ring/ll");
  EXPECT_EQ(of("ncclKernel_AllReduce_TREE_LL128_Sum_float"), "tree/ll128");
  EXPECT_EQ(of("ncclDevKernel_AllReduce_Sum_bf16_NVLS_TREE_SIMPLE"),
            "nvls_tree/simple");
  EXPECT_FALSE(nccl_configuration_of("ncclDevKernel_SendRecv").known());
  EXPECT_FALSE(nccl_configuration_of("gemm_RING_LL").known());
}

TEST(NcclConfiguration, TextIsReadInBothSpellings) {
  const auto read = parse_nccl_configuration("NVLSTree/Simple/16");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->algorithm, "nvls_tree");
  EXPECT_EQ(read->text(), "nvls_tree/simple on 16 channels");
  EXPECT_EQ(parse_nccl_configuration("collnet_direct/ll128")->channels, -1);
  for (const char* wrong : {"ring", "ring/", "ring/ll/", "ring/ll/0",
                            "ring/ll/65", "ring/ll/x", "", "/", "bus/ll"}) {
    EXPECT_FALSE(parse_nccl_configuration(wrong)) << wrong;
  }
}

TEST(NcclConfiguration, TheProfilerPluginsWordsFillWhatNamesLeaveOpen) {
  Trace trace;
  trace.strings = {"AllReduce",
                   R"({"algorithm":"RING","protocol":"LL128","channels":"24"})",
                   R"({"algorithm":7})", "damaged {"};
  trace.ranks.emplace_back();
  trace.streams.emplace_back();
  for (const int32_t attributes : {1, 2, 3, -1}) {
    Event event;
    event.kind = EventKind::kCollective;
    event.start_ns = event.end_ns =
        10 * static_cast<int64_t>(trace.events.size());
    event.attributes = attributes;
    trace.events.push_back(event);
  }
  CollectiveMatching matching;
  for (const uint32_t event : {2U, 0U, 1U, 3U}) {
    MatchedCollective one;
    one.members = {{.rank = 0, .event = event}};
    matching.collectives.push_back(one);
  }
  const auto found = nccl_configurations(TraceByRank::borrow(trace), matching);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[1].text(), "ring/ll128 on 24 channels");
  for (const size_t other : {0U, 2U, 3U}) EXPECT_FALSE(found[other].known());
}

}  // namespace
}  // namespace reprise

#include "data/collective/collective.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

namespace reprise {
namespace {

using K = CollectiveKind;

TEST(Collective, NamesAreReadBackAndSortAsKindsDo) {
  for (int k = 0; k < static_cast<int>(K::kOther); ++k) {
    const auto kind = static_cast<K>(k);
    EXPECT_EQ(collective_from_name(name_of(kind)), kind);
    if (k > 0) {
      EXPECT_LT(name_of(static_cast<K>(k - 1)), name_of(kind));
    }
  }
  EXPECT_EQ(collective_from_name("other"), std::nullopt);
  EXPECT_EQ(collective_from_name("AllReduce"), std::nullopt);
}

TEST(Collective, HloOpcodesAndNamesOfInstructionsTellTheKind) {
  const std::pair<std::string_view, std::optional<K>> kNames[] = {
      {"all-reduce", K::kAllReduce},
      {"all-reduce-start.1", K::kAllReduce},
      {"all-gather", K::kAllGather},
      {"reduce-scatter", K::kReduceScatter},
      {"ragged-all-to-all", K::kAllToAll},
      {"collective-broadcast", K::kBroadcast},
      {"collective-permute-start", K::kPermute},
      {"broadcast", std::nullopt},  // HLO's is no communication.
      {"gather", std::nullopt},
      {"reduce", std::nullopt},
      {"send", std::nullopt},
      {"dot", std::nullopt}};
  for (const auto& [name, kind] : kNames) {
    EXPECT_EQ(collective_of_hlo(name), kind) << name;
  }
}

// nccl-tests, doc/PERFORMANCE.md: all-reduce 2(n-1)/n, all-gather,
// reduce-scatter and all-to-all (n-1)/n, broadcast and reduce 1; n = 4.
TEST(Collective, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(K::kAllReduce, 4), 1.5);
  for (const K kind : {K::kAllGather, K::kReduceScatter, K::kAllToAll}) {
    EXPECT_DOUBLE_EQ(bus_factor(kind, 4), 0.75);
  }
  for (const K kind : {K::kBroadcast, K::kReduce, K::kSend, K::kReceive}) {
    EXPECT_DOUBLE_EQ(bus_factor(kind, 4), 1);
  }
  for (const K kind : {K::kUnknown, K::kBarrier, K::kOther}) {
    EXPECT_DOUBLE_EQ(bus_factor(kind, 4), 0);
  }
  EXPECT_DOUBLE_EQ(bus_factor(K::kAllReduce, 1), 0);
}

// NCCL counts sendcount of all-gather and recvcount of reduce-scatter: with 8
// ranks the larger buffer is 8 of them.
TEST(Collective, SizesAreOfTheLargerBuffer) {
  EXPECT_EQ(whole_buffer_bytes(K::kAllReduce, 100, 8), 100);
  EXPECT_EQ(whole_buffer_bytes(K::kAllGather, 100, 8), 800);
  EXPECT_EQ(whole_buffer_bytes(K::kReduceScatter, 100, 8), 800);
  EXPECT_EQ(whole_buffer_bytes(K::kAllGather, 100, -1), 100);
  EXPECT_EQ(whole_buffer_bytes(K::kAllGather, INT64_MAX / 2, 8), 0);
}

}  // namespace
}  // namespace reprise

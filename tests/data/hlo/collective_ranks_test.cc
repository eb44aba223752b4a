// Groups and pairs of HLO as ranks, by XLA's rules. The table of what numbers
// mean stands in xla/service/collective_ops_utils.h.
#include "data/hlo/collective_ranks.h"

#include <gtest/gtest.h>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

using Groups = std::vector<std::vector<int64_t>>;
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

Result<CollectiveRanks> resolved(const std::string& header,
                                 const std::string& call, int64_t ranks) {
  const Result<Module> module =
      parse_hlo("HloModule m" + header +
                "\nadd { p = f32[] parameter(0)  q = f32[] parameter(1)  "
                "ROOT s = f32[] add(p, q) }\n"
                "ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT c = f32[4] " +
                call + "\n}\n");
  if (!module) return pass(module.error());
  const Computation& entry = module->entry_computation();
  return collective_ranks(*module, entry.at(entry.root), ranks);
}

Groups groups_of(const std::string& header, const std::string& call,
                 int64_t ranks = 4) {
  const auto ranks_of = resolved(header, call, ranks);
  EXPECT_TRUE(ranks_of) << ranks_of.error().message;
  return ranks_of ? ranks_of->groups : Groups{};
}

constexpr const char* kSquare = ", replica_count=2, num_partitions=2";
const std::string kSum = "all-reduce(x), to_apply=add, replica_groups=";

TEST(CollectiveRanks, AreTheTextsNumbersWhereTheHeaderCountsNoDevices) {
  EXPECT_EQ(groups_of("", kSum + "{}"), (Groups{{0, 1, 2, 3}}));
  EXPECT_EQ(groups_of("", kSum + "{{2,0},{1,3}}, channel_id=1"),
            (Groups{{2, 0}, {1, 3}}));
  EXPECT_EQ(groups_of("", kSum + "[2,2]<=[2,2]T(1,0)"),
            (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups_of("", kSum + "mesh['a'=2,'b'=2] {'a'}"),
            (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups_of("", kSum + "mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) "
                                 "{'a'}, channel_id=1"),
            (Groups{{0, 1}, {2, 3}}));
}

TEST(CollectiveRanks, OfReplicasHaveAGroupInEachPartition) {
  EXPECT_EQ(groups_of(kSquare, kSum + "{}"), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups_of(", num_partitions=4", kSum + "{{0}}"),
            (Groups{{0}, {1}, {2}, {3}}));
}

TEST(CollectiveRanks, OfReplicasWithAChannelHaveAllTheirPartitions) {
  EXPECT_EQ(groups_of(kSquare, kSum + "{{0},{1}}, channel_id=1"),
            (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(groups_of(kSquare, kSum + "{{1,0}}, channel_id=1"),
            (Groups{{2, 3, 0, 1}}));
}

TEST(CollectiveRanks, OfDevicesAreRanks) {
  EXPECT_EQ(groups_of(kSquare, kSum + "{{0,3},{1,2}}, channel_id=1, "
                                      "use_global_device_ids=true"),
            (Groups{{0, 3}, {1, 2}}));
}

TEST(CollectiveRanks, OfPartitionsHaveAGroupInEachReplica) {
  EXPECT_EQ(groups_of(kSquare,
                      "all-to-all(x), dimensions={0}, channel_id=2, "
                      "replica_groups={{1,0}}"),
            (Groups{{1, 0}, {3, 2}}));
  const auto permuted = resolved(
      kSquare,
      "collective-permute(x), channel_id=2, source_target_pairs={{0,1}}", 4);
  ASSERT_TRUE(permuted) << permuted.error().message;
  EXPECT_EQ(permuted->pairs, (Pairs{{0, 1}, {2, 3}}));
  EXPECT_EQ(permuted->groups, (Groups{{0, 1}, {2, 3}}));
}

TEST(CollectiveRanks, AreThoseOfWhatIsStarted) {
  const auto permuted = resolved(kSquare,
                                 "collective-permute-start(x), channel_id=2, "
                                 "source_target_pairs={{0,1}}",
                                 4);
  ASSERT_TRUE(permuted) << permuted.error().message;
  EXPECT_EQ(permuted->groups, (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(groups_of(kSquare,
                      "all-reduce-start(x), to_apply=add, channel_id=1, "
                      "replica_groups={{0},{1}}"),
            (Groups{{0, 1}, {2, 3}}));
}

// 0 and 3 exchange, 1 sends to 2; 4 sends to itself; 5 takes no part.
TEST(CollectiveRanks, OfAPermuteAreThoseThatMessagesConnect) {
  const auto permuted =
      resolved("",
               "collective-permute(x), "
               "source_target_pairs={{3,0},{1,2},{0,3},{4,4}}",
               6);
  ASSERT_TRUE(permuted) << permuted.error().message;
  EXPECT_EQ(permuted->pairs, (Pairs{{0, 3}, {1, 2}, {3, 0}, {4, 4}}));
  EXPECT_EQ(permuted->groups, (Groups{{0, 3}, {1, 2}, {4}}));
}

TEST(CollectiveRanks, RefuseOtherRanksAndPairsThatMeet) {
  EXPECT_EQ(resolved("", kSum + "{{0,4}}", 4).error().kind,
            ErrorKind::kInvalid);
  for (const char* pairs :
       {"{{0,1},{0,2}}", "{{0,1},{2,1}}", "{{0,4}}", "{{0,1,2}}", "{{0}}"}) {
    const auto permuted = resolved(
        "", fmt::format("collective-permute(x), source_target_pairs={}", pairs),
        4);
    ASSERT_FALSE(permuted) << pairs;
    EXPECT_EQ(permuted.error().kind, ErrorKind::kInvalid) << pairs;
  }
}

}  // namespace
}  // namespace reprise

// Which ranks an HLO collective joins, whatever its text numbers: replicas,
// partitions, or devices.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

struct CollectiveRanks {
  /// In the order of their parts; of a collective-permute those that messages
  /// connect, ascending.
  std::vector<std::vector<int64_t>> groups;
  /// Of a collective-permute: who sends to whom, by source.
  std::vector<std::pair<int64_t, int64_t>> pairs;
};

/// Resolves replica groups or source-target pairs. Rank r is partition r mod P
/// of replica r / P, P the header's partitions; a header that does not count
/// `ranks` devices says nothing, and the text's numbers are ranks.
/// Errors: kInvalid for groups or pairs that are malformed, or not of `ranks`.
/// Source: XLA's GetCollectiveOpGroupMode (xla/service/collective_ops_utils.h).
Result<CollectiveRanks> collective_ranks(const Module& module,
                                         const Instruction& collective,
                                         int64_t ranks);

/// One of how many.
struct RankOfAll {
  int64_t rank = 0, ranks = 1;
};
/// What partition-id or replica-id gives on a rank: with a header that does not
/// count the ranks, its number.
int64_t device_number(const Module& module, Opcode opcode,
                      const RankOfAll& place);

/// Ranks of the first group as the text says it, for shapes; nothing where it
/// means all ranks and the header does not count them.
std::optional<int64_t> stated_group_size(const Module& module,
                                         const Instruction& collective);

}  // namespace reprise

#include "data/hlo/collective_ranks.h"

#include <algorithm>
#include <numeric>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// What the numbers of groups and pairs are.
enum class Numbering : uint8_t {
  kDevices,
  kReplicas,         ///< A group for each partition.
  kPartitions,       ///< A group for each replica.
  kReplicasWithAll,  ///< Of all their partitions.
};

struct Devices {
  int64_t replicas = 1, partitions = 1;
};

/// The header's; where it counts others than `ranks`, as many replicas.
Devices devices_of(const Module& module, int64_t ranks) {
  const Devices devices{header_count(module, "replica_count"),
                        header_count(module, "num_partitions")};
  if (devices.replicas * devices.partitions == ranks) return devices;
  return {ranks, 1};
}

bool is_flag_set(const Instruction& instruction, std::string_view name) {
  const Attribute* found = instruction.find_attribute(name);
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  return raw != nullptr && raw->text == "true";
}

Numbering numbering_of(const Instruction& collective, const Devices& devices) {
  if (devices.partitions == 1) return Numbering::kDevices;
  if (is_flag_set(collective, "use_global_device_ids"))
    return Numbering::kDevices;
  const std::vector<int64_t> channel = integer_list(collective, "channel_id");
  if (channel.empty() || channel[0] < 1) return Numbering::kReplicas;
  switch (collective.opcode) {
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kReduceScatter:
      return Numbering::kReplicasWithAll;
    default:
      return Numbering::kPartitions;
  }
}

int64_t numbered(Numbering numbering, const Devices& devices) {
  switch (numbering) {
    case Numbering::kDevices:
      break;
    case Numbering::kReplicas:
    case Numbering::kReplicasWithAll:
      return devices.replicas;
    case Numbering::kPartitions:
      return devices.partitions;
  }
  return devices.replicas * devices.partitions;
}

/// Calls `visit` with each way to make ranks of numbers, once a copy.
template <typename Visit>
void each_copy(Numbering numbering, const Devices& devices,
               const Visit& visit) {
  if (numbering == Numbering::kReplicas) {
    for (int64_t p = 0; p < devices.partitions; ++p) {
      visit([&](int64_t id) { return id * devices.partitions + p; });
    }
  } else if (numbering == Numbering::kPartitions) {
    for (int64_t r = 0; r < devices.replicas; ++r) {
      visit([&](int64_t id) { return r * devices.partitions + id; });
    }
  } else {
    visit([](int64_t id) { return id; });
  }
}

std::vector<int64_t> with_all_partitions(const std::vector<int64_t>& replicas,
                                         int64_t partitions) {
  std::vector<int64_t> ranks;
  for (const int64_t replica : replicas) {
    for (int64_t p = 0; p < partitions; ++p)
      ranks.push_back(replica * partitions + p);
  }
  return ranks;
}

/// What pairs connect, by least rank.
std::vector<std::vector<int64_t>> connected(
    const std::vector<std::pair<int64_t, int64_t>>& pairs, int64_t ranks) {
  std::vector<int64_t> parent(static_cast<size_t>(ranks));
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int64_t rank) {
    while (parent[static_cast<size_t>(rank)] != rank)
      rank = parent[static_cast<size_t>(rank)];
    return rank;
  };
  std::vector<bool> named(static_cast<size_t>(ranks), false);
  for (const auto& [source, target] : pairs) {
    const int64_t a = root(source), b = root(target);
    parent[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
    named[static_cast<size_t>(source)] = named[static_cast<size_t>(target)] =
        true;
  }
  std::vector<std::vector<int64_t>> groups;
  std::vector<size_t> place(static_cast<size_t>(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (!named[static_cast<size_t>(rank)]) continue;
    const int64_t least = root(rank);
    if (least == rank) {
      place[static_cast<size_t>(rank)] = groups.size();
      groups.emplace_back();
    }
    groups[place[static_cast<size_t>(least)]].push_back(rank);
  }
  return groups;
}

Status check_number(const Instruction& collective, int64_t rank,
                    int64_t ranks) {
  if (rank >= 0 && rank < ranks) return {};
  return fail(ErrorKind::kInvalid,
              "{}: its replica groups name rank {}, but the plan is "
              "for {} ranks",
              collective.name, rank, ranks);
}

Result<CollectiveRanks> permuted(const Instruction& collective,
                                 Numbering numbering, const Devices& devices) {
  const Result<std::vector<std::vector<int64_t>>> listed =
      source_target_pairs(collective);
  if (!listed) return pass(listed.error());
  const int64_t ranks = devices.replicas * devices.partitions;
  CollectiveRanks result;
  Status valid;
  each_copy(numbering, devices, [&](const auto& rank_of) {
    for (const std::vector<int64_t>& pair : *listed) {
      result.pairs.emplace_back(rank_of(pair[0]), rank_of(pair[1]));
      for (const int64_t number : pair) {
        if (valid)
          valid =
              check_number(collective, number, numbered(numbering, devices));
      }
    }
  });
  if (!valid) return pass(valid.error());
  std::sort(result.pairs.begin(), result.pairs.end());
  std::vector<int> sent(static_cast<size_t>(ranks)), received = sent;
  for (const auto& [source, target] : result.pairs) {
    if (sent[static_cast<size_t>(source)]++ == 0 &&
        received[static_cast<size_t>(target)]++ == 0)
      continue;
    return fail(ErrorKind::kInvalid,
                "{}: its pairs name rank {} or {} twice as source or target",
                collective.name, source, target);
  }
  result.groups = connected(result.pairs, ranks);
  return result;
}

}  // namespace

Result<CollectiveRanks> collective_ranks(const Module& module,
                                         const Instruction& collective,
                                         int64_t ranks) {
  const Devices devices = devices_of(module, ranks);
  const Numbering numbering = numbering_of(collective, devices);
  if (collective.opcode == Opcode::kCollectivePermute ||
      collective.opcode == Opcode::kCollectivePermuteStart)
    return permuted(collective, numbering, devices);
  const int64_t numbers = numbered(numbering, devices);
  const Result<std::vector<std::vector<int64_t>>> listed =
      replica_groups(collective, numbers);
  if (!listed) return pass(listed.error());
  for (const std::vector<int64_t>& group : *listed) {
    for (const int64_t number : group) {
      const Status valid = check_number(collective, number, numbers);
      if (!valid) return pass(valid.error());
    }
  }
  CollectiveRanks result;
  each_copy(numbering, devices, [&](const auto& rank_of) {
    for (const std::vector<int64_t>& group : *listed) {
      std::vector<int64_t> joined = group;
      for (int64_t& number : joined) number = rank_of(number);
      if (numbering == Numbering::kReplicasWithAll)
        joined = with_all_partitions(joined, devices.partitions);
      result.groups.push_back(std::move(joined));
    }
  });
  return result;
}

int64_t device_number(const Module& module, Opcode opcode,
                      const RankOfAll& place) {
  const int64_t replicas = header_count(module, "replica_count");
  const int64_t partitions = header_count(module, "num_partitions");
  if (replicas * partitions != place.ranks) return place.rank;
  return opcode == Opcode::kPartitionId ? place.rank % partitions
                                        : place.rank / partitions;
}

std::optional<int64_t> stated_group_size(const Module& module,
                                         const Instruction& collective) {
  const Devices devices{header_count(module, "replica_count"),
                        header_count(module, "num_partitions")};
  const Numbering numbering = numbering_of(collective, devices);
  const auto groups = replica_groups(collective, numbered(numbering, devices));
  if (!groups || groups->empty()) return std::nullopt;
  const Attribute* stated = collective.find_attribute("replica_groups");
  const auto* raw =
      stated == nullptr ? nullptr : std::get_if<RawText>(&stated->value);
  const bool says_all = raw == nullptr || raw->text == "{}";
  if (says_all && devices.replicas * devices.partitions == 1)
    return std::nullopt;
  const auto members = static_cast<int64_t>(groups->front().size());
  return numbering == Numbering::kReplicasWithAll ? members * devices.partitions
                                                  : members;
}

}  // namespace reprise

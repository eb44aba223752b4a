#include "replay/estimates/collective_estimates.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "data/median.h"

namespace reprise {
namespace {

const RankInfo* rank_info(const Trace& frame, uint32_t rank) {
  for (const RankInfo& info : frame.ranks) {
    if (info.rank == rank) return &info;
  }
  return nullptr;
}

bool on_one_host(const MatchedCollective& collective, const Trace& frame) {
  const RankInfo* first = rank_info(frame, collective.members.front().rank);
  if (first == nullptr || first->host.empty()) return false;
  return std::all_of(collective.members.begin(), collective.members.end(),
                     [&](const CollectiveMember& member) {
                       const RankInfo* info = rank_info(frame, member.rank);
                       return info != nullptr && info->host == first->host;
                     });
}

bool has_cost(const MatchedCollective& collective) {
  const CollectiveFacts& facts = facts_of(collective.kind);
  return facts.wire != WireShare::kNone && !is_message(collective.kind) &&
         collective.bytes > 0;
}

struct Calls {
  std::vector<int64_t> transfers, stays;
  int64_t incomplete = 0;
};

}  // namespace

int64_t transfer_ns(const MatchedCollective& collective, const Trace& frame) {
  int64_t shortest = INT64_MAX;
  for (const CollectiveMember& member : collective.members) {
    shortest = std::min(shortest, member.end_ns - member.start_ns);
  }
  if (!on_one_host(collective, frame)) return shortest;
  const int64_t seen = times_of(collective, frame).transfer_ns;
  return seen > 0 ? seen : shortest;
}

std::vector<CollectiveEstimate> estimate_collectives(
    const AlignedTrace& trace) {
  using Key = std::tuple<CollectiveKind, std::vector<uint32_t>,
                         std::optional<PrimitiveType>, int64_t>;
  std::map<Key, Calls> of_key;
  for (const MatchedCollective& each : trace.matching().collectives) {
    if (!has_cost(each)) continue;
    Calls& calls = of_key[{each.kind, each.group, each.type, each.bytes}];
    calls.transfers.push_back(transfer_ns(each, trace.frame()));
    for (const CollectiveMember& member : each.members) {
      calls.stays.push_back(member.end_ns - member.start_ns);
    }
    calls.incomplete +=
        !each.missing.empty() ||
        static_cast<int64_t>(each.members.size()) < each.group_size;
  }
  std::vector<CollectiveEstimate> estimates;
  for (auto& [key, calls] : of_key) {
    const auto count = static_cast<int64_t>(calls.transfers.size());
    estimates.push_back({.kind = std::get<0>(key),
                         .group = std::get<1>(key),
                         .type = std::get<2>(key),
                         .bytes = std::get<3>(key),
                         .transfer_ns = median(std::move(calls.transfers)),
                         .recorded_ns = median(std::move(calls.stays)),
                         .calls = count,
                         .incomplete = calls.incomplete});
  }
  return estimates;
}

}  // namespace reprise

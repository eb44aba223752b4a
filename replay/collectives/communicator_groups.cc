#include "replay/collectives/communicator_groups.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "data/collective/collective.h"

namespace reprise {
namespace {

/// From and to, the other side counted in the communicator.
using Message = std::pair<uint32_t, int64_t>;

/// What is known of a communicator.
struct Callers {
  std::set<uint32_t> ranks;
  std::set<int64_t> sizes;
  std::set<Message> sent, awaited;
  bool group_known = false;
};

int64_t place_of(uint32_t rank, const std::set<uint32_t>& ranks) {
  return std::distance(ranks.begin(), ranks.find(rank));
}

/// Whether the other side of each of `messages` has its counterpart in
/// `others`.
bool answered(const std::set<Message>& messages,
              const std::set<Message>& others,
              const std::set<uint32_t>& ranks) {
  return std::all_of(messages.begin(), messages.end(), [&](const Message& one) {
    const auto& [rank, peer] = one;
    if (peer >= static_cast<int64_t>(ranks.size())) return false;
    const uint32_t other = *std::next(ranks.begin(), peer);
    return other != rank && others.contains({other, place_of(rank, ranks)});
  });
}

bool holds_its_callers(const Callers& callers) {
  if (callers.group_known || callers.sizes.size() != 1) return false;
  const int64_t size = *callers.sizes.begin();
  if (size >= 0) return size == static_cast<int64_t>(callers.ranks.size());
  return !callers.sent.empty() &&
         answered(callers.sent, callers.awaited, callers.ranks) &&
         answered(callers.awaited, callers.sent, callers.ranks);
}

/// [communicator]
std::vector<Callers> callers_of(const CollectiveCalls& calls) {
  std::vector<Callers> of(calls.communicators.size());
  for (const CollectiveCall& call : calls.calls) {
    if (call.communicator < 0) continue;
    Callers& callers = of[static_cast<size_t>(call.communicator)];
    callers.group_known |= call.group >= 0;
    if (callers.group_known) continue;
    callers.ranks.insert(call.rank);
    callers.sizes.insert(call.group_size);
    if (!call.peer_in_group) continue;
    const bool sends = call.kind == CollectiveKind::kSend;
    if (sends) callers.sent.insert({call.rank, call.peer});
    if (!sends || call.both_ways)
      callers.awaited.insert({call.rank, call.peer});
  }
  return of;
}

}  // namespace

void gather_communicators(CollectiveCalls& calls) {
  GroupNumbers numbers(calls.groups);
  const std::vector<Callers> known = callers_of(calls);
  std::vector<int32_t> group_of(known.size(), -1);  // [communicator]
  for (size_t communicator = 0; communicator < known.size(); ++communicator) {
    const Callers& callers = known[communicator];
    if (!holds_its_callers(callers)) continue;
    group_of[communicator] =
        numbers.of({callers.ranks.begin(), callers.ranks.end()});
  }
  for (CollectiveCall& call : calls.calls) {
    if (call.communicator < 0) continue;
    const int32_t group = group_of[static_cast<size_t>(call.communicator)];
    if (group < 0) continue;
    call.group = group;
    call.group_size =
        static_cast<int64_t>(calls.groups[static_cast<size_t>(group)].size());
  }
}

}  // namespace reprise

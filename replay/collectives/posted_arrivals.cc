#include "replay/collectives/posted_arrivals.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "replay/collectives/collective_description.h"

namespace reprise {
namespace {

constexpr size_t kFewest = 3;

/// A message between two ranks, on rank 0's clock.
struct Posted {
  MatchedCollective* matched = nullptr;
  int64_t arrival_ns = 0;            ///< Of the later of both calls.
  int64_t still_ns = 0, end_ns = 0;  ///< Of the receiver.
};

using Pair = std::pair<uint32_t, uint32_t>;  // Sender, receiver.

class MessagesOfPairs {
 public:
  MessagesOfPairs(CollectiveMatching& matching, const Trace& trace) {
    for (const RankInfo& rank : trace.ranks) ranks_[rank.rank] = &rank;
    for (MatchedCollective& collective : matching.collectives) add(collective);
  }

  void settle() {
    for (auto& [pair, messages] : messages_) {
      std::stable_sort(messages.begin(), messages.end(),
                       [](const Posted& a, const Posted& b) {
                         return a.arrival_ns < b.arrival_ns;
                       });
      settle(messages);
    }
  }

 private:
  void add(MatchedCollective& collective) {
    if (collective.sender < 0 || collective.both_ways || collective.on_device ||
        collective.by_trainer || collective.members.size() != 2)
      return;
    const auto sender = static_cast<uint32_t>(collective.sender);
    const size_t receives = collective.members[0].rank == sender ? 1 : 0;
    const CollectiveMember& to = collective.members[receives];
    const CollectiveMember& from = collective.members[1 - receives];
    if (to.still_ns == kNeverStill) return;
    const int64_t start_ns = on_rank0(to.rank, to.start_ns);
    messages_[{from.rank, to.rank}].push_back(
        {.matched = &collective,
         .arrival_ns = std::max(start_ns, on_rank0(from.rank, from.start_ns)),
         .still_ns = std::max(start_ns, on_rank0(to.rank, to.still_ns)),
         .end_ns = on_rank0(to.rank, to.end_ns)});
  }

  int64_t on_rank0(uint32_t rank, int64_t time_ns) const {
    const auto info = ranks_.find(rank);
    return info == ranks_.end() ? time_ns : to_rank0_ns(*info->second, time_ns);
  }

  /// By size: what the transfer took that the receiver waited for throughout.
  static std::map<int64_t, int64_t> typical(
      const std::vector<Posted>& messages) {
    std::map<int64_t, std::vector<int64_t>> known;
    for (const Posted& message : messages) {
      if (message.still_ns <= message.arrival_ns &&
          message.arrival_ns <= message.end_ns)
        known[message.matched->bytes].push_back(
            saturating_subtract(message.end_ns, message.arrival_ns));
    }
    std::map<int64_t, int64_t> medians;
    for (auto& [bytes, transfers] : known) {
      if (transfers.size() < kFewest) continue;
      const auto middle =
          transfers.begin() + static_cast<int64_t>(transfers.size() / 2);
      std::nth_element(transfers.begin(), middle, transfers.end());
      medians[bytes] = *middle;
    }
    return medians;
  }

  /// By arrival.
  static void settle(std::vector<Posted>& messages) {
    const std::map<int64_t, int64_t> transfers = typical(messages);
    int64_t free_ns = std::numeric_limits<int64_t>::min();
    for (const Posted& message : messages) {
      const auto transfer = transfers.find(message.matched->bytes);
      if (transfer == transfers.end()) continue;
      const int64_t over_ns = saturating_add(
          std::max(message.arrival_ns, free_ns), transfer->second);
      const bool waited = over_ns >= message.still_ns;
      free_ns = waited ? message.end_ns : over_ns;
      if (!waited) shorten(message, over_ns);
    }
  }

  static void shorten(const Posted& message, int64_t over_ns) {
    const int64_t early_ns = saturating_subtract(message.end_ns, over_ns);
    const auto sender = static_cast<uint32_t>(message.matched->sender);
    for (CollectiveMember& member : message.matched->members) {
      if (member.rank != sender && early_ns > 0)
        member.end_ns = saturating_subtract(member.end_ns, early_ns);
    }
  }

  std::map<uint32_t, const RankInfo*> ranks_;
  std::map<Pair, std::vector<Posted>> messages_;
};

}  // namespace

void find_stand_stills(const RankEvents& events,
                       std::vector<CollectiveCall>& calls) {
  const Trace& trace = events.trace;
  std::map<uint32_t, std::vector<int64_t>> ends;  // [thread] Of its work.
  const auto event_of = [&](const CollectiveCall& call) -> const Event& {
    return trace.events[events.first + call.event];
  };
  for (const CollectiveCall& call : calls) {
    if (is_posted_message(trace, event_of(call))) ends[call.stream];
  }
  if (ends.empty()) return;
  for (uint32_t i = events.first; i < events.last; ++i) {
    const Event& event = trace.events[i];
    const auto thread = ends.find(event.stream);
    if (thread == ends.end()) continue;
    if (event.kind == EventKind::kHostOp || event.kind == EventKind::kRuntime)
      thread->second.push_back(event.end_ns);
  }
  for (auto& [thread, times] : ends) std::sort(times.begin(), times.end());
  for (CollectiveCall& call : calls) {
    if (!is_posted_message(trace, event_of(call))) continue;
    const std::vector<int64_t>& times = ends[call.stream];
    const auto after =
        std::upper_bound(times.begin(), times.end(), call.end_ns);
    call.still_ns = after == times.begin()
                        ? call.start_ns
                        : std::max(call.start_ns, *std::prev(after));
  }
}

void settle_posted_messages(CollectiveMatching& matching, const Trace& trace) {
  MessagesOfPairs(matching, trace).settle();
}

}  // namespace reprise

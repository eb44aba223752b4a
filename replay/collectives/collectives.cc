#include "replay/collectives/collectives.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "replay/collectives/collective_channel.h"
#include "replay/collectives/collective_name.h"
#include "replay/collectives/message_exchanges.h"

namespace reprise {
namespace {

using K = CollectiveKind;

// Makes collectives of what each channel matched, and says what it could not.
class Matcher {
 public:
  explicit Matcher(CollectiveCalls calls)
      : found_(std::move(calls)), calls_(found_.calls) {}

  CollectiveMatching match() {
    result_.notes = std::move(found_.notes);
    const std::vector<bool> matched = match_messages();
    std::map<CollectiveChannel, CallLists> channels;
    for (uint32_t i = 0; i < calls_.size(); ++i) {
      if (matched[i]) continue;
      channels[channel_of(calls_[i], found_)][calls_[i].rank].push_back(i);
    }
    for (const auto& [channel, lists] : channels) {
      ++channels_;
      const ChannelMatches matches = match_channel(channel, lists, calls_);
      for (const std::vector<uint32_t>& members : matches.collectives) {
        emit(channel, members);
      }
      if (matches.unmatched > 0) {
        note_unmatched(channel, lists, matches.unmatched);
      }
    }
    note_assumptions();
    finish();
    return std::move(result_);
  }

 private:
  // Kernels of messages with several peers, and all of their communicator; the
  // calls that it has settled, also those that nothing matches.
  std::vector<bool> match_messages() {
    std::vector<bool> settled(calls_.size(), false);
    std::map<int32_t, std::vector<uint32_t>> batches;  // By communicator.
    for (uint32_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].batched) batches[calls_[i].communicator].push_back(i);
    }
    for (const auto& [communicator, list] : batches) {
      const auto found = match_exchanges(list, found_);
      if (!found) continue;
      ++channels_;
      const CollectiveChannel whole{
          .device = true, .batched = true, .communicator = communicator};
      for (const MessageExchange& one : found->exchanges) {
        CollectiveChannel channel = whole;
        channel.pair = one.ranks.size() == 2;
        channel.from = one.ranks.front();
        channel.to = one.ranks.back();
        channel.group_size = static_cast<int64_t>(one.ranks.size());
        emit(channel, one.members, &one.ranks);
      }
      CallLists lists;
      for (const uint32_t i : list) {
        lists[calls_[i].rank].push_back(i);
        settled[i] = true;
      }
      if (found->unmatched > 0) note_unmatched(whole, lists, found->unmatched);
    }
    return settled;
  }

  std::string communicator_of(const CollectiveChannel& channel) const {
    if (channel.communicator < 0) return {};
    constexpr size_t kLongestName = 256;
    return found_.communicators[static_cast<size_t>(channel.communicator)]
        .substr(0, kLongestName);
  }

  // `group`: the ranks, of messages that more than two exchange.
  void emit(const CollectiveChannel& channel,
            const std::vector<uint32_t>& members,
            const RankGroup* group = nullptr) {
    MatchedCollective collective{.kind = channel.pair ? K::kSend : K::kUnknown,
                                 .communicator = communicator_of(channel),
                                 .group = {},
                                 .group_size = channel.group_size,
                                 .missing = {},
                                 .members = {},
                                 .on_device = channel.device,
                                 .by_trainer = channel.trainer};
    collective.members.reserve(members.size());
    int64_t least = INT64_MAX;
    for (const uint32_t i : members) {
      const CollectiveCall& call = calls_[i];
      collective.members.push_back(
          {call.rank, call.event, call.start_ns, call.end_ns, call.still_ns});
      if (collective.kind == K::kUnknown) collective.kind = call.kind;
      collective.both_ways |= call.both_ways;
      if (!collective.type) collective.type = call.type;
      if (collective.sequence < 0) collective.sequence = call.sequence;
      collective.bytes = std::max(collective.bytes, call.bytes);
      if (call.bytes > 0) least = std::min(least, call.bytes);
    }
    sizes_differ_ +=
        facts_of(collective.kind).has_one_size && least < collective.bytes;
    assumed_ += !channel.trainer && !channel.named() && group == nullptr &&
                members.size() > 1;
    if (group != nullptr) collective.kind = K::kSend;
    // A permutation of two is a message each way.
    collective.both_ways |= collective.kind == K::kPermute &&
                            members.size() == 2 && !channel.trainer;
    set_group(channel, group, collective);
    if (channel.pair) collective.sender = sender_of(channel, members);
    if (!channel.pair) collective.exchange = exchange_of(members);
    for (const uint32_t i : members) {
      if (!calls_[i].part) continue;
      collective.bytes = std::max(
          collective.bytes, whole_buffer_bytes(collective.kind, calls_[i].bytes,
                                               collective.group_size));
    }
    channel_number_.push_back(channels_);
    result_.collectives.push_back(std::move(collective));
  }

  // A batch tells by what is in it, unless that goes both ways.
  int32_t sender_of(const CollectiveChannel& channel,
                    const std::vector<uint32_t>& members) const {
    if (!channel.batched) return static_cast<int32_t>(channel.from);
    const CollectiveCall& call = calls_[members.front()];
    const bool sends = call.kind == K::kSend;
    if (call.both_ways) return -1;
    return sends ? static_cast<int32_t>(call.rank) : call.peer;
  }

  int32_t exchange_of(const std::vector<uint32_t>& members) {
    if (members.size() < 2 || !calls_[members.front()].batched) return -1;
    std::vector<RankGroup> senders = senders_of(members, found_);
    if (senders.empty()) return -1;
    const auto number = static_cast<int32_t>(exchange_numbers_.size());
    const auto [at, fresh] = exchange_numbers_.try_emplace(senders, number);
    if (fresh) result_.exchanges.push_back(std::move(senders));
    return at->second;
  }

  void set_group(const CollectiveChannel& channel, const RankGroup* group,
                 MatchedCollective& collective) {
    std::vector<uint32_t> here;
    for (const CollectiveMember& member : collective.members) {
      here.push_back(member.rank);
    }
    // Groups are the only thing here that a small file can blow up.
    constexpr size_t kMostRanks = size_t{1} << 25;
    if (channel.pair) {
      collective.group = {std::min(channel.from, channel.to)};
      if (channel.from != channel.to) {
        collective.group.push_back(std::max(channel.from, channel.to));
      }
    } else if (group != nullptr) {
      collective.group = *group;
    } else if (channel.group >= 0 && group_ranks_ < kMostRanks) {
      collective.group = found_.groups[static_cast<size_t>(channel.group)];
      group_ranks_ += collective.group.size();
    } else {
      collective.group = here;
      if (here.size() > 1) {
        collective.group_size =
            std::max(collective.group_size, static_cast<int64_t>(here.size()));
      }
    }
    std::set_difference(collective.group.begin(), collective.group.end(),
                        here.begin(), here.end(),
                        std::back_inserter(collective.missing));
  }

  // Each known of all calls, but not the same on all ranks.
  bool are_of_different_steps(const CallLists& lists) const {
    std::set<std::set<int32_t>> of_ranks;
    for (const auto& [rank, list] : lists) {
      std::set<int32_t> steps;
      for (const uint32_t i : list) steps.insert(calls_[i].step);
      if (steps.contains(-1)) return false;
      of_ranks.insert(std::move(steps));
    }
    return of_ranks.size() > 1;
  }

  void note_unmatched(const CollectiveChannel& channel, const CallLists& lists,
                      int64_t unmatched) {
    unmatched_in_all_ += unmatched;
    if (++channels_noted_ > kMostNotes) return;
    const auto shorter = [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    };
    const auto [fewest, most] =
        std::minmax_element(lists.begin(), lists.end(), shorter);
    const std::string communicator = communicator_of(channel);
    const std::string name = communicator.empty()
                                 ? std::string("without a communicator")
                                 : "of communicator '" + communicator + "'";
    const std::string reason =
        channel.unknown_peer
            ? std::string(
                  "sends and receives do not say whom they meet (of Gloo's, "
                  "torch.profiler tells it with record_shapes=True)")
        : channel.mixes_groups(lists.size())
            ? fmt::format(
                  "{} ranks are in groups of {}, and nothing says "
                  "which",
                  lists.size(), channel.group_size)
        : are_of_different_steps(lists)
            ? std::string("ranks recorded different steps")
        : fewest->second.size() == most->second.size()
            ? std::string("ranks recorded different operations or sizes")
            : fmt::format("rank {} recorded {} and rank {} {}", fewest->first,
                          fewest->second.size(), most->first,
                          most->second.size());
    result_.notes.push_back(fmt::format(
        "{} collectives {} could not be matched: {}, so their order says "
        "nothing.",
        unmatched, name, reason));
  }

  void note_assumptions() {
    if (channels_noted_ > kMostNotes) {
      result_.notes.push_back(fmt::format(
          "{} collectives of {} communicators could not be matched in all.",
          unmatched_in_all_, channels_noted_));
    }
    if (assumed_ > 0) {
      result_.notes.push_back(fmt::format(
          "{} collectives name no communicator: each is taken to span all "
          "ranks that recorded its like.",
          assumed_));
    }
    if (sizes_differ_ > 0) {
      result_.notes.push_back(fmt::format(
          "Ranks state different sizes of {} collectives; the largest counts.",
          sizes_differ_));
    }
  }

  // Orders by first member's start, then counts what has no sequence.
  void finish() {
    std::vector<std::tuple<int64_t, uint32_t, uint32_t>> order;
    for (uint32_t k = 0; k < result_.collectives.size(); ++k) {
      const CollectiveMember& first = result_.collectives[k].members.front();
      order.emplace_back(first.start_ns, first.event, k);
    }
    std::sort(order.begin(), order.end());
    std::vector<MatchedCollective> sorted;
    sorted.reserve(order.size());
    std::vector<int64_t> counted(channels_ + 1, 0);
    for (const auto& [start_ns, event, k] : order) {
      MatchedCollective& collective = result_.collectives[k];
      int64_t& count = counted[channel_number_[k]];
      if (collective.sequence < 0) collective.sequence = count;
      ++count;
      for (const CollectiveMember& member : collective.members) {
        result_.of_event.push_back(
            {member.event, static_cast<uint32_t>(sorted.size())});
      }
      sorted.push_back(std::move(collective));
    }
    std::sort(result_.of_event.begin(), result_.of_event.end());
    result_.collectives = std::move(sorted);
  }

  CollectiveMatching result_;
  CollectiveCalls found_;
  const std::vector<CollectiveCall>& calls_;
  size_t group_ranks_ = 0;              // In all groups of the result.
  std::vector<size_t> channel_number_;  // [collective, as emitted]
  std::map<std::vector<RankGroup>, int32_t> exchange_numbers_;
  size_t channels_ = 0, channels_noted_ = 0;
  static constexpr size_t kMostNotes = 16;
  int64_t unmatched_in_all_ = 0;
  int64_t assumed_ = 0, sizes_differ_ = 0;
};

int64_t difference_ns(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!__builtin_sub_overflow(a, b, &result)) return result;
  return a > b ? INT64_MAX : INT64_MIN;
}

const RankInfo& info_of_rank(const Trace& trace, uint32_t rank) {
  static const RankInfo no_clock;
  if (rank < trace.ranks.size() && trace.ranks[rank].rank == rank) {
    return trace.ranks[rank];
  }
  const auto found =
      std::find_if(trace.ranks.begin(), trace.ranks.end(),
                   [rank](const RankInfo& info) { return info.rank == rank; });
  return found == trace.ranks.end() ? no_clock : *found;
}

}  // namespace

int32_t CollectiveMatching::place_of(uint32_t event) const {
  const auto found =
      std::lower_bound(of_event.begin(), of_event.end(), EventPlace{event, 0});
  return found != of_event.end() && found->event == event
             ? static_cast<int32_t>(found->collective)
             : -1;
}

CollectiveMatching match_collectives(CollectiveCalls calls) {
  return Matcher(std::move(calls)).match();
}

CollectiveMatching match_collectives(const Trace& trace) {
  return match_collectives(
      CollectiveCallFinder().finish(TraceByRank::borrow(trace)));
}

CollectiveTimes times_of(const MatchedCollective& collective,
                         const Trace& trace) {
  CollectiveTimes times;
  std::vector<std::pair<int64_t, int64_t>> stays;  // [member] start, end.
  for (const CollectiveMember& member : collective.members) {
    const RankInfo& info = info_of_rank(trace, member.rank);
    stays.emplace_back(to_rank0_ns(info, member.start_ns),
                       to_rank0_ns(info, member.end_ns));
  }
  REPRISE_CHECK(!stays.empty());
  times.arrival_ns = stays.front().first;
  int64_t last_end_ns = stays.front().second;
  for (const auto& [start_ns, end_ns] : stays) {
    times.arrival_ns = std::max(times.arrival_ns, start_ns);
    last_end_ns = std::max(last_end_ns, end_ns);
  }
  // A message's range on a host lasts until it is awaited, on either side.
  if (collective.sender >= 0 && !collective.on_device &&
      !collective.by_trainer) {
    for (const auto& stay : stays) {
      if (stay.second >= times.arrival_ns)
        last_end_ns = std::min(last_end_ns, stay.second);
    }
  }
  // A member that left before the last one came (a buffered send) waited until
  // it left.
  for (const auto& [start_ns, end_ns] : stays) {
    times.wait_ns.push_back(
        std::max<int64_t>(0, std::min(end_ns, times.arrival_ns) - start_ns));
  }
  times.transfer_ns =
      std::max<int64_t>(0, difference_ns(last_end_ns, times.arrival_ns));
  if (times.transfer_ns > 0) {
    const double factor =
        bus_factor(collective.kind, static_cast<double>(collective.group_size));
    times.bus_bandwidth_bytes_per_s =
        factor * static_cast<double>(collective.bytes) * 1e9 /
        static_cast<double>(times.transfer_ns);
  }
  return times;
}

}  // namespace reprise

#include "replay/collectives/collectives.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "replay/collectives/collective_calls.h"
#include "replay/collectives/collective_name.h"

namespace reprise {
namespace {

using K = CollectiveKind;

/// Places in `calls`, in the order of each rank.
using Lists = std::map<uint32_t, std::vector<uint32_t>>;

// Calls that are matched among themselves.
struct Channel {
  bool pair = false;     // Sends of one rank to another, and their receives.
  bool trainer = false;  // Ours: a unit of a step is one call everywhere.
  bool device = false;
  int32_t communicator = -1, group = -1;  // As in CollectiveCall.
  uint32_t from = 0, to = 0;              // Of a pair.
  int64_t group_size = -1;
  auto operator<=>(const Channel&) const = default;
  bool named() const { return communicator >= 0 || group >= 0 || pair; }
  /// Whether `ranks` ranks are several groups, and nothing says which.
  bool mixes_groups(size_t ranks) const {
    return !named() && !trainer && group_size > 0 &&
           ranks > static_cast<size_t>(group_size);
  }
};

bool same_lengths(const Lists& lists) {
  return std::all_of(lists.begin(), lists.end(), [&](const auto& entry) {
    return entry.second.size() == lists.begin()->second.size();
  });
}

class Matcher {
 public:
  explicit Matcher(const Trace& trace)
      : trace_(trace), found_(collective_calls(trace)), calls_(found_.calls) {}

  CollectiveMatching match() {
    result_.notes = std::move(found_.notes);
    std::map<Channel, Lists> channels;
    for (uint32_t i = 0; i < calls_.size(); ++i) {
      channels[channel_of(calls_[i])][calls_[i].rank].push_back(i);
    }
    for (const auto& [channel, lists] : channels) {
      channel_ = &channel;
      unmatched_ = 0;
      ++channels_;
      match_channel(lists);
      if (unmatched_ > 0) note_unmatched(lists);
    }
    note_assumptions();
    finish();
    return std::move(result_);
  }

 private:
  Channel channel_of(const CollectiveCall& call) const {
    Channel channel{.trainer = call.unit >= 0,
                    .device = call.device,
                    .communicator = call.communicator,
                    .group = call.group,
                    .group_size = call.group_size};
    if (!is_message(call.kind)) return channel;
    int64_t peer = call.peer;
    if (peer < 0 && call.group >= 0 && group_of(call.group).size() == 2) {
      const std::vector<uint32_t>& both = group_of(call.group);
      peer = both[both[0] == call.rank ? 1 : 0];
    }
    if (peer < 0) return channel;
    channel.pair = true;
    channel.group = -1;
    channel.group_size = 2;
    channel.from = call.rank;
    channel.to = static_cast<uint32_t>(peer);
    if (call.kind == K::kReceive) std::swap(channel.from, channel.to);
    return channel;
  }

  const std::vector<uint32_t>& group_of(int32_t group) const {
    return found_.groups[static_cast<size_t>(group)];
  }

  std::string communicator_of(const Channel& channel) const {
    if (channel.communicator < 0) return {};
    constexpr size_t kLongestName = 256;
    return found_.communicators[static_cast<size_t>(channel.communicator)]
        .substr(0, kLongestName);
  }

  void match_channel(const Lists& lists) {
    if (lists.size() == 1 || channel_->group_size == 1) {
      for (const auto& [rank, list] : lists) {
        for (const uint32_t i : list) emit({i});
      }
      return;
    }
    if (channel_->mixes_groups(lists.size())) return give_up(lists);
    const auto keyed = [&](uint32_t i) {
      return channel_->trainer || calls_[i].sequence >= 0;
    };
    Lists by_key, by_order;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list) {
        (keyed(i) ? by_key : by_order)[rank].push_back(i);
      }
    }
    if (by_key.size() < lists.size()) {  // A rank without sequences: no use.
      match_in_order(lists);
      return;
    }
    match_keys(by_key);
    if (!by_order.empty()) match_in_order(by_order);
  }

  // By the recorded sequence. Libraries count per communicator, or per
  // communicator and operation; a number that returns does so on all ranks.
  void match_keys(const Lists& lists) {
    bool kinds_known = !channel_->trainer && !channel_->pair;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list)
        kinds_known &= calls_[i].kind != K::kUnknown;
    }
    using Key = std::tuple<K, int64_t, int64_t>;
    std::map<Key, Lists> keys;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list) {
        const CollectiveCall& call = calls_[i];
        const Key key =
            channel_->trainer
                ? Key(K::kUnknown, call.step, call.unit)
                : Key(kinds_known ? call.kind : K::kUnknown, call.sequence, 0);
        keys[key][rank].push_back(i);
      }
    }
    for (const auto& [key, calls] : keys) {
      if (same_lengths(calls)) {
        emit_in_order(calls);
      } else {
        give_up(calls);
      }
    }
  }

  void match_in_order(const Lists& lists) {
    if (agree(lists)) {
      emit_in_order(lists);
    } else if (channel_->named()) {
      match_what_is_sure(lists);
    } else {
      match_kinds(lists);
    }
  }

  // Whether call k can be the same one on all ranks, for every k.
  bool agree(const Lists& lists) const {
    if (!same_lengths(lists)) return false;
    const std::vector<uint32_t>& first = lists.begin()->second;
    for (const auto& [rank, list] : lists) {
      for (size_t k = 0; k < list.size(); ++k) {
        if (!can_be_one(calls_[first[k]], calls_[list[k]])) return false;
      }
    }
    return true;
  }

  bool can_be_one(const CollectiveCall& a, const CollectiveCall& b) const {
    if (channel_->pair) return a.bytes == b.bytes || !a.bytes || !b.bytes;
    if (a.kind != K::kUnknown && b.kind != K::kUnknown && a.kind != b.kind) {
      return false;
    }
    return a.bytes == b.bytes || a.bytes == 0 || b.bytes == 0 ||
           !facts_of(a.kind).has_one_size;
  }

  // (operation, bytes) as far as these are the same on every rank; a kernel
  // that may be any point-to-point exchange is a kind of its own.
  using Kind = std::tuple<bool, K, int64_t>;
  Kind kind_of(const CollectiveCall& call) const {
    return {call.kind == K::kUnknown, call.kind,
            facts_of(call.kind).has_one_size ? call.bytes : 0};
  }

  // No communicator: several may be interleaved, so each kind has its own
  // order. A rank without any call of a kind takes no part in it.
  void match_kinds(const Lists& lists) {
    std::map<Kind, Lists> kinds;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list)
        kinds[kind_of(calls_[i])][rank].push_back(i);
    }
    const bool complete =
        std::all_of(kinds.begin(), kinds.end(), [&](const auto& entry) {
          return std::get<0>(entry.first) || same_lengths(entry.second);
        });
    Lists unsure;
    for (const auto& [kind, calls] : kinds) {
      if (calls.size() > 1 && same_lengths(calls) &&
          (complete || std::get<0>(kind))) {
        emit_in_order(calls);
      } else if (std::get<0>(kind) || calls.size() == 1) {
        give_up(calls);
      } else {
        for (const auto& [rank, list] : calls) {
          unsure[rank].insert(unsure[rank].end(), list.begin(), list.end());
        }
      }
    }
    for (auto& [rank, list] : unsure) std::sort(list.begin(), list.end());
    if (!unsure.empty()) match_what_is_sure(unsure);
  }

  // Calls were lost: steps in which all ranks agree, then calls that are the
  // only one of their kind in a step on every rank that has it.
  void match_what_is_sure(const Lists& lists) {
    std::map<int32_t, Lists> steps;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list) {
        steps[calls_[i].step][rank].push_back(i);
      }
    }
    for (const auto& [step, calls] : steps) {
      if (step >= 0 && steps.size() > 1 && calls.size() > 1 && agree(calls)) {
        emit_in_order(calls);
      } else {
        match_unique(calls);
      }
    }
  }

  void match_unique(const Lists& lists) {
    std::map<Kind, Lists> kinds;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list)
        kinds[kind_of(calls_[i])][rank].push_back(i);
    }
    for (const auto& [kind, calls] : kinds) {
      if (calls.size() > 1 && std::get<2>(kind) > 0 && same_lengths(calls) &&
          calls.begin()->second.size() == 1) {
        emit_in_order(calls);
      } else {
        give_up(calls);
      }
    }
  }

  void give_up(const Lists& lists) {
    for (const auto& [rank, list] : lists) {
      unmatched_ += static_cast<int64_t>(list.size());
    }
  }

  void emit_in_order(const Lists& lists) {
    const size_t length = lists.begin()->second.size();
    std::vector<uint32_t> members;
    for (size_t k = 0; k < length; ++k) {
      members.clear();
      for (const auto& [rank, list] : lists) members.push_back(list[k]);
      emit(members);
    }
  }

  void emit(const std::vector<uint32_t>& members) {
    MatchedCollective collective{
        .kind = channel_->pair ? K::kSend : K::kUnknown,
        .communicator = communicator_of(*channel_),
        .group = {},
        .group_size = channel_->group_size,
        .missing = {},
        .members = {}};
    int64_t least = INT64_MAX;
    for (const uint32_t i : members) {
      const CollectiveCall& call = calls_[i];
      collective.members.push_back({call.rank, call.event});
      if (collective.kind == K::kUnknown) collective.kind = call.kind;
      if (collective.sequence < 0) collective.sequence = call.sequence;
      collective.bytes = std::max(collective.bytes, call.bytes);
      if (call.bytes > 0) least = std::min(least, call.bytes);
    }
    sizes_differ_ +=
        facts_of(collective.kind).has_one_size && least < collective.bytes;
    assumed_ += !channel_->trainer && !channel_->named() && members.size() > 1;
    set_group(collective);
    channel_number_.push_back(channels_);
    result_.collectives.push_back(std::move(collective));
  }

  void set_group(MatchedCollective& collective) {
    std::vector<uint32_t> here;
    for (const CollectiveMember& member : collective.members) {
      here.push_back(member.rank);
    }
    // Groups are the only thing here that a small file can blow up.
    constexpr size_t kMostRanks = size_t{1} << 25;
    if (channel_->pair) {
      collective.sender = static_cast<int32_t>(channel_->from);
      collective.group = {std::min(channel_->from, channel_->to)};
      if (channel_->from != channel_->to) {
        collective.group.push_back(std::max(channel_->from, channel_->to));
      }
    } else if (channel_->group >= 0 && group_ranks_ < kMostRanks) {
      collective.group = group_of(channel_->group);
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

  void note_unmatched(const Lists& lists) {
    unmatched_in_all_ += unmatched_;
    if (++channels_noted_ > kMostNotes) return;
    const auto shorter = [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    };
    const auto [fewest, most] =
        std::minmax_element(lists.begin(), lists.end(), shorter);
    const std::string communicator = communicator_of(*channel_);
    const std::string name = communicator.empty()
                                 ? std::string("without a communicator")
                                 : "of communicator '" + communicator + "'";
    const std::string reason =
        channel_->mixes_groups(lists.size())
            ? fmt::format(
                  "{} ranks are in groups of {}, and nothing says "
                  "which",
                  lists.size(), channel_->group_size)
        : fewest->second.size() == most->second.size()
            ? std::string("ranks recorded different operations or sizes")
            : fmt::format("rank {} recorded {} and rank {} {}", fewest->first,
                          fewest->second.size(), most->first,
                          most->second.size());
    result_.notes.push_back(fmt::format(
        "{} collectives {} could not be matched: {}, so their order says "
        "nothing.",
        unmatched_, name, reason));
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
      order.emplace_back(trace_.events[first.event].start_ns, first.event, k);
    }
    std::sort(order.begin(), order.end());
    std::vector<MatchedCollective> sorted;
    sorted.reserve(order.size());
    std::vector<int64_t> counted(channels_ + 1, 0);
    result_.of_event.assign(trace_.events.size(), -1);
    for (const auto& [start_ns, event, k] : order) {
      MatchedCollective& collective = result_.collectives[k];
      int64_t& count = counted[channel_number_[k]];
      if (collective.sequence < 0) collective.sequence = count;
      ++count;
      for (const CollectiveMember& member : collective.members) {
        result_.of_event[member.event] = static_cast<int32_t>(sorted.size());
      }
      sorted.push_back(std::move(collective));
    }
    result_.collectives = std::move(sorted);
  }

  const Trace& trace_;
  CollectiveMatching result_;
  CollectiveCalls found_;
  const std::vector<CollectiveCall>& calls_;
  size_t group_ranks_ = 0;              // In all groups of the result.
  std::vector<size_t> channel_number_;  // [collective, as emitted]
  const Channel* channel_ = nullptr;    // Being matched.
  size_t channels_ = 0, channels_noted_ = 0;
  static constexpr size_t kMostNotes = 16;
  int64_t unmatched_ = 0, unmatched_in_all_ = 0;
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

CollectiveMatching match_collectives(const Trace& trace) {
  return Matcher(trace).match();
}

CollectiveTimes times_of(const MatchedCollective& collective,
                         const Trace& trace) {
  CollectiveTimes times;
  std::vector<std::pair<int64_t, int64_t>> stays;  // [member] start, end.
  for (const CollectiveMember& member : collective.members) {
    const RankInfo& info = info_of_rank(trace, member.rank);
    const Event& event = trace.events[member.event];
    stays.emplace_back(to_rank0_ns(info, event.start_ns),
                       to_rank0_ns(info, event.end_ns));
  }
  REPRISE_CHECK(!stays.empty());
  times.arrival_ns = stays.front().first;
  int64_t last_end_ns = stays.front().second;
  for (const auto& [start_ns, end_ns] : stays) {
    times.arrival_ns = std::max(times.arrival_ns, start_ns);
    last_end_ns = std::max(last_end_ns, end_ns);
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

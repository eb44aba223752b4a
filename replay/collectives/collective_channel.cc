#include "replay/collectives/collective_channel.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "replay/collectives/collective_name.h"

namespace reprise {
namespace {

using K = CollectiveKind;

bool same_lengths(const CallLists& lists) {
  return std::all_of(lists.begin(), lists.end(), [&](const auto& entry) {
    return entry.second.size() == lists.begin()->second.size();
  });
}

class ChannelMatcher {
 public:
  ChannelMatcher(const CollectiveChannel& channel,
                 const std::vector<CollectiveCall>& calls)
      : channel_(channel), calls_(calls) {}

  ChannelMatches match(const CallLists& lists) && {
    if (lists.size() == 1 || channel_.group_size == 1) {
      for (const auto& [rank, list] : lists) {
        for (const uint32_t i : list) result_.collectives.push_back({i});
      }
      return std::move(result_);
    }
    if (channel_.unknown_peer || channel_.mixes_groups(lists.size())) {
      give_up(lists);
      return std::move(result_);
    }
    // A rank counts its messages to all of its peers together, so the two ends
    // of one have different numbers; between two ranks they keep their order.
    const auto keyed = [&](uint32_t i) {
      return channel_.trainer || (!channel_.pair && calls_[i].sequence >= 0);
    };
    CallLists by_key, by_order;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list) {
        (keyed(i) ? by_key : by_order)[rank].push_back(i);
      }
    }
    if (by_key.size() < lists.size()) {  // A rank without sequences: no use.
      match_in_order(lists);
      return std::move(result_);
    }
    match_keys(by_key);
    if (!by_order.empty()) match_in_order(by_order);
    return std::move(result_);
  }

 private:
  // By the recorded sequence. Libraries count per communicator, or per
  // communicator and operation; a number that returns does so on all ranks.
  void match_keys(const CallLists& lists) {
    bool kinds_known = !channel_.trainer;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list)
        kinds_known &= calls_[i].kind != K::kUnknown;
    }
    using Key = std::tuple<K, int64_t, int64_t>;
    std::map<Key, CallLists> keys;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list) {
        const CollectiveCall& call = calls_[i];
        const Key key =
            channel_.trainer
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

  void match_in_order(const CallLists& lists) {
    const bool in_order = agree(lists);
    if (in_order && !are_of_other_steps(lists)) {
      emit_in_order(lists);
    } else if (in_order) {
      match_what_is_sure(lists);
    } else if (channel_.named()) {
      if (!match_by_operation(lists)) match_what_is_sure(lists);
    } else {
      match_kinds(lists);
    }
  }

  // Calls of several streams whose launches were not recorded begin in another
  // order on each rank; those of one operation run one behind the other. False
  // where they do not agree either.
  bool match_by_operation(const CallLists& lists) {
    std::map<K, CallLists> operations;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list)
        operations[calls_[i].kind][rank].push_back(i);
    }
    const bool all_agree = std::all_of(
        operations.begin(), operations.end(), [&](const auto& entry) {
          return entry.second.size() == lists.size() && agree(entry.second);
        });
    if (!all_agree || operations.contains(K::kUnknown)) return false;
    for (const auto& [kind, calls] : operations) emit_in_order(calls);
    return true;
  }

  // Whether call k can be the same one on all ranks, for every k.
  bool agree(const CallLists& lists) const {
    if (!same_lengths(lists)) return false;
    const std::vector<uint32_t>& first = lists.begin()->second;
    for (const auto& [rank, list] : lists) {
      for (size_t k = 0; k < list.size(); ++k) {
        if (!can_be_one(calls_[first[k]], calls_[list[k]])) return false;
      }
    }
    return true;
  }

  // Whether recordings began with different steps and hold as many of them:
  // most calls of a rank would meet one of another step. Some do where a launch
  // comes just before a step on one rank and just after on another.
  bool are_of_other_steps(const CallLists& lists) const {
    const std::vector<uint32_t>& first = lists.begin()->second;
    return std::any_of(lists.begin(), lists.end(), [&](const auto& entry) {
      size_t known = 0, other = 0;
      for (size_t k = 0; k < first.size(); ++k) {
        const int32_t a = calls_[first[k]].step;
        const int32_t b = calls_[entry.second[k]].step;
        known += a >= 0 && b >= 0;
        other += a >= 0 && b >= 0 && a != b;
      }
      return 2 * other > known;
    });
  }

  bool can_be_one(const CollectiveCall& a, const CollectiveCall& b) const {
    if (channel_.pair) return a.bytes == b.bytes || !a.bytes || !b.bytes;
    if (a.kind != K::kUnknown && b.kind != K::kUnknown && a.kind != b.kind) {
      return false;
    }
    return a.bytes == b.bytes || a.bytes == 0 || b.bytes == 0 ||
           !facts_of(a.kind).has_one_size;
  }

  // (operation, bytes) as far as these are the same on every rank; a kernel
  // that is an exchange, or may be any, is a kind of its own.
  using Kind = std::tuple<bool, K, int64_t>;
  Kind kind_of(const CollectiveCall& call) const {
    return {call.kind == K::kUnknown || call.kind == K::kPermute, call.kind,
            facts_of(call.kind).has_one_size ? call.bytes : 0};
  }

  // No communicator: several may be interleaved, so each kind has its own
  // order. A rank without any call of a kind takes no part in it.
  void match_kinds(const CallLists& lists) {
    std::map<Kind, CallLists> kinds;
    for (const auto& [rank, list] : lists) {
      for (const uint32_t i : list)
        kinds[kind_of(calls_[i])][rank].push_back(i);
    }
    const bool complete =
        std::all_of(kinds.begin(), kinds.end(), [&](const auto& entry) {
          return std::get<0>(entry.first) || same_lengths(entry.second);
        });
    CallLists unsure;
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
  void match_what_is_sure(const CallLists& lists) {
    std::map<int32_t, CallLists> steps;
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

  void match_unique(const CallLists& lists) {
    std::map<Kind, CallLists> kinds;
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

  void give_up(const CallLists& lists) {
    for (const auto& [rank, list] : lists) {
      result_.unmatched += static_cast<int64_t>(list.size());
    }
  }

  void emit_in_order(const CallLists& lists) {
    const size_t length = lists.begin()->second.size();
    for (size_t k = 0; k < length; ++k) {
      std::vector<uint32_t>& members = result_.collectives.emplace_back();
      for (const auto& [rank, list] : lists) members.push_back(list[k]);
    }
  }

  const CollectiveChannel& channel_;
  const std::vector<CollectiveCall>& calls_;
  ChannelMatches result_;
};

}  // namespace

CollectiveChannel channel_of(const CollectiveCall& call,
                             const CollectiveCalls& all) {
  CollectiveChannel channel{.trainer = call.unit >= 0,
                            .device = call.device,
                            .batched = call.batched,
                            .communicator = call.communicator,
                            .group = call.group,
                            .group_size = call.group_size};
  // With what is no rank (a server) a rank exchanges messages alone.
  if (!is_message(call.kind) || call.group_size == 1) return channel;
  int64_t peer = call.peer;
  if (peer < 0 && call.group >= 0) {
    const std::vector<uint32_t>& both =
        all.groups[static_cast<size_t>(call.group)];
    if (both.size() == 2) peer = both[both[0] == call.rank ? 1 : 0];
  }
  // Gloo's do not say whom they meet; of two ranks it is the other one.
  if (peer < 0 && call.group < 0 && all.ranks == 2 && !all.calls.empty()) {
    const uint32_t first = all.calls.front().rank;
    const uint32_t last = all.calls.back().rank;
    if (first != last) peer = call.rank == first ? last : first;
  }
  if (peer < 0) {
    channel.unknown_peer = !channel.named();
    return channel;
  }
  channel.pair = true;
  channel.group = -1;
  channel.group_size = 2;
  channel.from = call.rank;
  channel.to = static_cast<uint32_t>(peer);
  if (call.batched ? channel.from > channel.to : call.kind == K::kReceive)
    std::swap(channel.from, channel.to);
  return channel;
}

ChannelMatches match_channel(const CollectiveChannel& channel,
                             const CallLists& lists,
                             const std::vector<CollectiveCall>& calls) {
  return ChannelMatcher(channel, calls).match(lists);
}

}  // namespace reprise

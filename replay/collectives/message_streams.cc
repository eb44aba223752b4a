#include "replay/collectives/message_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

namespace reprise {
namespace {

class MessageStreams {
 public:
  MessageStreams(const std::vector<CallStream>& streams, StreamClocks& clocks,
                 CollectiveCalls& calls)
      : streams_(streams), clocks_(clocks), calls_(calls.calls), all_(calls) {}

  void run() {
    std::map<uint32_t, std::vector<const CallStream*>> by_rank;
    for (const CallStream& stream : streams_) {
      if (names_nobody(stream)) by_rank[stream.rank].push_back(&stream);
    }
    for (auto a = by_rank.begin(); a != by_rank.end(); ++a) {
      for (auto b = std::next(a); b != by_rank.end(); ++b) {
        for (const Meeting& met : meeting(a->second, b->second)) {
          met_[met.one][met.other] = met.apart_ns;
          met_[met.other][met.one] = met.apart_ns;
        }
      }
    }
    int64_t named = 0;
    for (const auto& [stream, others] : met_) {
      const CallStream* const other = partner_of(stream);
      if (other == nullptr || partner_of(other) != stream) continue;
      name(*stream, other->rank);
      named += static_cast<int64_t>(stream->calls.size());
    }
    if (named == 0) return;
    all_.notes.push_back(fmt::format(
        "{} messages name no peer: each is taken to meet the one of the rank "
        "whose stream leaves all of its own at the same time.",
        named));
  }

 private:
  using Streams = std::vector<const CallStream*>;
  struct Meeting {
    const CallStream *one, *other;
    int64_t apart_ns;  ///< Of all ends.
  };
  using Meetings = std::vector<Meeting>;

  bool names_nobody(const CallStream& stream) const {
    return clocks_.are_any_messages(stream) &&
           std::all_of(stream.calls.begin(), stream.calls.end(),
                       [&](uint32_t place) { return calls_[place].peer < 0; });
  }

  Meetings on(const StreamClocks::Line& line, const Streams& a,
              const Streams& b) const {
    Meetings found;
    for (const CallStream* one : a) {
      for (const CallStream* other : b) {
        if (clocks_.can_meet(*one, *other) &&
            clocks_.together(*one, *other, line))
          found.push_back({one, other, clocks_.apart_ns(*one, *other, line)});
      }
    }
    return found;
  }

  /// Streams of two ranks that leave together.
  Meetings meeting(const Streams& a, const Streams& b) {
    const auto known = clocks_.clocks_of(a.front()->rank, b.front()->rank);
    return on(known.value_or(StreamClocks::Line{}), a, b);
  }

  /// The one that leaves closest; none where others that leave with it leave
  /// together too.
  const CallStream* partner_of(const CallStream* stream) const {
    const std::map<const CallStream*, int64_t>& others = met_.at(stream);
    const CallStream* nearest = nullptr;
    for (const auto& [other, apart_ns] : others) {
      const std::map<const CallStream*, int64_t>& theirs = met_.at(other);
      if (std::any_of(others.begin(), others.end(), [&](const auto& one) {
            return theirs.contains(one.first);
          }))
        return nullptr;
      if (nearest == nullptr || apart_ns < others.at(nearest)) nearest = other;
    }
    return nearest;
  }

  void name(const CallStream& stream, uint32_t peer) {
    for (const uint32_t place : stream.calls) {
      CollectiveCall& call = calls_[place];
      call.peer = static_cast<int32_t>(peer);
      call.peer_in_group = false;
      if (call.kind != CollectiveKind::kUnknown) continue;
      call.kind = CollectiveKind::kSend;
      call.batched = call.both_ways = true;
    }
  }

  const std::vector<CallStream>& streams_;
  StreamClocks& clocks_;
  std::vector<CollectiveCall>& calls_;
  CollectiveCalls& all_;
  /// [stream][one that it meets] how far apart all their ends are.
  std::map<const CallStream*, std::map<const CallStream*, int64_t>> met_;
};

}  // namespace

void pair_message_streams(const std::vector<CallStream>& streams,
                          StreamClocks& clocks, CollectiveCalls& calls) {
  MessageStreams(streams, clocks, calls).run();
}

}  // namespace reprise

// How far apart the clocks of two ranks are, by the streams of theirs that call
// alike: of one group, such streams leave each call at one time, so that the
// ends of their calls tell the clocks. But so do those of two groups of which
// one is late by the same in all calls. Where the streams of two ranks tell
// different clocks, those are taken by which all calls transfer for the
// shortest time: the other ones leave waits for nobody. Ranks of one host have
// one clock; and both sides of a message leave it at one time, which tells the
// clocks of ranks whose collectives are late by the same each time, as those of
// a pipeline's stages are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "replay/collectives/collective_calls.h"

namespace reprise {

/// Calls of one rank's stream of a device.
struct CallStream {
  uint32_t rank = 0;
  std::vector<uint32_t> calls = {};  ///< Places in CollectiveCalls::calls.
  bool messages = false;             ///< Some are, or may be.
};

/// The ends of a collective on its ranks lie within tens of microseconds.
constexpr int64_t kEndTogether = 50'000;
/// Of the calls of two streams of one group one in so many may end apart.
constexpr size_t kApartInOne = 20;

inline int64_t distance_ns(int64_t a_ns, int64_t b_ns) {
  return saturating_subtract(std::max(a_ns, b_ns), std::min(a_ns, b_ns));
}

class StreamClocks {
 public:
  /// `first_ns` at `begin_ns` of one rank's clock, and so much more for each ns
  /// after it.
  struct Line {
    int64_t begin_ns = 0, first_ns = 0;
    double slope = 0;
  };

  /// `streams`: by rank; all are kept.
  StreamClocks(const CollectiveCalls& calls,
               const std::vector<CallStream>& streams,
               const std::vector<RankInfo>& ranks)
      : calls_(calls), streams_(streams), ranks_(ranks) {}

  /// Whether both call the same in the same order.
  bool alike(const CallStream& a, const CallStream& b) const;
  /// Whether both may be the two sides of the same messages.
  bool can_meet(const CallStream& a, const CallStream& b) const;
  /// Whether all are messages of which nothing says for certain whom they meet,
  /// enough to tell it by when they end.
  bool are_any_messages(const CallStream& one) const;
  /// Whether their messages say that they meet the other rank.
  bool meet_by_name(const CallStream& a, const CallStream& b) const;
  /// How much later than `a`'s clock `b`'s shows each of their calls, which are
  /// alike: by all that is known of the two ranks, or if nothing is as if both
  /// streams were of one group.
  std::vector<int64_t> apart(const CallStream& a, const CallStream& b);

  /// Those of a rank.
  std::span<const CallStream> of_rank(uint32_t rank) const;
  /// The clocks of the two ranks by all that is known of them.
  std::optional<Line> clocks_of(uint32_t a, uint32_t b);
  /// Whether something else than their collectives tells the two ranks' clocks.
  bool is_sure(uint32_t a, uint32_t b) { return told_by(a, b).sure; }
  /// By these two streams alone, which call as often, if of one group.
  Line line_of(const CallStream& a, const CallStream& b) const;
  /// Whether they leave their calls together, on such clocks.
  bool together(const CallStream& a, const CallStream& b,
                const Line& line) const;
  /// How far apart, all calls taken together.
  int64_t apart_ns(const CallStream& a, const CallStream& b,
                   const Line& line) const;

 private:
  /// What two ranks' streams tell of their clocks.
  struct Pair {
    std::vector<Line> lines;
    bool agree = false;  ///< All tell the same one.
    bool sure = false;   ///< It is not from collectives, which may be apart.
  };
  std::vector<int64_t> along(const Line& line, const CallStream& a) const;
  /// How far apart both leave each of their calls.
  std::vector<int64_t> ends_apart_ns(const CallStream& a, const CallStream& b,
                                     const Line& line) const;
  using Stays = std::vector<std::pair<int64_t, int64_t>>;  ///< Start and end.

  const CollectiveCall& call(uint32_t place) const {
    return calls_.calls[place];
  }
  bool tells(const CallStream& one, uint32_t other, const Line& line) const;
  bool share_a_clock(uint32_t a, uint32_t b) const;
  /// How many pairs of streams of messages leave them together, and how far
  /// apart in all.
  struct Meetings {
    size_t count = 0;
    int64_t apart_ns = 0;
  };
  Meetings meetings(uint32_t a, uint32_t b, const Line& line) const;
  /// Streams of `a` that leave their collectives with one of `b`'s.
  size_t collectives(uint32_t a, uint32_t b, const Line& line) const;
  std::optional<Line> told_by_messages(uint32_t a, uint32_t b) const;
  const Pair& told_by(uint32_t a, uint32_t b);
  Pair told_by_collectives(uint32_t a, uint32_t b) const;
  double transfers_ns(uint32_t a, uint32_t b, const Line& line);
  std::vector<Stays> members_of(const CallStream& stream);

  const CollectiveCalls& calls_;
  const std::vector<CallStream>& streams_;
  const std::vector<RankInfo>& ranks_;
  std::map<std::pair<uint32_t, uint32_t>, Pair> told_;
  std::map<std::pair<uint32_t, uint32_t>, std::optional<Line>> clocks_;
};

}  // namespace reprise

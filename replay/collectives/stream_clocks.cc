// The clocks of a pair are a line: through the medians of the first and last
// third of how far the ends of a stream's calls lie apart. Ranks of which all
// streams tell one line are taken to be as one: what a call of theirs transfers
// is what is left from the last of them on.
#include "replay/collectives/stream_clocks.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "data/integers.h"
#include "data/median.h"

namespace reprise {
namespace {

/// So many calls that end together tell that clocks are so.
constexpr size_t kTellingClocks = 5;
/// So many messages that end together tell that their streams meet.
constexpr size_t kTellingMessages = 8;
/// More lines, or more ranks as one, tell nothing new.
constexpr size_t kMostLines = 8, kMostMembers = 8;
/// Clocks are no further apart than this: a century.
constexpr double kLongest_ns = 3.2e18;

/// Of a call on all of `members`, from the last one's coming to the first one's
/// leaving, times those that are in it.
template <typename Stays>
double transfer_ns(const std::vector<Stays>& members) {
  double all_ns = 0;
  for (size_t k = 0; !members.empty() && k < members.front().size(); ++k) {
    auto [come_ns, left_ns] = members.front()[k];
    for (const Stays& member : members) {
      come_ns = std::max(come_ns, member[k].first);
      left_ns = std::min(left_ns, member[k].second);
    }
    const int64_t one_ns = saturating_subtract(left_ns, come_ns);
    all_ns += static_cast<double>(std::max<int64_t>(0, one_ns)) *
              static_cast<double>(members.size());
  }
  return all_ns;
}

}  // namespace

bool StreamClocks::alike(const CallStream& a, const CallStream& b) const {
  return std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(),
                    b.calls.end(), [&](uint32_t one, uint32_t other) {
                      return call(one).kind == call(other).kind &&
                             call(one).type == call(other).type &&
                             call(one).bytes == call(other).bytes;
                    });
}

std::span<const CallStream> StreamClocks::of_rank(uint32_t rank) const {
  const auto [first, last] = std::equal_range(
      streams_.begin(), streams_.end(), CallStream{.rank = rank},
      [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return {first, last};
}

StreamClocks::Line StreamClocks::line_of(const CallStream& a,
                                         const CallStream& b) const {
  const size_t count = a.calls.size();
  const size_t third = std::max<size_t>(1, count / 3);
  std::vector<int64_t> apart;
  for (size_t k = 0; k < count; ++k) {
    apart.push_back(
        saturating_subtract(call(b.calls[k]).end_ns, call(a.calls[k]).end_ns));
  }
  const auto from = apart.begin(), to = apart.end();
  const auto length = static_cast<std::ptrdiff_t>(third);
  const auto first = median(std::vector<int64_t>(from, from + length));
  const auto last = median(std::vector<int64_t>(to - length, to));
  const int64_t begin_ns = call(a.calls[third / 2]).end_ns;
  const int64_t length_ns = saturating_subtract(
      call(a.calls[count - 1 - third / 2]).end_ns, begin_ns);
  const double slope =
      length_ns > 0 ? static_cast<double>(saturating_subtract(last, first)) /
                          static_cast<double>(length_ns)
                    : 0;
  return {begin_ns, first, slope};
}

/// At the end of each call.
std::vector<int64_t> StreamClocks::along(const Line& line,
                                         const CallStream& a) const {
  std::vector<int64_t> apart;
  apart.reserve(a.calls.size());
  for (const uint32_t place : a.calls) {
    const auto since_ns = static_cast<double>(
        saturating_subtract(call(place).end_ns, line.begin_ns));
    const double more =
        std::clamp(line.slope * since_ns, -kLongest_ns, kLongest_ns);
    apart.push_back(saturating_add(line.first_ns, static_cast<int64_t>(more)));
  }
  return apart;
}

std::vector<int64_t> StreamClocks::ends_apart_ns(const CallStream& a,
                                                 const CallStream& b,
                                                 const Line& line) const {
  std::vector<int64_t> apart = along(line, a);
  for (size_t k = 0; k < apart.size(); ++k) {
    const int64_t end_ns =
        saturating_subtract(call(b.calls[k]).end_ns, apart[k]);
    apart[k] = distance_ns(end_ns, call(a.calls[k]).end_ns);
  }
  return apart;
}

bool StreamClocks::together(const CallStream& a, const CallStream& b,
                            const Line& line) const {
  const std::vector<int64_t> apart = ends_apart_ns(a, b, line);
  const auto ends_apart =
      std::count_if(apart.begin(), apart.end(),
                    [](int64_t one_ns) { return one_ns > kEndTogether; });
  return static_cast<size_t>(ends_apart) * kApartInOne <= apart.size();
}

int64_t StreamClocks::apart_ns(const CallStream& a, const CallStream& b,
                               const Line& line) const {
  int64_t all_ns = 0;
  for (const int64_t one_ns : ends_apart_ns(a, b, line))
    all_ns = saturating_add(all_ns, one_ns);
  return all_ns;
}

bool StreamClocks::tells(const CallStream& one, uint32_t other,
                         const Line& line) const {
  const std::span<const CallStream> streams = of_rank(other);
  return std::any_of(streams.begin(), streams.end(),
                     [&](const CallStream& stream) {
                       return !stream.messages && alike(one, stream) &&
                              together(one, stream, line);
                     });
}

bool StreamClocks::can_meet(const CallStream& a, const CallStream& b) const {
  return std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(),
                    b.calls.end(), [&](uint32_t one, uint32_t other) {
                      const CollectiveCall& x = call(one);
                      const CollectiveCall& y = call(other);
                      const bool unsure = x.kind == CollectiveKind::kUnknown ||
                                          y.kind == CollectiveKind::kUnknown;
                      return (unsure || x.kind != y.kind) &&
                             (x.bytes == y.bytes || !x.bytes || !y.bytes);
                    });
}

bool StreamClocks::meet_by_name(const CallStream& a,
                                const CallStream& b) const {
  const auto all_name = [&](const CallStream& one, uint32_t rank) {
    return std::all_of(one.calls.begin(), one.calls.end(), [&](uint32_t place) {
      return is_message(call(place).kind) && !call(place).peer_in_group &&
             call(place).peer == static_cast<int32_t>(rank);
    });
  };
  return can_meet(a, b) && all_name(a, b.rank) && all_name(b, a.rank);
}

bool StreamClocks::are_any_messages(const CallStream& one) const {
  return one.calls.size() >= kTellingMessages &&
         std::all_of(one.calls.begin(), one.calls.end(), [&](uint32_t place) {
           const bool any = call(place).peer < 0 || call(place).peer_in_group;
           return any && (call(place).kind == CollectiveKind::kUnknown ||
                          is_message(call(place).kind));
         });
}

bool StreamClocks::share_a_clock(uint32_t a, uint32_t b) const {
  const auto find = [&](uint32_t rank) {
    return std::find_if(
        ranks_.begin(), ranks_.end(),
        [&](const RankInfo& info) { return info.rank == rank; });
  };
  const auto one = find(a), other = find(b);
  return one != ranks_.end() && other != ranks_.end() && !one->host.empty() &&
         one->host == other->host && one->clock_domain == other->clock_domain &&
         (one->clock_domain == "epoch" || one->clock_domain == "monotonic");
}

StreamClocks::Meetings StreamClocks::meetings(uint32_t a, uint32_t b,
                                              const Line& line) const {
  Meetings found;
  for (const CallStream& one : of_rank(a)) {
    if (!are_any_messages(one)) continue;
    for (const CallStream& other : of_rank(b)) {
      if (!are_any_messages(other) || !can_meet(one, other) ||
          !together(one, other, line))
        continue;
      ++found.count;
      found.apart_ns =
          saturating_add(found.apart_ns, apart_ns(one, other, line));
    }
  }
  return found;
}

size_t StreamClocks::collectives(uint32_t a, uint32_t b,
                                 const Line& line) const {
  const std::span<const CallStream> streams = of_rank(a);
  return static_cast<size_t>(
      std::count_if(streams.begin(), streams.end(), [&](const CallStream& one) {
        return !one.messages && tells(one, b, line);
      }));
}

/// Of messages that name nobody two pairs of streams at least, the most that
/// leave closest: of ranks that are not neighbours what comes later one way
/// comes earlier the other.
std::optional<StreamClocks::Line> StreamClocks::told_by_messages(
    uint32_t a, uint32_t b) const {
  if (meetings(a, b, Line{}).count > 0) return Line{};
  std::optional<Line> best;
  Meetings most{1, 0};
  for (const CallStream& one : of_rank(a)) {
    for (const CallStream& other : of_rank(b)) {
      if (!one.messages || !other.messages || !can_meet(one, other)) continue;
      const bool named =
          one.calls.size() >= kTellingClocks && meet_by_name(one, other);
      if (!named && !(are_any_messages(one) && are_any_messages(other)))
        continue;
      const Line own = line_of(one, other);
      if (!together(one, other, own)) continue;
      if (named) return own;
      const Meetings met = meetings(a, b, own);
      if (met.count < 2 || std::tuple(met.count, -met.apart_ns) <=
                               std::tuple(most.count, -most.apart_ns))
        continue;
      most = met;
      best = own;
    }
  }
  return best;
}

/// Clocks by which one stream's calls end together as they are need no line.
StreamClocks::Pair StreamClocks::told_by_collectives(uint32_t a,
                                                     uint32_t b) const {
  Pair pair;
  std::vector<const CallStream*> telling;
  for (const CallStream& one : of_rank(a)) {
    if (one.messages || one.calls.size() < kTellingClocks) continue;
    if (tells(one, b, Line{})) return {{Line{}}, true};
    const size_t known = pair.lines.size();
    for (const CallStream& other : of_rank(b)) {
      if (other.messages || !alike(one, other)) continue;
      const Line own = line_of(one, other);
      if (together(one, other, own)) pair.lines.push_back(own);
    }
    if (pair.lines.size() > known) telling.push_back(&one);
  }
  if (pair.lines.size() > kMostLines) pair.lines.resize(kMostLines);
  for (const Line& line : pair.lines) {
    pair.agree = std::all_of(
        telling.begin(), telling.end(),
        [&](const CallStream* one) { return tells(*one, b, line); });
    if (!pair.agree) continue;
    pair.lines = {line};
    break;
  }
  return pair;
}

const StreamClocks::Pair& StreamClocks::told_by(uint32_t a, uint32_t b) {
  const auto [at, fresh] = told_.try_emplace({a, b});
  if (!fresh) return at->second;
  if (share_a_clock(a, b)) return at->second = {{Line{}}, true, true};
  at->second = told_by_collectives(a, b);
  const std::optional<Line> messages = told_by_messages(a, b);
  if (!messages) return at->second;
  size_t others = 0;
  for (const Line& line : at->second.lines)
    others = std::max(others, collectives(a, b, line));
  const size_t met = std::max<size_t>(2, meetings(a, b, *messages).count);
  if (met > others) at->second = {{*messages}, true, true};
  return at->second;
}

/// The calls of the stream and of its like on ranks that are as one with its
/// own, on its own rank's clock.
std::vector<StreamClocks::Stays> StreamClocks::members_of(
    const CallStream& stream) {
  std::vector<Stays> members;
  for (const CallStream& other : streams_) {
    if (members.size() == kMostMembers) break;
    if (other.messages || !alike(stream, other)) continue;
    Line line;
    if (other.rank != stream.rank) {
      const Pair& pair = told_by(stream.rank, other.rank);
      if (!pair.agree || !together(stream, other, pair.lines.front())) continue;
      line = pair.lines.front();
    } else if (&other != &stream) {
      continue;
    }
    const std::vector<int64_t> apart = along(line, stream);
    Stays& stays = members.emplace_back();
    for (size_t k = 0; k < apart.size(); ++k) {
      const CollectiveCall& one = call(other.calls[k]);
      stays.emplace_back(saturating_subtract(one.start_ns, apart[k]),
                         saturating_subtract(one.end_ns, apart[k]));
    }
  }
  return members;
}

/// Of all that the ranks call, if their clocks are so.
double StreamClocks::transfers_ns(uint32_t a, uint32_t b, const Line& line) {
  double all_ns = 0;
  std::vector<const CallStream*> met;
  for (const CallStream& one : of_rank(a)) {
    if (one.messages) continue;
    std::vector<Stays> members = members_of(one);
    for (const CallStream& other : of_rank(b)) {
      if (other.messages || !alike(one, other) || !together(one, other, line))
        continue;
      met.push_back(&other);
      const std::vector<int64_t> apart = along(line, one);
      for (Stays stays : members_of(other)) {
        for (size_t k = 0; k < stays.size(); ++k) {
          auto& [come_ns, left_ns] = stays[k];
          come_ns = saturating_subtract(come_ns, apart[k]);
          left_ns = saturating_subtract(left_ns, apart[k]);
        }
        members.push_back(std::move(stays));
      }
      break;
    }
    all_ns += transfer_ns(members);
  }
  for (const CallStream& other : of_rank(b)) {
    const bool alone = !other.messages &&
                       std::find(met.begin(), met.end(), &other) == met.end();
    if (alone) all_ns += transfer_ns(members_of(other));
  }
  return all_ns;
}

std::optional<StreamClocks::Line> StreamClocks::clocks_of(uint32_t a,
                                                          uint32_t b) {
  const auto [at, fresh] = clocks_.try_emplace({a, b});
  if (!fresh) return at->second;
  const Pair pair = told_by(a, b);
  double least_ns = std::numeric_limits<double>::max();
  for (const Line& line : pair.lines) {
    const double all_ns = pair.agree ? 0 : transfers_ns(a, b, line);
    if (all_ns >= least_ns) continue;
    least_ns = all_ns;
    at->second = line;
  }
  return at->second;
}

std::vector<int64_t> StreamClocks::apart(const CallStream& a,
                                         const CallStream& b) {
  return along(clocks_of(a.rank, b.rank).value_or(line_of(a, b)), a);
}

}  // namespace reprise

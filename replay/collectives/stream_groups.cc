#include "replay/collectives/stream_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "replay/collectives/message_streams.h"
#include "replay/collectives/stream_clocks.h"

namespace reprise {
namespace {

// Ends so far apart are of two; and so long after a rank left, none comes to
// the same one.
constexpr int64_t kTooFar = 150'000;
// Of the calls of streams of two groups one in so many ends too far apart, and
// so many at least.
constexpr size_t kApartInTwo = 10, kFewestApart = 3;
// Members of one group leave so many times as far apart as the closest two, or
// so far beyond it: what a clock resolves.
constexpr int64_t kAboutAsClose = 3, kClockResolution = 1'000;
// Each stream is set beside all others of no more than so many.
constexpr size_t kMostStreams = 256;

using Places = std::vector<uint32_t>;  // In CollectiveCalls::calls.

struct StreamGroup {
  RankGroup ranks;
  std::vector<const CallStream*> streams;
};

enum class Relation { kUnlike, kTogether, kApart, kUnsure };

class StreamGroups {
 public:
  StreamGroups(CollectiveCalls& calls, const std::vector<RankInfo>& ranks)
      : calls_(calls), ranks_(ranks) {}

  void run() {
    all_ = streams();
    clocks_.emplace(calls_, all_, ranks_);
    pair_message_streams(all_, *clocks_, calls_);
    if (!place_all(&StreamGroups::place) &&
        (all_.size() > kMostStreams ||
         !place_all(&StreamGroups::place_by_closest)))
      return;
    const bool all_meet = std::all_of(
        groups_.begin(), groups_.end(),
        [](const StreamGroup& one) { return one.ranks.size() > 1; });
    if (proven_ && all_meet) number();
  }

 private:
  const CollectiveCall& call(uint32_t place) const {
    return calls_.calls[place];
  }

  /// With calls of which nothing is told; none if anything is told of others on
  /// devices.
  std::vector<CallStream> streams() const {
    std::map<std::pair<uint32_t, uint32_t>, Places> by_stream;
    for (uint32_t place = 0; place < calls_.calls.size(); ++place) {
      const CollectiveCall& one = call(place);
      if (!one.device) continue;
      if (one.communicator >= 0 || one.group >= 0 || one.unit >= 0 ||
          one.sequence >= 0 || one.group_size >= 0)
        return {};
      by_stream[{one.rank, one.stream}].push_back(place);
    }
    std::vector<CallStream> all;
    for (auto& [key, calls] : by_stream) {
      const bool messages =
          std::any_of(calls.begin(), calls.end(), [&](uint32_t place) {
            const CollectiveKind kind = call(place).kind;
            return kind == CollectiveKind::kUnknown ||
                   kind == CollectiveKind::kPermute || is_message(kind);
          });
      all.push_back({key.first, std::move(calls), messages});
    }
    return all;
  }

  Relation relation(const CallStream& a, const CallStream& b) {
    if (!clocks_->alike(a, b)) return Relation::kUnlike;
    const std::vector<int64_t> apart = clocks_->apart(a, b);
    size_t count = 0, ends_apart = 0, too_far = 0, cannot_be_one = 0;
    for (size_t k = 0; k < apart.size(); ++k) {
      const CollectiveCall& one = call(a.calls[k]);
      const CollectiveCall& other = call(b.calls[k]);
      if (!facts_of(one.kind).joins_all_ranks) continue;
      ++count;
      const int64_t start_ns = saturating_subtract(other.start_ns, apart[k]);
      const int64_t end_ns = saturating_subtract(other.end_ns, apart[k]);
      const int64_t between_ns = distance_ns(end_ns, one.end_ns);
      ends_apart += between_ns > kEndTogether;
      too_far += between_ns > kTooFar;
      cannot_be_one += saturating_add(std::min(end_ns, one.end_ns), kTooFar) <
                       std::max(start_ns, one.start_ns);
    }
    if (ends_apart * kApartInOne <= count) return Relation::kTogether;
    const bool far = too_far >= std::max(kFewestApart, count / kApartInTwo);
    proven_ |= cannot_be_one >= kFewestApart ||
               (far && clocks_->is_sure(a.rank, b.rank));
    return far ? Relation::kApart : Relation::kUnsure;
  }

  /// To the first of the group, unless what is sure tells it apart from others.
  Relation relation(const StreamGroup& group, const CallStream& stream) {
    const Relation found = relation(*group.streams.front(), stream);
    if (found != Relation::kTogether) return found;
    const bool apart =
        std::any_of(group.streams.begin() + 1, group.streams.end(),
                    [&](const CallStream* one) {
                      return clocks_->is_sure(one->rank, stream.rank) &&
                             relation(*one, stream) == Relation::kApart;
                    });
    return apart ? Relation::kApart : found;
  }

  /// Into the group that it belongs to, or one of its own; false if that stays
  /// open.
  bool place(const CallStream& stream) {
    StreamGroup* own = nullptr;
    for (StreamGroup& group : groups_) {
      const Relation found = relation(group, stream);
      if (found == Relation::kUnsure) return false;
      if (found != Relation::kTogether) continue;
      if (own != nullptr || group.ranks.back() == stream.rank) return false;
      own = &group;
    }
    if (own == nullptr) own = &groups_.emplace_back();
    own->ranks.push_back(stream.rank);
    own->streams.push_back(&stream);
    return true;
  }

  /// How far apart two streams leave all their calls; nothing if not together.
  std::optional<int64_t> together_ns(const CallStream& one,
                                     const CallStream& other) {
    const bool in_order = one.rank < other.rank;
    const CallStream& a = in_order ? one : other;
    const CallStream& b = in_order ? other : one;
    if (a.rank == b.rank || a.messages || b.messages ||
        relation(a, b) != Relation::kTogether)
      return std::nullopt;
    const auto line = clocks_->clocks_of(a.rank, b.rank);
    return clocks_->apart_ns(a, b, line.value_or(clocks_->line_of(a, b)));
  }

  /// Where several groups leave at about one time, as those of data parallelism
  /// beside tensor parallelism do: into the one that is about as close as the
  /// closest of all streams.
  bool place_by_closest(const CallStream& stream) {
    std::optional<int64_t> closest_ns;
    for (const CallStream& one : all_) {
      const auto apart_ns = together_ns(one, stream);
      if (apart_ns)
        closest_ns = std::min(*apart_ns, closest_ns.value_or(*apart_ns));
    }
    if (!closest_ns) return false;
    const int64_t more_ns =
        kClockResolution * static_cast<int64_t>(stream.calls.size());
    StreamGroup* own = nullptr;
    int64_t own_ns = 0;
    for (StreamGroup& group : groups_) {
      if (group.ranks.back() == stream.rank) continue;
      const auto apart_ns = together_ns(*group.streams.front(), stream);
      if (!apart_ns || (*apart_ns - more_ns) / kAboutAsClose > *closest_ns)
        continue;
      if (own != nullptr && *apart_ns >= own_ns) continue;
      own = &group;
      own_ns = *apart_ns;
    }
    if (own == nullptr) own = &groups_.emplace_back();
    own->ranks.push_back(stream.rank);
    own->streams.push_back(&stream);
    return true;
  }

  /// Whether each stream found its group.
  bool place_all(bool (StreamGroups::*place_one)(const CallStream&)) {
    groups_.clear();
    return std::all_of(all_.begin(), all_.end(), [&](const CallStream& stream) {
      return stream.messages || (this->*place_one)(stream);
    });
  }

  /// Several streams of the same ranks count on.
  void number() {
    GroupNumbers numbers(calls_.groups);
    std::map<int32_t, int64_t> called;  // How often so far, by group.
    int64_t named = 0;
    for (const StreamGroup& group : groups_) {
      const int32_t number = numbers.of(group.ranks);
      int64_t& next = called[number];
      const size_t count = group.streams.front()->calls.size();
      for (const CallStream* stream : group.streams) {
        for (size_t k = 0; k < count; ++k) {
          CollectiveCall& one = calls_.calls[stream->calls[k]];
          one.group = number;
          one.group_size = static_cast<int64_t>(group.ranks.size());
          one.sequence = next + static_cast<int64_t>(k);
        }
      }
      next += static_cast<int64_t>(count);
      named += static_cast<int64_t>(count);
    }
    calls_.notes.push_back(fmt::format(
        "{} collectives name no communicator: each is taken to be of the ranks "
        "whose streams leave theirs at one time, in {} groups.",
        named, called.size()));
  }

  CollectiveCalls& calls_;
  const std::vector<RankInfo>& ranks_;
  std::vector<CallStream> all_;  // By rank.
  std::optional<StreamClocks> clocks_;
  std::vector<StreamGroup> groups_;
  /// Some calls of streams apart cannot be one.
  bool proven_ = false;
};

}  // namespace

void infer_stream_groups(CollectiveCalls& calls,
                         const std::vector<RankInfo>& ranks) {
  StreamGroups(calls, ranks).run();
}

}  // namespace reprise

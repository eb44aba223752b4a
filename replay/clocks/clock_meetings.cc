#include "replay/clocks/clock_meetings.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "data/trace/step_times.h"
#include "replay/collectives/collective_name.h"

namespace reprise {
namespace {

int64_t clamped(__int128 value) {
  constexpr __int128 kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::clamp(value, -kMost, kMost));
}

size_t place_of(const Trace& trace, uint32_t rank) {
  if (rank < trace.ranks.size() && trace.ranks[rank].rank == rank) return rank;
  const auto found =
      std::find_if(trace.ranks.begin(), trace.ranks.end(),
                   [rank](const RankInfo& info) { return info.rank == rank; });
  return static_cast<size_t>(found - trace.ranks.begin());
}

}  // namespace

void Greatest::add(int64_t value, size_t owner) {
  if (value > first) {
    second = first;
    first = value;
    whose = owner;
  } else if (value > second) {
    second = value;
  }
}

ClockMeetings::ClockMeetings(const TraceByRank& by_rank,
                             const CollectiveMatching& matching)
    : parts_of_(by_rank.frame().ranks.size()),
      first_event_ns_(parts_of_.size(), 0),
      last_event_ns_(parts_of_.size(), 0) {
  const Trace& trace = by_rank.frame();
  for (size_t part = 0; part < by_rank.size(); ++part) {
    const TraceByRank::Span span = by_rank.span(part);
    const size_t place = place_of(trace, span.rank);
    if (place >= parts_of_.size()) continue;
    first_event_ns_[place] = span.start_ns;
    last_event_ns_[place] = span.end_ns;
  }
  using Kind = std::tuple<CollectiveKind, int64_t, int64_t>;
  std::map<Kind, int64_t> least;
  std::vector<const int64_t*> least_of;  // [meeting]
  for (const MatchedCollective& collective : matching.collectives) {
    add_meetings(
        trace, collective,
        collective.exchange < 0
            ? nullptr
            : &matching.exchanges[static_cast<size_t>(collective.exchange)]);
    if (least_of.size() == meetings_.size()) continue;
    int64_t& value = least
                         .try_emplace({collective.kind, collective.bytes,
                                       collective.group_size},
                                      std::numeric_limits<int64_t>::max())
                         .first->second;
    for (; least_of.size() < meetings_.size(); least_of.push_back(&value))
      value = std::min(value, meetings_[least_of.size()].stay_ns);
  }
  for (size_t i = 0; i < meetings_.size(); ++i) {
    meetings_[i].least_ns = *least_of[i];
  }
}

void ClockMeetings::add_meetings(const Trace& trace,
                                 const MatchedCollective& collective,
                                 const std::vector<RankGroup>* senders) {
  const bool pair = collective.sender >= 0;
  // Older traces of our trainer do not tell kinds, and hold none but meetings.
  const bool is_old =
      collective.by_trainer && collective.kind == CollectiveKind::kUnknown;
  if (!pair && !is_old && !collective.both_ways && senders == nullptr &&
      !facts_of(collective.kind).joins_all_ranks)
    return;
  std::vector<Part> parts;
  std::map<uint32_t, Part> of_rank;
  for (const CollectiveMember& member : collective.members) {
    const size_t place = place_of(trace, member.rank);
    if (place >= parts_of_.size()) continue;
    if (!is_timed(trace.ranks[place])) continue;
    const bool sends = static_cast<int64_t>(member.rank) == collective.sender;
    parts.push_back({.place = place,
                     .start_ns = member.start_ns,
                     .end_ns = member.end_ns,
                     .gives = !pair || sends,
                     .takes = !pair || !sends});
    if (senders != nullptr) of_rank[member.rank] = parts.back();
  }
  if (senders == nullptr) {
    add_meeting(std::move(parts), !pair, collective.on_device);
    return;
  }
  // Each message is a meeting of two.
  for (size_t i = 0; i < collective.members.size(); ++i) {
    const auto to = of_rank.find(collective.members[i].rank);
    for (const uint32_t rank : (*senders)[i]) {
      const auto from = of_rank.find(rank);
      if (from == to || from == of_rank.end() || to == of_rank.end()) continue;
      Part gives = from->second, takes = to->second;
      gives.takes = takes.gives = false;
      add_meeting({gives, takes}, false, collective.on_device);
    }
  }
}

void ClockMeetings::add_meeting(std::vector<Part> parts, bool joins,
                                bool on_device) {
  if (parts.size() < 2) return;
  int64_t stay_ns = std::numeric_limits<int64_t>::max();
  for (Part& part : parts) {
    part.meeting = meetings_.size();
    stay_ns = std::min(
        stay_ns, clamped(static_cast<__int128>(part.end_ns) - part.start_ns));
    parts_of_[part.place].push_back(parts_.size());
    parts_.push_back(part);
  }
  meetings_.push_back({.first_part = parts_.size() - parts.size(),
                       .part_count = parts.size(),
                       .stay_ns = stay_ns,
                       .on_device = on_device,
                       .joins = joins,
                       .start = {},
                       .end = {},
                       .negative_end = {}});
}

void ClockMeetings::clear() {
  for (Meeting& meeting : meetings_) {
    meeting.start = meeting.end = meeting.negative_end = {};
    meeting.ends_sum_ns = 0;
    meeting.ends = 0;
  }
}

void ClockMeetings::know(const RankInfo& clock, size_t place,
                         const Unsure& unsure) {
  for (const size_t i : parts_of_[place]) {
    const Part& part = parts_[i];
    Meeting& meeting = meetings_[part.meeting];
    const int64_t start_ns = to_rank0_ns(clock, part.start_ns);
    const int64_t end_ns = to_rank0_ns(clock, part.end_ns);
    const auto add = [&](Greatest& greatest, __int128 time_ns, int64_t by_ns) {
      if (by_ns != Unsure::kUnknown)
        greatest.add(clamped(time_ns - by_ns), place);
    };
    if (part.gives) add(meeting.start, start_ns, unsure.below_ns);
    add(meeting.end, end_ns, unsure.below_ns);
    if (part.takes)
      add(meeting.negative_end, -__int128{end_ns}, unsure.above_ns);
    if (meeting.ends++ == 0) meeting.first_end_ns = end_ns;
    meeting.ends_sum_ns += difference(end_ns, meeting.first_end_ns);
  }
}

bool ClockMeetings::meets_known(size_t place) const {
  return std::any_of(
      parts_of_[place].begin(), parts_of_[place].end(),
      [&](size_t i) { return meetings_[parts_[i].meeting].ends > 0; });
}

int64_t ClockMeetings::reference_ns(size_t place) const {
  if (parts_of_[place].empty()) return first_event_ns_[place];
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  for (const size_t i : parts_of_[place]) {
    first_ns = std::min(first_ns, parts_[i].start_ns);
  }
  return first_ns;
}

ClockLine ClockMeetings::line_of(const RankInfo& clock, size_t place,
                                 int64_t offset_ns) const {
  const double drift = clock.clock_drift_ppm * 1e-6;
  const double since =
      difference(reference_ns(place), clock.clock_reference_ns);
  return {difference(clock.clock_offset_ns, offset_ns) + drift * since, drift};
}

std::pair<double, double> ClockMeetings::span_of(size_t place) const {
  const int64_t reference = reference_ns(place);
  return {difference(first_event_ns_[place], reference),
          difference(last_event_ns_[place], reference)};
}

std::pair<int64_t, int64_t> ClockMeetings::met_between(size_t place) const {
  const int64_t first_ns = reference_ns(place);
  int64_t last_ns = first_ns;
  for (const size_t i : parts_of_[place]) {
    last_ns = std::max(last_ns, parts_[i].end_ns);
  }
  return {first_ns, last_ns};
}

int64_t ClockMeetings::rough_offset_ns(size_t place) const {
  for (const size_t i : parts_of_[place]) {
    const Meeting& meeting = meetings_[parts_[i].meeting];
    if (meeting.ends == 0) continue;
    return clamped(static_cast<__int128>(meeting.first_end_ns) -
                   parts_[i].end_ns);
  }
  return 0;
}

ClockMeetings::Bounds ClockMeetings::bounds_of(size_t place, int64_t offset_ns,
                                               double least_share) const {
  Bounds bounds;
  const int64_t reference = reference_ns(place);
  for (const size_t i : parts_of_[place]) {
    const Part& part = parts_[i];
    const Meeting& meeting = meetings_[part.meeting];
    const int64_t start_ns = meeting.start.without(place);
    const int64_t negative_end_ns = meeting.negative_end.without(place);
    const double least = least_share * static_cast<double>(meeting.least_ns);
    const double at_start = difference(part.start_ns, reference);
    const double at_end = difference(part.end_ns, reference);
    const bool from_below = part.takes && start_ns != Greatest::kNone;
    const bool from_above = part.gives && negative_end_ns != Greatest::kNone;
    if (from_below) {
      bounds.low.push_back(
          {at_end, difference(start_ns, part.end_ns, offset_ns) + least});
    }
    if (from_above) {
      // Minus the negative end, minus the own start.
      const __int128 high =
          -(static_cast<__int128>(negative_end_ns) + part.start_ns + offset_ns);
      bounds.high.push_back({at_start, static_cast<double>(high) - least});
    }
    if (!from_below && !from_above) continue;
    ++bounds.meetings;
    if (!from_below || !from_above || meeting.ends == 0) continue;
    const double mean =
        difference(meeting.first_end_ns, part.end_ns, offset_ns) +
        meeting.ends_sum_ns / static_cast<double>(meeting.ends);
    bounds.ends.push_back({at_end, mean});
  }
  return bounds;
}

ClockMeetings::Bounds ClockMeetings::end_bounds_of(size_t place,
                                                   int64_t offset_ns) const {
  // Older profilers print whole microseconds, of starts and of durations.
  constexpr double kResolutionNs = 2000;
  // By so much more than the shortest stay hosts may leave apart. Source: 281
  // collectives in 20 jobs of PyTorch 2.15 by Gloo, two or three ranks on two
  // cores of one VM: 7.6 ms at most (ours, November 2026).
  constexpr double kHostNs = 8e6;
  Bounds bounds;
  const int64_t reference = reference_ns(place);
  for (const size_t i : parts_of_[place]) {
    const Part& part = parts_[i];
    const Meeting& meeting = meetings_[part.meeting];
    const int64_t end_ns = meeting.end.without(place);
    const int64_t negative_end_ns = meeting.negative_end.without(place);
    if (!meeting.joins) continue;
    const double apart = static_cast<double>(meeting.stay_ns) + kResolutionNs +
                         (meeting.on_device ? 0 : kHostNs);
    const double at = difference(part.end_ns, reference);
    if (end_ns != Greatest::kNone) {
      bounds.low.push_back(
          {at, difference(end_ns, part.end_ns, offset_ns) - apart});
    }
    if (negative_end_ns != Greatest::kNone) {
      const __int128 high =
          -(static_cast<__int128>(negative_end_ns) + part.end_ns + offset_ns);
      bounds.high.push_back({at, static_cast<double>(high) + apart});
    }
    ++bounds.meetings;
  }
  return bounds;
}

// Adds each part's breach with the last of the others to come.
void ClockMeetings::add_breaches(const Meeting& meeting,
                                 const std::vector<RankInfo>& ranks,
                                 double least_share,
                                 std::vector<Breach>& found) const {
  const auto least_ns =
      meeting.joins ? int64_t{0}
                    : static_cast<int64_t>(
                          least_share * static_cast<double>(meeting.least_ns));
  const Part* const parts = &parts_[meeting.first_part];
  const size_t nobody = meeting.part_count;
  Greatest start;
  size_t last = nobody, last_but_one = nobody;
  for (size_t i = 0; i < nobody; ++i) {
    if (!parts[i].gives) continue;
    const Greatest before = start;
    start.add(to_rank0_ns(ranks[parts[i].place], parts[i].start_ns), i);
    if (start.first > before.first) {
      last_but_one = std::exchange(last, i);
    } else if (start.second > before.second) {
      last_but_one = i;
    }
  }
  for (size_t i = 0; i < nobody; ++i) {
    const size_t comes = i == last ? last_but_one : last;
    if (!parts[i].takes || comes == nobody) continue;
    const int64_t end_ns = to_rank0_ns(ranks[parts[i].place], parts[i].end_ns);
    const __int128 early_ns =
        static_cast<__int128>(start.without(i)) + least_ns - end_ns;
    if (early_ns <= 0) continue;
    found.push_back(
        {.leaves = parts[i].place,
         .comes = parts[comes].place,
         .left_ns = parts[i].end_ns,
         .came_ns =
             clamped(static_cast<__int128>(parts[comes].start_ns) + least_ns),
         .early_ns = clamped(early_ns)});
  }
}

std::vector<ClockMeetings::Breach> ClockMeetings::breaches(
    const std::vector<RankInfo>& ranks, size_t most, double least_share) const {
  std::vector<Breach> found;
  for (const Meeting& meeting : meetings_)
    add_breaches(meeting, ranks, least_share, found);
  std::stable_sort(
      found.begin(), found.end(),
      [](const Breach& a, const Breach& b) { return a.early_ns > b.early_ns; });
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace reprise

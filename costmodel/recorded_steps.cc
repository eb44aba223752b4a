// Sorts the events of a trace into steps and ranks on one clock. A collective
// begins when its last rank has arrived and ends at the mean of the ranks'
// ends: what a rank stayed before is wait, its neighbour's fault, and is no
// price. A collective need not be a barrier, though: a rank that comes first
// and leaves first keeps its lead over many of them, and its neighbours' link
// is busy for all of that time. So a lead that a rank kept counts as if it had
// stayed. (A step of sharded weights over a shaped link, two hosts: leads of 3
// of 13 ms; taken for waits, twice the bandwidth was promised 10 % too little.)
// Cost: O(events log events) a step, and O(transfers) for each collective
// event.
#include "costmodel/recorded_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "data/trace/intervals.h"

namespace reprise {
namespace {

/// Sums and differences of a few such times stay within 64 bits: 18 years since
/// a clock's start, 19 hours for one step or event.
constexpr int64_t kLatest_ns = int64_t{1} << 59, kLongest_ns = int64_t{1} << 46;
constexpr double kSteepestDrift_ppm = 1e6;

bool is_time(int64_t time_ns) {
  return time_ns >= -kLatest_ns && time_ns <= kLatest_ns;
}

template <typename Span>
bool is_span(const Span& span) {
  return is_time(span.start_ns) && is_time(span.end_ns) &&
         span.end_ns - span.start_ns <= kLongest_ns;
}

class Builder {
 public:
  Builder(const Trace& trace, const Schedule& recorded)
      : trace_(trace), recorded_(recorded) {}

  Result<std::vector<RecordedStep>> build() {
    if (const Status found = find_ranks(); !found) return pass(found.error());
    if (const Status sane = check_times(); !sane) return pass(sane.error());
    find_steps();
    if (steps_.empty()) {
      return fail(ErrorKind::kInvalid,
                  "trace: no complete step after the warm-up");
    }
    if (const Status placed = place_events(); !placed) {
      return pass(placed.error());
    }
    std::vector<RecordedStep> result;
    for (auto& [number, step] : steps_) {
      finish(step);
      result.push_back(std::move(step));
    }
    return result;
  }

 private:
  Status find_ranks() {
    infos_.resize(trace_.ranks.size());
    for (const RankInfo& info : trace_.ranks) {
      if (info.rank >= infos_.size()) {
        return fail(ErrorKind::kInvalid, "trace: rank {} of {} is out of range",
                    info.rank, infos_.size());
      }
      infos_[info.rank] = info;
    }
    return {};
  }

  Status check_times() const {
    for (const RankInfo& info : trace_.ranks) {
      if (is_time(info.clock_offset_ns) && is_time(info.clock_reference_ns) &&
          std::abs(info.clock_drift_ppm) <= kSteepestDrift_ppm) {
        continue;
      }
      return fail(ErrorKind::kInvalid,
                  "trace: rank {}: no clock is {} ns and {} ppm off", info.rank,
                  info.clock_offset_ns, info.clock_drift_ppm);
    }
    for (const StepMark& mark : trace_.steps) {
      if (is_span(mark)) continue;
      return fail(ErrorKind::kInvalid,
                  "trace: rank {}: step {} from {} to {} ns is out of range",
                  mark.rank, mark.step, mark.start_ns, mark.end_ns);
    }
    for (const Event& event : trace_.events) {
      if (is_span(event)) continue;
      return fail(ErrorKind::kInvalid,
                  "trace: rank {}: an event of step {} from {} to {} ns is out "
                  "of range",
                  event.rank, event.step, event.start_ns, event.end_ns);
    }
    return {};
  }

  int64_t aligned(uint32_t rank, int64_t time_ns) const {
    return to_rank0_ns(infos_[rank], time_ns);
  }

  void find_steps() {
    std::map<int32_t, size_t> seen;
    for (const StepMark& mark : trace_.steps) {
      if (mark.warmup || mark.rank >= infos_.size()) continue;
      RecordedStep& step = steps_[mark.step];
      step.step = mark.step;
      step.ranks.resize(infos_.size());
      RecordedRank& rank = step.ranks[mark.rank];
      rank.start_ns = aligned(mark.rank, mark.start_ns);
      rank.end_ns = aligned(mark.rank, mark.end_ns);
      rank.feed_end_ns = rank.start_ns;
      step.time_ns = std::max(step.time_ns, mark.time_ns());
      ++seen[mark.step];
    }
    std::erase_if(steps_, [&](const auto& entry) {
      return seen[entry.first] != infos_.size();
    });
  }

  Status place_events() {
    for (const Event& event : trace_.events) {
      const auto found = steps_.find(event.step);
      if (found == steps_.end() || event.rank >= infos_.size()) continue;
      RecordedStep& step = found->second;
      const int64_t start_ns = aligned(event.rank, event.start_ns);
      const int64_t end_ns = aligned(event.rank, event.end_ns);
      if (event.kind == EventKind::kFeed) {
        step.ranks[event.rank].feed_ns += end_ns - start_ns;
        step.ranks[event.rank].feed_end_ns = end_ns;
      }
      const bool compute = event.kind == EventKind::kCompute;
      if (!compute && event.kind != EventKind::kCollective) continue;
      const uint32_t unit = static_cast<uint32_t>(event.unit);
      if (event.unit < 0 || unit >= recorded_.units.size() ||
          (recorded_.units[unit].stream == Stream::kCompute) != compute) {
        return fail(ErrorKind::kInvalid,
                    "trace: step {} of rank {} ran unit {}, which the "
                    "schedule of its plan does not have",
                    event.step, event.rank, event.unit);
      }
      if (const Status same = check_name(event, recorded_.units[unit]); !same)
        return same;
      if (compute) {
        step.ranks[event.rank].compute.push_back({unit, start_ns, end_ns, 0});
      } else {
        place_collective(step, event.rank, unit, start_ns, end_ns);
      }
    }
    return {};
  }

  /// Orders of before may be others.
  Status check_name(const Event& event, const Unit& unit) {
    if (index_of(event.name) >= trace_.strings.size()) return {};
    const std::string& recorded = trace_.text(event.name);
    if (recorded.empty() || recorded == unit.name) return {};
    return fail(ErrorKind::kInvalid,
                "trace: step {} ran '{}' where this version of Reprise has "
                "'{}'; record it again",
                event.step, recorded, unit.name);
  }

  // Who meets the rank in a collective, ascending: all where groups are not
  // told, itself alone where it is in none of them.
  std::vector<uint32_t> members_of(uint32_t unit, uint32_t rank) const {
    const CollectiveSpec& collective = recorded_.units[unit].collective;
    std::vector<uint32_t> members;
    if (collective.groups.empty()) {
      members.resize(infos_.size());
      std::iota(members.begin(), members.end(), 0U);
      return members;
    }
    const std::vector<int64_t>* const group = group_of(collective, rank);
    for (size_t i = 0; group != nullptr && i < group->size(); ++i) {
      const auto member = static_cast<size_t>((*group)[i]);
      if (member < infos_.size())
        members.push_back(static_cast<uint32_t>(member));
    }
    if (members.empty()) members.push_back(rank);
    std::sort(members.begin(), members.end());
    return members;
  }

  void place_collective(RecordedStep& step, uint32_t rank, uint32_t unit,
                        int64_t start_ns, int64_t end_ns) {
    auto at = std::find_if(step.transfers.begin(), step.transfers.end(),
                           [&](const RecordedTransfer& transfer) {
                             return transfer.unit == unit &&
                                    transfer.place_of(rank).has_value();
                           });
    if (at == step.transfers.end()) {
      const auto bytes = recorded_.units[unit].collective.bytes;
      step.transfers.push_back({.unit = unit,
                                .members = members_of(unit, rank),
                                .bytes = static_cast<double>(bytes),
                                .arrival_ns = {},
                                .left_ns = {},
                                .kept_lead_ns = {}});
      at = step.transfers.end() - 1;
      at->arrival_ns.assign(at->members.size(), start_ns);
      at->left_ns.assign(at->members.size(), end_ns);
    }
    const size_t place = *at->place_of(rank);
    at->arrival_ns[place] = start_ns;
    at->left_ns[place] = end_ns;
  }

  static void split_wait(RecordedTransfer& transfer) {
    const int64_t last_ns = std::ranges::max(transfer.arrival_ns);
    const int64_t last_left_ns = std::ranges::max(transfer.left_ns);
    double stayed_ns = 0;
    for (size_t i = 0; i < transfer.members.size(); ++i) {
      const int64_t left_ns = transfer.left_ns[i];
      const int64_t kept_ns =
          std::min(last_left_ns - left_ns, last_ns - transfer.arrival_ns[i]);
      transfer.kept_lead_ns.push_back(kept_ns);
      stayed_ns += static_cast<double>(left_ns + kept_ns - last_ns);
    }
    const double ranks = static_cast<double>(transfer.members.size());
    transfer.start_ns = last_ns;
    transfer.end_ns =
        last_ns + std::max<int64_t>(0, std::llround(stayed_ns / ranks));
  }

  // Splits wait from transfer, then works out what ran beside what.
  void finish(RecordedStep& step) const {
    for (RecordedTransfer& transfer : step.transfers) {
      split_wait(transfer);
    }
    std::sort(step.transfers.begin(), step.transfers.end(),
              [](const RecordedTransfer& a, const RecordedTransfer& b) {
                return std::pair(a.start_ns, a.unit) <
                       std::pair(b.start_ns, b.unit);
              });
    std::vector<Interval> computing;
    for (uint32_t number = 0; number < step.ranks.size(); ++number) {
      RecordedRank& rank = step.ranks[number];
      std::sort(rank.compute.begin(), rank.compute.end(),
                [](const RecordedUnit& a, const RecordedUnit& b) {
                  return std::pair(a.start_ns, a.unit) <
                         std::pair(b.start_ns, b.unit);
                });
      std::vector<Interval> flying;
      for (const RecordedTransfer& transfer : step.transfers) {
        if (const auto place = transfer.place_of(number))
          flying.push_back({transfer.start_ns, transfer.left_ns[*place]});
      }
      const IntervalSet in_flight(std::move(flying));
      for (RecordedUnit& unit : rank.compute) {
        unit.beside_ns = in_flight.length_within_ns(unit.start_ns, unit.end_ns);
        computing.push_back({unit.start_ns, unit.end_ns});
      }
    }
    const IntervalSet in_compute(std::move(computing));
    for (RecordedTransfer& transfer : step.transfers) {
      transfer.beside_ns =
          in_compute.length_within_ns(transfer.start_ns, transfer.end_ns);
    }
  }

  const Trace& trace_;
  const Schedule& recorded_;
  std::vector<RankInfo> infos_;
  std::map<int32_t, RecordedStep> steps_;
};

}  // namespace

Result<std::vector<RecordedStep>> recorded_steps(const Trace& trace,
                                                 const Schedule& recorded) {
  return Builder(trace, recorded).build();
}

}  // namespace reprise

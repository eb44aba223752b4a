#include "replay/graph/trace_graph_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace reprise {
namespace {

void note(std::vector<std::string>& notes, int64_t count,
          std::string_view what) {
  if (count > 0) notes.push_back(fmt::format("{} {}", count, what));
}

}  // namespace

std::vector<std::string> notes_of(const GraphTally& tally, int64_t repaired) {
  std::vector<std::string> notes;
  note(notes, tally.untimed_ranks,
       "ranks without times are left out beside ranks with times.");
  note(notes, tally.polls,
       "calls on threads that only watch the device are left out.");
  note(notes, tally.whole_graphs,
       "launches of CUDA graphs were traced whole: what ran inside, waits for "
       "other ranks too, counts as work of the device.");
  note(notes, tally.no_launch,
       "device events have no launch record; stream order and recorded starts "
       "stand in for it.");
  note(notes, tally.bad_launch,
       "device events begin long before the call that claims to have launched "
       "them; that call is not followed.");
  note(notes, tally.overlaps,
       "device events overlap the one before them on their stream; they follow "
       "from start to start.");
  note(notes, tally.waits_without_source,
       "host synchronizations waited for nothing that was recorded; their "
       "recorded time is replayed.");
  note(notes, tally.early_leavers,
       "members left their collective before the last one arrived; they do not "
       "wait for it.");
  note(notes, tally.assumed_waits,
       fmt::format("waits of a stream for another are told by times alone, "
                   "within an assumed {} us: too few waits were recorded to "
                   "measure what one takes.",
                   kAssumedWaitLatency / 1e3));
  note(notes, tally.producer_waits,
       "collectives are taken to wait for what was launched before them, as "
       "all that did so began after it: no stream's wait was recorded.");
  note(notes, tally.dangling,
       "recorded dependencies name events that are not there.");
  note(notes, tally.contradicted,
       "dependencies contradict recorded times and are left out.");
  note(notes, repaired, "edges would have closed a cycle and are left out.");
  return notes;
}

void RankDraft::forget_events(uint32_t first) {
  for (StreamNodes& row : flat) {
    row.first += first;
    row.last += first;
  }
  release(recorded_streams);
  release(threads);
  release(streams);
  release(host_waits);
  release(operator_waits);
  release(awaited);
  release(stream_waits);
  release(calls);
}

RankClock::RankClock(const RankInfo& rank)
    : offset_ns_(within(rank.clock_offset_ns, kLatest)),
      drift_(std::clamp(rank.clock_drift_ppm, -1e6, 1e6) * 1e-6),
      reference_ns_(static_cast<double>(rank.clock_reference_ns)) {
  if (!std::isfinite(drift_)) drift_ = 0;
}

int64_t RankClock::at(int64_t time_ns) const {
  int64_t sum_ns = within(time_ns, kLatest) + offset_ns_;
  if (drift_ != 0) {
    const double turned_ns =
        drift_ * (static_cast<double>(time_ns) - reference_ns_);
    sum_ns = within(sum_ns, kLatest) +
             std::llround(std::clamp(turned_ns, -4e18, 4e18));
  }
  return within(sum_ns, kLatest);
}

void GraphDraft::forget_rank() {
  release(nodes);
  release(edges);
  release(by_stream);
  for (auto* column : {&launch_of, &child_of, &first_node, &last_node}) {
    release(*column);
  }
  release(time);
}

uint32_t GraphDraft::place_of(uint32_t rank) const {
  const auto found = std::lower_bound(places.begin(), places.end(),
                                      std::pair(rank, uint32_t{0}));
  return found != places.end() && found->first == rank ? found->second
                                                       : kNoNode;
}

}  // namespace reprise

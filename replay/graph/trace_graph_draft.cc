#include "replay/graph/trace_graph_draft.h"

#include <algorithm>
#include <cmath>

namespace reprise {

void RankDraft::forget_events(uint32_t first) {
  for (StreamNodes& row : flat) {
    row.first += first;
    row.last += first;
  }
  release(recorded_streams);
  release(threads);
  release(streams);
  release(host_waits);
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
  for (ByEvent* column : {&launch_of, &child_of, &first_node, &last_node}) {
    release(*column);
  }
}

uint32_t GraphDraft::place_of(uint32_t rank) const {
  const auto found = std::lower_bound(places.begin(), places.end(),
                                      std::pair(rank, uint32_t{0}));
  return found != places.end() && found->first == rank ? found->second
                                                       : kNoNode;
}

}  // namespace reprise

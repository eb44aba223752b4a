#include "tests/replay/clocks/shifted_clocks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "replay/collectives/collective_name.h"
#include "replay/collectives/collectives.h"

namespace reprise {
namespace {

size_t place_of(const Trace& trace, uint32_t rank) {
  size_t place = 0;
  while (trace.ranks.at(place).rank != rank) ++place;
  return place;
}

}  // namespace

int64_t ClockShifts::shown_ns(size_t place, int64_t true_ns) const {
  const double since = static_cast<double>(true_ns - reference_ns);
  return true_ns + offset_ns[place] +
         std::llround(drift_ppm[place] * 1e-6 * since);
}

ClockShifts random_shifts(const Trace& trace, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int64_t> offset(-10'000'000, 10'000'000);
  std::uniform_real_distribution<double> drift(-50, 50);
  ClockShifts shifts;
  shifts.reference_ns = trace.events.empty() ? 0 : trace.events[0].start_ns;
  for (size_t place = 0; place < trace.ranks.size(); ++place) {
    shifts.offset_ns.push_back(offset(random));
    shifts.drift_ppm.push_back(drift(random));
  }
  return shifts;
}

Trace shifted(Trace trace, const ClockShifts& shifts) {
  for (Event& event : trace.events) {
    const size_t place = place_of(trace, event.rank);
    event.enqueue_ns = shifts.shown_ns(place, event.enqueue_ns);
    event.start_ns = shifts.shown_ns(place, event.start_ns);
    event.end_ns = shifts.shown_ns(place, event.end_ns);
  }
  for (StepMark& step : trace.steps) {
    const size_t place = place_of(trace, step.rank);
    step.start_ns = shifts.shown_ns(place, step.start_ns);
    step.end_ns = shifts.shown_ns(place, step.end_ns);
  }
  return trace;
}

int64_t worst_error_ns(const Trace& aligned, const Trace& truth,
                       const ClockShifts& shifts, size_t place) {
  const RankInfo& info = aligned.ranks[place];
  int64_t worst = 0;
  for (size_t i = 0; i < aligned.events.size(); ++i) {
    if (aligned.events[i].rank != info.rank) continue;
    const auto error = [&](int64_t shown_ns, int64_t true_ns) {
      return std::abs(to_rank0_ns(info, shown_ns) -
                      shifts.shown_ns(0, true_ns));
    };
    worst = std::max(
        {worst, error(aligned.events[i].start_ns, truth.events[i].start_ns),
         error(aligned.events[i].end_ns, truth.events[i].end_ns)});
  }
  return worst;
}

int64_t worst_acausality_ns(const Trace& aligned) {
  int64_t worst = 0;
  for (const MatchedCollective& collective :
       match_collectives(aligned).collectives) {
    if (!facts_of(collective.kind).joins_all_ranks) continue;
    int64_t last_start = INT64_MIN, first_end = INT64_MAX;
    for (const CollectiveMember& member : collective.members) {
      const RankInfo& info = aligned.ranks[place_of(aligned, member.rank)];
      const Event& event = aligned.events[member.event];
      last_start = std::max(last_start, to_rank0_ns(info, event.start_ns));
      first_end = std::min(first_end, to_rank0_ns(info, event.end_ns));
    }
    worst = std::max(worst, last_start - first_end);
  }
  return worst;
}

}  // namespace reprise

#include "replay/analysis/no_timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/trace/step_times.h"

namespace reprise {
namespace {

bool has_durations(const TraceByRank& by_rank) {
  for (size_t part = 0; part < by_rank.size(); ++part) {
    const RankEvents events = by_rank.at(part);
    const auto begin = events.trace.events.begin();
    if (std::any_of(begin + events.first, begin + events.last,
                    [](const Event& e) { return e.end_ns > e.start_ns; }))
      return true;
  }
  return false;
}

}  // namespace

std::string what_no_timeline_has(const TraceByRank& by_rank) {
  const Trace& trace = by_rank.frame();
  const size_t count = by_rank.event_count();
  if (count == 0 && !trace.measurements.empty()) {
    return fmt::format(
        "the trace holds {} cost points but no times, so there is no timeline "
        "to analyse; `reprise optimize --costs` takes it",
        trace.measurements.size());
  }
  if (std::any_of(trace.ranks.begin(), trace.ranks.end(), is_timed)) return {};
  if (count == 0) {
    return "the trace holds no events, so there is no timeline to analyse";
  }
  if (has_durations(by_rank)) {
    return fmt::format(
        "the trace holds durations and dependencies of {} events but no times, "
        "so there is no timeline to analyse; `reprise replay` gives it one",
        count);
  }
  return fmt::format(
      "the trace holds {} events in their order but no times or durations, so "
      "there is no timeline to analyse; join it with a timed trace of the same "
      "run",
      count);
}

}  // namespace reprise

#include "replay/clocks/aligned_trace.h"

#include "replay/collectives/posted_arrivals.h"

namespace reprise {

void AlignedTrace::align() {
  if (!is_solo(frame())) clocks_ = align_clocks(trace_, matching_);
  settle_posted_messages(matching_, frame());
}

AlignedTrace AlignedTrace::align(Trace trace) {
  AlignedTrace aligned(TraceByRank(std::move(trace)));
  aligned.align();
  return aligned;
}

Result<AlignedTrace> AlignedTrace::read(const std::string& path,
                                        size_t most_events,
                                        const ProgressWatcher& watch) {
  CollectiveCallFinder calls;
  Result<TraceByRank> trace = TraceByRank::read(
      path, most_events, [&](const RankEvents& events) { calls.add(events); },
      watch);
  if (!trace) return pass(trace.error());
  AlignedTrace aligned(*std::move(trace), std::move(calls));
  aligned.align();
  return aligned;
}

AlignedTrace AlignedTrace::as_recorded(Trace trace) {
  AlignedTrace aligned(TraceByRank(std::move(trace)));
  settle_posted_messages(aligned.matching_, aligned.frame());
  return aligned;
}

bool is_solo(const Trace& trace) {
  const auto solo = trace.environment.find("solo");
  return solo != trace.environment.end() && solo->second == "1";
}

}  // namespace reprise

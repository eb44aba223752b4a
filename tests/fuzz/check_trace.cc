#include "tests/fuzz/check_trace.h"

#include <tuple>

namespace reprise {
namespace {

void check_event(const Trace& trace, const Event& event) {
  REPRISE_CHECK(event.start_ns <= event.end_ns);
  REPRISE_CHECK(event.stream < trace.streams.size());
  REPRISE_CHECK(trace.streams[event.stream].rank == event.rank);
  REPRISE_CHECK(index_of(event.name) < trace.strings.size());
  REPRISE_CHECK(event.kind <= kLastEventKind);
  REPRISE_CHECK(event.bytes >= 0);
  REPRISE_CHECK(event.attributes < static_cast<int64_t>(trace.strings.size()));
  const size_t details = event.kind == EventKind::kSynchronization
                             ? trace.synchronizations.size()
                             : trace.collectives.size();
  REPRISE_CHECK(event.detail < static_cast<int64_t>(details));
}

}  // namespace

void check_trace(const Trace& trace) {
  const auto key = [](const Event& event) {
    return std::tuple(event.rank, event.start_ns, event.stream);
  };
  for (size_t i = 0; i < trace.events.size(); ++i) {
    check_event(trace, trace.events[i]);
    REPRISE_CHECK(i == 0 || key(trace.events[i - 1]) <= key(trace.events[i]));
  }
  for (const StepMark& step : trace.steps) {
    REPRISE_CHECK(step.start_ns <= step.end_ns);
  }
  for (const Measurement& measurement : trace.measurements) {
    REPRISE_CHECK(measurement.median_ns >= 0 && measurement.spread_ns >= 0);
  }
}

}  // namespace reprise

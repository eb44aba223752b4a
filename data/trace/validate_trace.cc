#include "data/trace/validate_trace.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

namespace reprise {
namespace {

Status validate_events(const Trace& trace) {
  const auto key = [](const Event& e) {
    return std::tie(e.rank, e.start_ns, e.stream);
  };
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (const std::string fault = fault_of(event, trace); !fault.empty())
      return fail(ErrorKind::kInvalid, "event {}: {}", i, fault);
    if (i > 0 && key(event) < key(trace.events[i - 1])) {
      return fail(ErrorKind::kInvalid,
                  "event {} is out of order (rank, start, stream)", i);
    }
  }
  return {};
}

Status validate_ranks(const Trace& trace) {
  for (size_t i = 0; i < trace.ranks.size(); ++i) {
    if (!std::isfinite(trace.ranks[i].clock_drift_ppm)) {
      return fail(ErrorKind::kInvalid, "rank {}: clock drift is not a number",
                  trace.ranks[i].rank);
    }
    if (i > 0 && trace.ranks[i].rank <= trace.ranks[i - 1].rank) {
      return fail(ErrorKind::kInvalid, "rank {} stands after rank {}",
                  trace.ranks[i].rank, trace.ranks[i - 1].rank);
    }
  }
  return {};
}

Status validate_steps(const Trace& trace) {
  const auto key = [](const StepMark& mark) {
    return std::tie(mark.rank, mark.step);
  };
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const StepMark& step = trace.steps[i];
    if (step.end_ns < step.start_ns ||
        (i > 0 && key(step) < key(trace.steps[i - 1]))) {
      return fail(ErrorKind::kInvalid,
                  "step mark {} (rank {}, step {}) is out of order", i,
                  step.rank, step.step);
    }
  }
  return {};
}

/// Streams, collectives, synchronizations and dependencies.
Status validate_details(const Trace& trace) {
  for (size_t i = 0; i < trace.streams.size(); ++i) {
    if (trace.streams[i].kind > kLastStreamKind)
      return fail(ErrorKind::kInvalid, "stream {}: unknown kind", i);
  }
  for (size_t i = 0; i < trace.collectives.size(); ++i) {
    const std::vector<uint32_t>& group = trace.collectives[i].group;
    if (std::adjacent_find(group.begin(), group.end(), std::greater_equal{}) !=
        group.end()) {
      return fail(ErrorKind::kInvalid,
                  "collective {}: members of its group do not ascend", i);
    }
  }
  for (size_t i = 0; i < trace.synchronizations.size(); ++i) {
    if (trace.synchronizations[i].kind > kLastSynchronizationKind)
      return fail(ErrorKind::kInvalid, "synchronization {}: unknown kind", i);
  }
  if (!std::is_sorted(trace.dependencies.begin(), trace.dependencies.end(),
                      is_before)) {
    return fail(ErrorKind::kInvalid, "dependencies are out of order");
  }
  return {};
}

Status validate_measurements(const Trace& trace) {
  for (const Measurement& measurement : trace.measurements) {
    if (measurement.median_ns >= 0 && measurement.spread_ns >= 0) continue;
    return fail(ErrorKind::kInvalid, "measurement \"{}\": {} ns +- {} ns",
                measurement.key, measurement.median_ns, measurement.spread_ns);
  }
  return {};
}

}  // namespace

std::string fault_of(const Event& event, const Trace& trace) {
  if (event.stream >= trace.streams.size() ||
      index_of(event.name) >= trace.strings.size()) {
    return fmt::format("stream {} of {} or name {} of {} does not exist",
                       event.stream, trace.streams.size(), index_of(event.name),
                       trace.strings.size());
  }
  if (event.kind > kLastEventKind ||
      event.rank != trace.streams[event.stream].rank) {
    return fmt::format("rank {} has no stream {}, or kind {} is unknown",
                       event.rank, event.stream, static_cast<int>(event.kind));
  }
  if (event.end_ns < event.start_ns) {
    return fmt::format("\"{}\" ends at {}, before its start {}",
                       trace.text(event.name), event.end_ns, event.start_ns);
  }
  const size_t details = event.kind == EventKind::kSynchronization
                             ? trace.synchronizations.size()
                             : trace.collectives.size();
  if (event.detail < -1 || event.detail >= static_cast<int64_t>(details)) {
    return fmt::format("{} {} of {} does not exist", name_of(event.kind),
                       event.detail, details);
  }
  if (event.attributes < -1 ||
      event.attributes >= static_cast<int64_t>(trace.strings.size())) {
    return fmt::format("attributes {} of {} strings do not exist",
                       event.attributes, trace.strings.size());
  }
  return {};
}

bool is_before(const EventDependency& a, const EventDependency& b) {
  return std::tie(a.rank, a.before, a.after) <
         std::tie(b.rank, b.before, b.after);
}

Status validate_trace(const Trace& trace) {
  for (const auto validate : {validate_ranks, validate_steps, validate_details,
                              validate_measurements, validate_events}) {
    if (Status valid = validate(trace); !valid) return valid;
  }
  return {};
}

}  // namespace reprise

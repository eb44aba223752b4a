#include "cli/analysis_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cli/path_output.h"
#include "data/integers.h"
#include "replay/analysis/device_work.h"

namespace reprise {
namespace {

/// Which events belong to a step of their rank: what it launched, and what
/// started within it elsewhere.
std::vector<bool> events_of_step(const Trace& trace, int32_t step) {
  std::vector<bool> held(trace.events.size(), false);
  for (const RankInfo& rank : trace.ranks) {
    const auto [first, last] = events_of_rank(trace, rank.rank);
    for (const StepMark& mark : trace.steps) {
      if (mark.rank != rank.rank || mark.step != step) continue;
      for (size_t i = first; i < last; ++i) {
        held[i] = trace.events[i].start_ns >= mark.start_ns &&
                  trace.events[i].start_ns < mark.end_ns;
      }
    }
    const RankWork work = device_work(trace, rank.rank);
    for (const DeviceEvent& event : work.events) {
      held[event.event] = WorkScope{.step = step}.holds(work, event);
    }
  }
  return held;
}

/// The trace with the held events alone; `place` gets their new places.
Trace cut_to(const Trace& trace, const std::vector<bool>& held, int32_t step,
             std::vector<uint32_t>& place) {
  Trace cut;
  cut.environment = trace.environment;
  cut.strings = trace.strings;
  cut.ranks = trace.ranks;
  cut.streams = trace.streams;
  cut.collectives = trace.collectives;
  cut.synchronizations = trace.synchronizations;
  cut.warnings = trace.warnings;
  for (const StepMark& mark : trace.steps) {
    if (mark.step == step) cut.steps.push_back(mark);
  }
  for (size_t i = 0; i < trace.events.size(); ++i) {
    if (!held[i]) continue;
    place[i] = static_cast<uint32_t>(cut.events.size());
    cut.events.push_back(trace.events[i]);
  }
  return cut;
}

/// Adds all ranks; returns the slice of each event.
std::vector<uint32_t> add_ranks(ChromeTimeline& timeline, const Trace& trace) {
  std::vector<uint32_t> slices(trace.events.size(), kNoSlice);
  for (const RankInfo& rank : trace.ranks) {
    const MeasuredSlices measured =
        add_measured_rank(timeline, trace, rank.rank);
    const auto [first, last] = events_of_rank(trace, rank.rank);
    std::copy(measured.by_event.begin() + static_cast<std::ptrdiff_t>(first),
              measured.by_event.begin() + static_cast<std::ptrdiff_t>(last),
              slices.begin() + static_cast<std::ptrdiff_t>(first));
  }
  for (const std::string& warning : trace.warnings) {
    timeline.add_note("warning", warning);
  }
  return slices;
}

void add_path(ChromeTimeline& timeline, const Trace& trace,
              const CriticalPath& path,
              const std::vector<uint32_t>& slice_of_event) {
  const uint32_t process = timeline.add_process(
      path.step ? fmt::format("critical path of step {}", *path.step)
                : std::string("critical path"));
  std::array<uint32_t, kPathKinds> tracks{};
  for (size_t kind = 0; kind < kPathKinds; ++kind) {
    if (path.by_kind_ns[kind] == 0) continue;
    tracks[kind] = timeline.add_track(
        process, std::string(name_of(static_cast<PathKind>(kind))));
  }
  for (const PathEntry& entry : path.entries) {
    if (entry.duration_ns <= 0) continue;
    timeline.add_slice(tracks[static_cast<size_t>(entry.kind)],
                       std::string(path_name(NodeFacts(trace), entry)),
                       "critical-path", entry.start_ns,
                       saturating_add(entry.start_ns, entry.duration_ns),
                       {{"rank", int64_t{entry.rank}}});
  }
  add_path_arrows(
      path.entries,
      [&](const PathEntry& entry) { return slice_of_event[entry.origin]; },
      timeline);
}

}  // namespace

ChromeTimeline analysis_timeline(const Trace& trace, const Analysis& analysis,
                                 std::optional<int32_t> step) {
  ChromeTimeline timeline;
  std::vector<uint32_t> slice_of_event;
  if (step) {
    std::vector<uint32_t> place(trace.events.size(), kNoSlice);
    const Trace cut = cut_to(trace, events_of_step(trace, *step), *step, place);
    const std::vector<uint32_t> slices = add_ranks(timeline, cut);
    slice_of_event.assign(trace.events.size(), kNoSlice);
    for (size_t i = 0; i < place.size(); ++i) {
      if (place[i] != kNoSlice) slice_of_event[i] = slices[place[i]];
    }
  } else {
    slice_of_event = add_ranks(timeline, trace);
  }
  if (!analysis.critical_path.entries.empty()) {
    add_path(timeline, trace, analysis.critical_path, slice_of_event);
  }
  return timeline;
}

}  // namespace reprise

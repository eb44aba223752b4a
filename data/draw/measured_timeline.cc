// The measured half of a Chrome timeline: a trace's events as slices.
#include <algorithm>
#include <utility>

#include "data/draw/chrome_export.h"

namespace reprise {
namespace {

std::string_view category_of(EventKind kind) {
  return kind == EventKind::kCollective ? "communication" : name_of(kind);
}

std::vector<ChromeTimeline::Argument> arguments_of(const Event& event) {
  std::vector<ChromeTimeline::Argument> arguments;
  arguments.push_back({"step", int64_t{event.step}});
  if (event.unit >= 0) arguments.push_back({"unit", int64_t{event.unit}});
  if (event.kind == EventKind::kCollective) {
    arguments.push_back({"bytes", event.bytes});
    arguments.push_back({"sequence", event.correlation});
    arguments.push_back({"queued_us", (static_cast<double>(event.start_ns) -
                                       static_cast<double>(event.enqueue_ns)) /
                                          1e3});
  }
  return arguments;
}

}  // namespace

MeasuredSlices add_measured_rank(ChromeTimeline& timeline, const Trace& trace,
                                 uint32_t rank, const MeasuredView& view) {
  MeasuredSlices slices{
      .by_event = std::vector<uint32_t>(trace.events.size(), kNoSlice)};
  slices.process =
      timeline.add_process(fmt::format("rank {}{}", rank, view.suffix));
  RankInfo clock;
  for (const RankInfo& info : trace.ranks) {
    if (info.rank == rank) clock = info;
  }
  const auto is_shown = [&](int32_t step) {
    return step >= view.first_step && step <= view.last_step;
  };
  // Drift is far below 1, so order and non-negative lengths survive the clock.
  const auto add = [&](uint32_t track, std::string_view name,
                       std::string_view category, int64_t start_ns,
                       int64_t end_ns,
                       std::vector<ChromeTimeline::Argument> arguments) {
    const int64_t start = to_rank0_ns(clock, start_ns);
    return timeline.add_slice(track, name, category, start,
                              std::max(start, to_rank0_ns(clock, end_ns)),
                              std::move(arguments));
  };
  const uint32_t step_track = timeline.add_track(slices.process, "steps");
  for (const StepMark& mark : trace.steps) {
    if (mark.rank != rank || !is_shown(mark.step)) continue;
    add(step_track,
        fmt::format("step {}{}", mark.step, mark.warmup ? " (warm-up)" : ""),
        "step", mark.start_ns, mark.end_ns, {});
  }
  std::vector<uint32_t> tracks(trace.streams.size(), 0);
  for (size_t i = 0; i < trace.streams.size(); ++i) {
    if (trace.streams[i].rank != rank) continue;
    tracks[i] = timeline.add_track(slices.process, trace.streams[i].name);
  }
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.rank != rank || !is_shown(event.step)) continue;
    slices.by_event[i] = add(tracks[event.stream], trace.text(event.name),
                             category_of(event.kind), event.start_ns,
                             event.end_ns, arguments_of(event));
  }
  return slices;
}

ChromeTimeline timeline_of(const Trace& trace, const MeasuredView& view) {
  ChromeTimeline timeline;
  for (const RankInfo& rank : trace.ranks)
    add_measured_rank(timeline, trace, rank.rank, view);
  for (const std::string& warning : trace.warnings)
    timeline.add_note("warning", warning);
  return timeline;
}

}  // namespace reprise

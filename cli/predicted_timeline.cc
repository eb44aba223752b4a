#include "cli/predicted_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "costmodel/recorded_steps.h"
#include "data/trace/step_times.h"

namespace reprise {
namespace {

/// On rank 0's clock, the earliest of all ranks.
int64_t start_of(const Trace& trace, int32_t step) {
  std::optional<int64_t> earliest_ns;
  for (const StepMark& mark : trace.steps) {
    if (mark.step != step || mark.rank >= trace.ranks.size()) continue;
    const int64_t start_ns =
        on_first_clock(trace.ranks[mark.rank], mark.start_ns);
    earliest_ns = std::min(earliest_ns.value_or(start_ns), start_ns);
  }
  return earliest_ns.value_or(0);
}

// Adds a rank's replay; returns the slice of each unit.
std::vector<uint32_t> add_rank(ChromeTimeline& timeline,
                               const Schedule& schedule, const Replay& replay,
                               uint32_t rank, int64_t origin_ns) {
  const uint32_t process =
      timeline.add_process(fmt::format("rank {} predicted", rank));
  const uint32_t compute = timeline.add_track(process, "compute");
  const uint32_t communication = timeline.add_track(process, "communication");
  std::vector<uint32_t> slices;
  for (size_t unit = 0; unit < schedule.units.size(); ++unit) {
    const UnitTime& time = replay.times[rank][unit];
    const Unit& described = schedule.units[unit];
    const bool collective = described.stream == Stream::kCommunication;
    std::vector<ChromeTimeline::Argument> arguments;
    if (collective) {
      arguments.push_back({"bytes", described.collective.bytes});
      arguments.push_back({"wait_ns", time.wait_ns});
    }
    slices.push_back(timeline.add_slice(
        collective ? communication : compute, described.name,
        collective ? "communication" : "compute", origin_ns + time.start_ns,
        origin_ns + time.end_ns, std::move(arguments)));
  }
  return slices;
}

}  // namespace

ChromeTimeline comparison_timeline(const Trace& trace, const Schedule& schedule,
                                   const Replay& replay) {
  ChromeTimeline timeline;
  const int32_t step = typical_step(trace).value_or(TypicalStep{}).step;
  for (uint32_t rank = 0; rank < trace.ranks.size(); ++rank) {
    add_measured_rank(
        timeline, trace, rank,
        {.suffix = " measured", .first_step = step, .last_step = step});
  }
  const int64_t start_ns = start_of(trace, step);
  std::vector<std::vector<uint32_t>> slices;
  for (uint32_t rank = 0; rank < replay.times.size(); ++rank) {
    slices.push_back(add_rank(timeline, schedule, replay, rank, start_ns));
  }
  const PathEntry* previous = nullptr;
  for (const PathEntry& entry : replay.critical_path) {
    if (entry.kind != PathKind::kUnit) continue;
    if (previous != nullptr) {
      timeline.add_flow(slices[previous->rank][previous->origin],
                        slices[entry.rank][entry.origin]);
    }
    previous = &entry;
  }
  return timeline;
}

}  // namespace reprise

// Calibration runs and what is learnt from them: units without communication,
// and how much compute and communication slow each other down, which a run that
// never overlaps the two cannot tell.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

/// A factor stands in a cost database in millionths.
constexpr double kMillion = 1e6;

/// Context of measurements from a run without communication, all ranks
/// computing (`reprise-train --solo`).
inline constexpr const char* kSoloContext = "solo";
/// Context of slow-down factors: `key` is "slowdown/library",
/// "slowdown/kernel", "slowdown/collective" or "slowdown/slowest" (Contention),
/// `median_ns` the factor in millionths.
inline constexpr const char* kBesideContext = "beside the other stream";

/// A run and the schedule that it ran.
struct RecordedRun {
  const Trace& trace;
  const Schedule& schedule;
};

/// Turns a solo run of `schedule` into measurements by structural key: median
/// over steps, ranks and units, compute units only, ascending by key.
/// Errors: as fit_costs.
Result<std::vector<Measurement>> measurements_of(const Trace& solo,
                                                 const Schedule& schedule);

/// Names of the units in an order in which communication overlaps compute as
/// much as a schedule allows without reordering: units that wait for no
/// collective first, in their order, each collective where it becomes ready,
/// then the rest.
std::vector<std::string> overlapped_order(const Schedule& schedule);

/// Fits slow-downs from a run that overlaps (`overlapped`) against one that may
/// not (`recorded`) and solo measurements. What cannot be told is left out.
/// Requires: clocks aligned. `may_have_credit`: whether burst credit is looked
/// for, which few samples cannot tell from noise. Errors: as fit_costs.
Result<std::vector<Measurement>> contention_measurements(
    const RecordedRun& recorded, const RecordedRun& overlapped,
    std::span<const Measurement> solo, bool may_have_credit = true);

/// Contention, assumed, for a link without any such measurement: each byte on
/// the wire costs a rank's core 1 ns of TCP and addition, which compute on the
/// same core loses. Source: tests/bench/wire_cost_bench.py, 0.47 to 1.42 ns,
/// median 0.93 of 10 pairs; 2-core Xeon under other load, 2026-11-23.
Contention default_contention(double bandwidth_bytes_per_s);

/// `contention`, with the factors that measurements state in place of its own.
Contention with_measured(Contention contention,
                         std::span<const Measurement> measurements);

}  // namespace reprise

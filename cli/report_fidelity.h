// Predicted beside measured: how far a replay of what was recorded is from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/report/charts.h"
#include "data/program/lowered_program.h"
#include "replay/clocks/aligned_trace.h"

namespace reprise {

/// What could be compared, with the median and the worst relative error of the
/// predictions and where that is. Nothing: no points.
struct Fidelity {
  FidelityPlot plot;
  std::string caption;  ///< As text.
};

/// Of a program of ours: each unit on each rank, the median over timed steps
/// beside the replay under fitted prices. Else each step on each rank beside
/// the replay of the whole recording; left out above a million events, where
/// that alone would take longer than the rest of a report.
Fidelity fidelity_of(const AlignedTrace& aligned,
                     const LoweredProgram* program);

}  // namespace reprise

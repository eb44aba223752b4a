// Figures and tables of an analysed trace.
#pragma once

#include <string>

#include "cli/output.h"
#include "cli/report/charts.h"
#include "cli/report/timeline_data.h"
#include "replay/analysis/analysis.h"

namespace reprise {

/// Per rank, mean over its steps (or of all that was recorded): compute,
/// exposed communication, copies, idle.
BarChart breakdown_chart(const Analysis& analysis);

/// Collectives by kind, ranks and size: mean wait, median transfer.
BarChart collectives_chart(const Analysis& analysis, size_t top);
/// The same with bus bandwidth beside the best one seen of its kind and size.
Table collectives_best_table(const Analysis& analysis, size_t top);

/// What a still picture can hold of a timeline: its longest boxes.
std::string still_timeline_svg(const TimelineData& data);

}  // namespace reprise

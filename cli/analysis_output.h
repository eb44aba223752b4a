// What `reprise analyze` prints: a screen for people, reprise.analyze/1 and
// rows of CSV for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "data/trace/trace.h"
#include "replay/analysis/analysis.h"
#include "replay/findings/findings.h"

namespace reprise {

/// The answer in its first line, what to do about it, then small tables of at
/// most `top` rows. `trace`: its path, for commands.
std::string analysis_text(const TraceByRank& by_rank, const Analysis& analysis,
                          const Findings& findings, const std::string& trace,
                          size_t top);

/// Its first line: "step 219 ms: 64 % compute, …".
std::string analysis_headline(const Analysis& analysis);
/// Its tables: breakdown, collectives, who is late, kernels.
std::vector<Table> analysis_tables(const TraceByRank& by_rank,
                                   const Analysis& analysis, size_t top);

/// Everything, whole names (design: reprise.analyze/1), a row a line.
std::string analysis_json(const TraceByRank& by_rank, const Analysis& analysis,
                          const Findings& findings, const std::string& trace);

/// A row for each rank and for each of its steps, in both windows.
Table analysis_rows(const Analysis& analysis);

/// "c12": a collective's name in the analysis and in plans for the trace.
std::string collective_id(size_t place_in_matching);

}  // namespace reprise

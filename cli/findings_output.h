// Findings as `reprise analyze` and `reprise report` show them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "replay/findings/findings.h"

namespace reprise {

/// The `top` findings, each with its gain, evidence and what to do; or that
/// there are none, and from what gain on there would be. `trace`: its path, for
/// commands.
std::string findings_text(const Findings& findings, const std::string& trace,
                          size_t top);

nlohmann::ordered_json finding_json(const Finding& finding,
                                    const std::string& trace);
/// What the findings stand on: the replay, its threshold, why there are none.
nlohmann::ordered_json findings_summary_json(const Findings& findings);

/// "none above 4.65 ms (1 % of 465 ms)", or why nothing was tried.
std::string no_finding_text(const Findings& findings);

/// The command of a finding, the trace's path in place of TRACE.
std::string command_of(const Finding& finding, const std::string& trace);
/// The `reprise replay` that gives the same gain; "" where none does.
std::string replay_command_of(const Finding& finding, const std::string& trace);

}  // namespace reprise

// What `reprise report` shows of a trace, of two and of a plan.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/report/page.h"
#include "data/plan/plan.h"
#include "data/result.h"

namespace reprise {

inline std::string table_html(const Table& table) {
  return table_html(table.headings, table.rows);
}

/// Errors: as reading and analysing the trace.
Result<ReportPage> trace_report(const std::string& path);
/// What changed from one to the other. Errors: as diff_traces.
Result<ReportPage> diff_report(const std::string& before,
                               const std::string& after);
ReportPage plan_report(const Plan& plan, const std::string& path);
/// Of whichever of these the files are. Errors: theirs; kInvalid of too many.
Result<ReportPage> report_page(const std::vector<std::string>& inputs);

}  // namespace reprise

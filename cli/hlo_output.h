// What `reprise hlo` prints of a module.
#pragma once

#include <string>

#include "cli/output.h"
#include "data/hlo/hlo.h"
#include "data/hlo/module_summary.h"

namespace reprise {

/// A row an instruction of one computation. `file` names the module.
void print_instruction_rows(const Module& module, ComputationId id,
                            const std::string& file, Format format);

/// What the module holds and costs; for people with its collectives.
void print_module_summary(const ModuleSummary& summary, const std::string& file,
                          Format format);

}  // namespace reprise

// What `reprise hlo` prints of a module.
#pragma once

#include <string>

#include "cli/output.h"
#include "data/hlo/hlo.h"
#include "data/hlo/module_summary.h"
#include "data/program/step_memory.h"
#include "data/result.h"

namespace reprise {

/// A row an instruction of one computation. `file` names the module.
void print_instruction_rows(const Module& module, ComputationId id,
                            const std::string& file, Format format);

/// What the module holds, costs and takes of memory; for people with its
/// collectives. Without a plan of memory (the program is not lowered) people
/// are told why, and `memory` is null.
void print_module_summary(const ModuleSummary& summary,
                          const Result<StepMemory>& memory,
                          const std::string& file, Format format);

}  // namespace reprise

// What the shards of a training run do not repeat for each event, as a value
// and as the file `trainer.json` (reprise.trainer/1) that a profiled
// reprise-train leaves beside its shards.
#pragma once

#include <string>

#include "cli/program.h"
#include "data/result.h"
#include "profiler/gather.h"

namespace reprise {

/// `program_path` is what the user named; `solo`: without communication.
GatherContext gather_context(const LoweredProgram& lowered,
                             const std::string& program_path,
                             const std::string& device, bool solo);

/// {schema, program_text, manifest_text, plan_text, environment{},
/// units[{name, kind, bytes}]}.
std::string print_trainer_context(const GatherContext& context);
/// Errors: kParse, naming `file`.
Result<GatherContext> parse_trainer_context(const std::string& text,
                                            const std::string& file);

}  // namespace reprise

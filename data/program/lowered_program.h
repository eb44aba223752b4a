// From files to values: what several verbs need before they can start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/hlo/hlo.h"
#include "data/manifest/manifest.h"
#include "data/plan/plan.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

/// Where the data of a program is read that a manifest names.
struct ProgramData {
  std::string folder;      ///< Besides the program's own; empty: none.
  bool made_up = false;    ///< Nowhere: steps are only timed.
  std::string state = {};  ///< State file to start from, or the manifest's.
};

/// A program with its manifest and plan, lowered.
struct LoweredProgram {
  std::string program_text;
  std::string manifest_text;
  Manifest manifest;
  InlinedModule module;
  Plan plan;
  Schedule schedule;
};

/// Of a device as traces and `--device` name it: "cpu", "cuda".
LoweredFor lowered_for(std::string_view device);

/// Loads PROGRAM.hlo, its manifest, and a plan file (empty: the identity plan),
/// checks each against the others and lowers. `device`: what will run it.
/// Errors: those of each step, naming the file.
Result<LoweredProgram> load_lowered_program(
    const std::string& program, const std::string& plan, int64_t ranks,
    const ProgramData& data = {}, LoweredFor device = LoweredFor::kProcessor);

/// The same from a trace's embedded program; `plan` replaces the recorded one
/// when not empty. Its data is made up unless `data_folder` names where it
/// lies. Errors: those of each step; kInvalid for an imported trace, which
/// embeds no program.
Result<LoweredProgram> lowered_program_of(const Trace& trace,
                                          const std::string& trace_path,
                                          const std::string& plan,
                                          const std::string& data_folder = {});

/// Lowers the module under another plan.
Result<Schedule> lower_under(const LoweredProgram& program, const Plan& plan);

/// A recorded program under another plan, of `plan_path`, as `train` would run
/// it: read again where that is of another arithmetic than the recording's
/// (`inline_for`). Errors: those of each step, naming the file at fault.
Result<LoweredProgram> lower_replanned(const LoweredProgram& recorded,
                                       const std::string& trace_path, Plan plan,
                                       const std::string& plan_path);

/// Writes the program, manifest and plan embedded in a trace into `directory`,
/// for a rerun. Returns the path of the program.
Result<std::string> materialize(const LoweredProgram& program,
                                const std::string& directory);

}  // namespace reprise

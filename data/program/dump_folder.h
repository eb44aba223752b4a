// Which file of a folder that XLA dumped into is the step.
#pragma once

#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Text of a program: of HLO text itself, of an HLO proto what it spells.
/// Errors: as read_text_file and hlo_proto_text.
Result<std::string> read_program_text(const std::string& path);

/// A file that was chosen, and why.
struct ChosenProgram {
  std::string path;
  std::string reason;  ///< Empty: it is what was named.
};

/// A file as it is. Of a folder, the module of the most instructions, and of
/// its stages the first that runs: after dot_decomposer before layouts are
/// assigned, the end of that pipeline, after partitioning, before and after
/// optimizations. Where none runs, the first. Errors: kIo; kInvalid for a
/// folder without a dump. Cost: linear in the dumps of one stage.
Result<ChosenProgram> choose_program(const std::string& path);

/// Another stage of the same module in the same folder that runs; "" where
/// there is none, or where `path` is no dump.
std::string sibling_that_runs(const std::string& path);

}  // namespace reprise

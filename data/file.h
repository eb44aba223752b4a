// Whole files in and out. Outputs appear under their name only when complete.
#pragma once

#include <string>
#include <string_view>

#include "data/result.h"

namespace reprise {

/// Reads a whole file. Errors: kIo with the system's reason.
Result<std::string> read_file(const std::string& path);

/// Writes to `path.tmp.PID`, flushes it to disk, then renames it over `path`; a
/// failure (disk full) removes the temporary and leaves an old `path`
/// untouched. Errors: kIo with the system's reason.
Status write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace reprise

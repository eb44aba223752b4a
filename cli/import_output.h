// What `reprise import` says of what it read.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "data/formats/reader.h"

namespace reprise {

/// A row a file on stdout; on stderr what was lost, and the trace `output`.
void print_import(const std::vector<FileReport>& files,
                  const std::string& output, double seconds, Format format);

}  // namespace reprise

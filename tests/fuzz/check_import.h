// What holds of every input, whatever bytes a reader is given.
#pragma once

#include <string>

#include "data/formats/reader.h"

namespace reprise {

/// Aborts unless what the reader accepts makes a trace, and what it refuses
/// says why.
void check_import(const TraceReader& reader, std::string bytes);

}  // namespace reprise

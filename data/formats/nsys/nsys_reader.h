// Nsight Systems reports exported to SQLite (`nsys export --type sqlite`),
// schemas 3.20 to 3.25 and what resembles them.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "nsys-sqlite". A rank is a process on a device: where the file holds
/// one whose number its environment does not tell, it stays unknown; several
/// are numbered as NCCL's calls say, else by (process, device).
const TraceReader& nsys_reader();

}  // namespace reprise

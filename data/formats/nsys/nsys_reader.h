// Nsight Systems reports exported to SQLite (`nsys export --type sqlite`),
// schemas 3.20 to 3.25 and what resembles them.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "nsys-sqlite". A rank is a process on a device: where the file holds
/// one, its environment tells its number, else NCCL's calls do, else it stays
/// unknown; several are numbered as NCCL's calls say, else by (process,
/// device). But for the environment's, numbers may be of a part of the job.
const TraceReader& nsys_reader();

}  // namespace reprise

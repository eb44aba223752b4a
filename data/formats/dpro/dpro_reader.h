// Reads trace directories of dPRO (byteprofile): hosts of GPUs, each with the
// framework's timeline, the communication library's and the data-flow graph;
// over Horovod and NCCL, or over BytePS with its servers. Chunks of NCCL's
// rings are kept as annotations; a reduction is one all-reduce of all ranks.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "dpro". Takes a trial (hosts of GPUs), one host, or one GPU; ranks
/// count in the order of hosts and GPUs, as dPRO's own names host0.rank0 do.
const DirectoryReader& dpro_reader();

}  // namespace reprise

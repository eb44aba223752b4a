// Who a process is, for the header of its shard: read once, when it starts.
#pragma once

#include <string>
#include <string_view>

namespace reprise {

/// The host's name as it stands in the names of shards: '/' and what is no
/// printable ASCII replaced by '_'.
std::string shard_host_name();

/// Payload of a kHeader segment: JSON with host, process, parent, boot_id,
/// rank, ranks and local_rank (from the variables of torchrun, Open MPI, PMI
/// or Slurm; -1 where there is none), program, arguments (the first 4 KiB),
/// source, image (1; 2 and more after an exec), start_ns and epoch_offset_ns.
std::string process_header_json(std::string_view source, int image);

}  // namespace reprise

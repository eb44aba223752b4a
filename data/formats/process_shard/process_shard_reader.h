// Process shards (data/trace/process_shard.h): what the injection library and
// the NCCL plugin recorded in the processes of a job, one directory a job. By
// hand: copy the shards of all hosts below one directory and import that.
#pragma once

#include <string>

#include "data/formats/reader.h"

namespace reprise {

/// One shard alone.
const TraceReader& process_shard_reader();
/// A directory that holds nothing but shards, those of reprise-train (which
/// `gather_profile` in cli joins) among them: a part for each rank, then one
/// for each process that is no rank's.
const DirectoryReader& process_shards_reader();

/// Whether the file is a shard of a process, by its first bytes.
bool is_process_shard(const std::string& path);

}  // namespace reprise

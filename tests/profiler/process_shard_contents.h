// What a process shard holds, read strictly and independently of the reader in
// data/formats: any damage throws.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/trace/process_shard.h"

namespace reprise {

struct StrictShardContents {
  nlohmann::json header;
  std::vector<std::string> names = {""};  ///< By id.
  std::vector<ProcessRecord> records;
  std::map<std::string, std::string> notes;
  nlohmann::json end;  ///< Null when there is none.
  size_t segments = 0;

  const std::string& name(const ProcessRecord& record) const {
    return names.at(record.name);
  }
  nlohmann::json info(const ProcessRecord& record) const;
  std::vector<ProcessRecord> of(RecordKind kind) const;
  uint64_t lost(const std::string& reason) const;
};

StrictShardContents read_process_shard_strictly(
    const std::filesystem::path& path);

/// The shards of a directory, by file name.
std::map<std::string, StrictShardContents> read_shard_directory(
    const std::filesystem::path& directory);

}  // namespace reprise

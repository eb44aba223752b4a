// A shard: the append-only file of one rank, checksummed segment by segment, so
// that a killed writer loses at most its last segment. Byte layout:
// data/trace/format.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "profiler/recorder.h"

namespace reprise {

/// Appends segments; a failed append is cut off again, so the file stays
/// readable.
class ShardWriter {
 public:
  ShardWriter() = default;
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Creates (or replaces) the file and writes its header segment. Errors: kIo.
  Status open(const std::string& path, const RankInfo& rank,
              const std::vector<std::string>& streams);
  /// Appends events of one stream, as two runs of a ring. Errors: kIo; then
  /// every later call fails.
  Status append_events(uint32_t stream, std::span<const ShardEvent> first,
                       std::span<const ShardEvent> second);
  Status append_steps(std::span<const StepMark> steps);
  /// Appends the closing segment and closes.
  Status close(const RankInfo& rank, const std::vector<uint64_t>& lost_events);

 private:
  Status append(uint32_t kind, const std::string& payload);

  int descriptor_ = -1;
  int64_t size_bytes_ = 0;  ///< End of the last whole segment.
  std::string path_;
  std::string failure_;  ///< Of the first failed append.
};

struct StreamEvents {
  uint32_t stream = 0;  ///< Of this shard.
  std::vector<ShardEvent> events;
};

/// What a shard holds, as far as it is whole.
struct Shard {
  RankInfo rank;
  std::vector<std::string> streams;
  std::vector<StreamEvents> runs;  ///< In the order of the file.
  std::vector<StepMark> steps;
  /// "rank 1: last segment lost (…)", "… 12 events lost".
  std::vector<std::string> warnings;
};

/// Reads a shard, leaving out damaged segments with a warning each.
/// Errors: kIo; kParse (not a shard, or its header is damaged); kUnsupported
/// (newer version).
Result<Shard> read_shard(const std::string& path);

/// read_shard for bytes in memory; `file` names them in messages.
Result<Shard> parse_shard(std::string bytes, const std::string& file);

}  // namespace reprise

// The file under a process shard: appends checksummed segments. A failed append
// is cut off again, and then nothing more is written. The host process may
// close descriptors that are not its own and get their numbers for its files:
// before each write the descriptor is held against the file that was made.
// Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "data/trace/process_shard.h"

namespace reprise {

class ProcessShardFile {
 public:
  ProcessShardFile() = default;
  ~ProcessShardFile() { close(); }
  ProcessShardFile(const ProcessShardFile&) = delete;
  ProcessShardFile& operator=(const ProcessShardFile&) = delete;

  /// Makes DIRECTORY/HOST.PID.SOURCE.shard and writes its header; where that
  /// exists (a program run by exec has its caller's pid)
  /// HOST.PID.SOURCE.2.shard and so on. False when that fails, and in a
  /// process whose files are limited in size.
  bool open(const std::string& directory, const std::string& source);
  /// False when it failed now or before, or the host has limited its files.
  bool append(ProcessSegment kind, std::string_view payload);
  /// Async-signal-safe, as the child of a fork needs it.
  void close();

 private:
  bool create(const std::string& base);
  bool holds_file() const;
  bool reopen();

  std::string path_;
  int descriptor_ = -1;
  int image_ = 0;  ///< Of the process: 1, 2 after an exec, …
  dev_t device_ = 0;
  ino_t inode_ = 0;
  int64_t size_bytes_ = 0;  ///< End of the last whole segment.
};

}  // namespace reprise

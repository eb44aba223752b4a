// Where a profiled command leaves its shards, and where their trace goes.
#pragma once

#include <string>

#include "data/result.h"

namespace reprise {

/// What would keep a trace from being written, before the command runs for
/// hours. Errors: kInvalid, kIo.
Status check_trace_place(const std::string& output);

/// The directory of a run's shards. Gone at the end unless it is to stay.
class ShardDirectory {
 public:
  ShardDirectory() = default;
  ShardDirectory(const ShardDirectory&) = delete;
  ShardDirectory& operator=(const ShardDirectory&) = delete;
  ~ShardDirectory();

  /// Errors: kIo; kInvalid for a directory that holds something.
  Status make(const std::string& path);
  void stay() { stays_ = true; }
  const std::string& path() const { return path_; }
  /// Whether its disk has no room for even a small trace.
  bool is_full() const;

 private:
  std::string path_;
  bool stays_ = false;
};

}  // namespace reprise

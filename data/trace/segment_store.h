// Encoded segments on their way to a trace: in memory while they are few, then
// in a temporary file that has no name and is gone with the store.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/columns.h"

namespace reprise {

class SegmentStore {
 public:
  /// The file lies in `directory`, the system's for temporary files when empty.
  explicit SegmentStore(std::string directory);
  ~SegmentStore();
  SegmentStore(const SegmentStore&) = delete;
  SegmentStore& operator=(const SegmentStore&) = delete;

  /// Adds a segment of `count` records. Errors are kept for `status`.
  void append(std::span<const ColumnBytes> columns, size_t count);
  /// The first error: kIo (disk full …).
  const Status& status() const { return status_; }

  size_t size() const { return segments_.size(); }
  size_t count(size_t segment) const { return segments_[segment].count; }
  /// The columns of a segment; they lie in `buffer`. Errors: kIo, also when
  /// what comes back is not what was written.
  Result<std::vector<ColumnBytes>> read(size_t segment,
                                        std::string& buffer) const;

 private:
  struct Column {
    ColumnEncoding encoding = ColumnEncoding::kPlain;
    size_t size = 0;
  };
  struct Segment {
    uint64_t offset = 0;
    size_t size = 0, count = 0;
    uint32_t crc = 0;
    std::vector<Column> columns;
  };
  Status open_file();
  Status write_pending();
  Status read_file(uint64_t offset, std::span<char> bytes) const;

  std::string directory_;
  int file_ = -1;
  uint64_t file_bytes_ = 0;
  std::string pending_;  ///< What comes behind the file's bytes.
  std::vector<Segment> segments_;
  Status status_;
};

}  // namespace reprise

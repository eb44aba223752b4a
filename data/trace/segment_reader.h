// Reads the segments of a table of columns (data/trace/format.md), checking
// each column's name, encoding and checksum.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/sqlite.h"
#include "data/progress.h"
#include "data/result.h"
#include "data/trace/columns.h"

namespace reprise {

/// What becomes of the records of a table with more than `most`: `drain` takes
/// them after every batch, with the segments that they come from, in their
/// order, and clears them, while the next batch is read on another thread.
/// Without it they stay. `watch` is told, after every batch,
/// how many were read, as `what`.
struct DrainRecords {
  size_t most = 0;
  std::function<Status(std::span<EncodedSegment> segments)> drain;
  ProgressWatcher watch = {};
  std::string what = {};
};

template <typename Record>
class SegmentReader {
 public:
  /// `file_bytes` bounds what is read: every record takes a byte of the file at
  /// least, whatever the file says.
  SegmentReader(sqlite3* database, std::string_view table,
                std::span<const ColumnSpec<Record>> columns,
                uint64_t file_bytes)
      : database_(database),
        table_(table),
        columns_(columns),
        file_bytes_(file_bytes),
        blobs_(columns.size()),
        bytes_(columns.size()) {}

  /// Appends all records to `records`. Errors: kParse, naming segment and
  /// column.
  Status read(std::vector<Record>& records, const DrainRecords& drain = {});

  /// Records of each segment that was read.
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  Result<size_t> count_records();
  Status read_column(sqlite3_stmt* select, int64_t segment, size_t place);
  using Segments = std::vector<EncodedSegment>;
  /// Appends some segments, keeping them where `kept` is not null; false: those
  /// were the last.
  Result<bool> read_batch(sqlite3_stmt* select, std::vector<Record>& records,
                          Segments* kept = nullptr);
  Status read_segment(sqlite3_stmt* select, int64_t segment,
                      std::vector<Record>& records);

  sqlite3* database_;
  std::string_view table_;
  std::span<const ColumnSpec<Record>> columns_;
  uint64_t file_bytes_;
  uint64_t read_bytes_ = 0;
  size_t left_ = 0;  ///< Records that were counted and not yet read.
  std::vector<std::string> blobs_;  ///< Of the segment that is being read.
  std::vector<ColumnBytes> bytes_;
  std::vector<int64_t> counts_;
};
extern template class SegmentReader<Event>;
extern template class SegmentReader<EventDependency>;

}  // namespace reprise

// Events and dependencies as columns of integers, and a segment's columns as
// bytes. Column lists and byte layout: data/trace/format.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"
#include "data/trace/column_codec.h"
#include "data/trace/trace.h"

namespace reprise {

/// Records (events, dependencies) of one segment at most.
constexpr size_t kSegmentRecords = 1 << 16;

/// One column of a table of records.
template <typename Record>
struct ColumnSpec {
  std::string_view name;
  ColumnEncoding encoding;  ///< kPlain or kDelta; runs where they are fewer.
  /// Writes the column's value of each record.
  void (*get)(std::span<const Record> records, int64_t* values);
  /// Sets the column of each record; returns how many were set before one did
  /// not fit. Times relative to the start need the start set before.
  size_t (*set)(std::span<Record> records, const int64_t* values);
};

/// The columns of events in their order in a segment.
enum class EventColumn : size_t {
  kStart,
  kDuration,
  kQueued,
  kRank,
  kStream,
  kKind,
  kStep,
  kUnit,
  kName,
  kBytes,
  kCorrelation,
  kExternalId,
  kGraphNode,
  kSequence,
  kDetail,
  kAttributes,
  kCount
};

/// All columns in their order in a segment. The first is never written as runs,
/// so that every record costs at least a byte of the file.
std::span<const ColumnSpec<Event>> event_columns();
std::span<const ColumnSpec<EventDependency>> dependency_columns();
/// Of the event columns, how many schema 1 has.
constexpr auto kEventColumnsOfSchema1 =
    static_cast<size_t>(EventColumn::kExternalId);

/// The bytes of one column of a segment.
struct ColumnBytes {
  ColumnEncoding encoding = ColumnEncoding::kPlain;
  std::string_view bytes;
};

/// A segment as it lies in a file, kept.
class EncodedSegment {
 public:
  EncodedSegment(std::span<const ColumnBytes> columns, size_t count);

  size_t count() const { return count_; }
  /// Views of the first columns or all, as encoded.
  std::vector<ColumnBytes> columns() const;

 private:
  struct Column {
    ColumnEncoding encoding = ColumnEncoding::kPlain;
    size_t size = 0;
  };
  size_t count_;
  std::vector<Column> columns_;
  std::string bytes_;  ///< Of all columns.
};

/// Encodes segments one after the other, reusing its memory.
template <typename Record>
class SegmentEncoder {
 public:
  explicit SegmentEncoder(std::span<const ColumnSpec<Record>> columns)
      : columns_(columns), encoders_(columns.size()), views_(columns.size()) {}

  /// Encodes `records`, in `order` if that is not empty (a permutation). The
  /// result is valid until the next call.
  std::span<const ColumnBytes> encode(std::span<const Record> records,
                                      std::span<const uint32_t> order = {});

 private:
  std::span<const ColumnSpec<Record>> columns_;
  std::vector<ColumnEncoder> encoders_;
  std::vector<ColumnBytes> views_;
  std::vector<Record> block_;
};
extern template class SegmentEncoder<Event>;
extern template class SegmentEncoder<EventDependency>;

/// Decodes a segment into all of `records`; `bytes` holds the first columns
/// of `columns` or all of them, in their order. Errors: kParse (cut short,
/// trailing bytes, a value that does not fit), naming the column.
template <typename Record>
Status decode_segment(std::span<const ColumnSpec<Record>> columns,
                      std::span<const ColumnBytes> bytes,
                      std::span<Record> records);
extern template Status decode_segment(std::span<const ColumnSpec<Event>>,
                                      std::span<const ColumnBytes>,
                                      std::span<Event>);
extern template Status decode_segment(
    std::span<const ColumnSpec<EventDependency>>, std::span<const ColumnBytes>,
    std::span<EventDependency>);

}  // namespace reprise

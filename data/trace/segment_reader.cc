// One walk over the rows of a table, which stand in the order (segment, place).
// Sizes that the file states are believed only as far as its own size: records
// are counted first, from the column whose values take a byte each at least,
// and memory is asked for once.
#include "data/trace/segment_reader.h"

#include <fmt/ranges.h>

#include <future>
#include <utility>

#include "data/io/crc32.h"
#include "data/trace/row_reader.h"

namespace reprise {
namespace {

/// Read at a time, at least: a rank or two, 12 MB of events.
constexpr size_t kBatchRecords = size_t{1} << 17;

constexpr std::string_view kTooMuch = "holds more than the file has bytes";

using Part = SegmentPart;

constexpr int at(Part part) { return static_cast<int>(part); }

}  // namespace

template <typename Record>
Status SegmentReader<Record>::read(std::vector<Record>& records,
                                   const DrainRecords& drain) {
  Result<size_t> count = count_records();
  if (!count) return pass(count.error());
  left_ = *count;
  const bool drains = drain.drain && *count > drain.most;
  const auto tell = [&] {
    if (!drain.watch || *count == 0) return;
    const auto done = static_cast<double>(*count - left_);
    drain.watch({.what = drain.what,
                 .share = done / static_cast<double>(*count),
                 .count = done,
                 .unit = "events"});
  };
  tell();
  records.reserve(drains ? kSegmentRecords : *count);
  Result<Statement> select =
      prepare(database_, fmt::format("SELECT {} FROM {} ORDER BY {}, {}",
                                     fmt::join(kSegmentParts.all(), ", "),
                                     table_, kSegmentParts[Part::kSegment],
                                     kSegmentParts[Part::kPlace]));
  if (!select) return pass(select.error());
  // Decoded while those before it are drained.
  std::vector<Record> next;
  Segments segments, next_segments;
  for (bool more = true; more;) {
    Result<bool> read = true;
    if (drains) {
      next.reserve(kBatchRecords + kSegmentRecords);
      std::future<Result<bool>> reading = std::async(std::launch::async, [&] {
        return read_batch(select->get(), next, &next_segments);
      });
      const Status drained = drain.drain(segments);
      read = reading.get();
      if (!drained) return drained;
      records.swap(next);
      segments = std::exchange(next_segments, {});
    } else {
      read = read_batch(select->get(), records);
    }
    if (!read) return pass(read.error());
    more = *read;
    tell();
  }
  return drains ? drain.drain(segments) : Status();
}

template <typename Record>
Result<size_t> SegmentReader<Record>::count_records() {
  Result<Statement> select =
      prepare(database_, fmt::format("SELECT {} FROM {} WHERE {}=0",
                                     kSegmentParts[Part::kData], table_,
                                     kSegmentParts[Part::kPlace]));
  if (!select) return pass(select.error());
  size_t count = 0;
  uint64_t bytes = 0;
  for (;;) {
    const Result<bool> more = next_row(select->get());
    if (!more) return pass(more.error());
    if (!*more) return count;
    const std::string_view blob = column_text(select->get(), 0);
    count += count_values(blob);
    bytes += blob.size();
    if (bytes > file_bytes_) return fail(ErrorKind::kParse, "{}", kTooMuch);
  }
}

/// Copies the column that `select` stands on and checks it.
template <typename Record>
Status SegmentReader<Record>::read_column(sqlite3_stmt* select, int64_t segment,
                                          size_t place) {
  Row row;
  if (Status read = read_row(select, "iitii", row); !read) return read;
  const auto integer = [&](Part part) {
    return std::get<int64_t>(row[static_cast<size_t>(part)]);
  };
  if (integer(Part::kSegment) != segment ||
      integer(Part::kPlace) != static_cast<int64_t>(place) ||
      std::get<std::string>(row[at(Part::kName)]) != columns_[place].name) {
    return fail(ErrorKind::kParse, "is missing");
  }
  blobs_[place] = column_text(select, at(Part::kData));
  read_bytes_ += blobs_[place].size();
  if (read_bytes_ > file_bytes_) return fail(ErrorKind::kParse, "{}", kTooMuch);
  const int64_t encoding = integer(Part::kEncoding);
  const bool is_runs =
      place > 0 && encoding == static_cast<int64_t>(ColumnEncoding::kRuns);
  if (!is_runs && encoding != static_cast<int64_t>(columns_[place].encoding)) {
    return fail(ErrorKind::kParse, "encoding {} is unknown here", encoding);
  }
  if (integer(Part::kChecksum) != int64_t{crc32(blobs_[place])}) {
    return fail(ErrorKind::kParse, "checksum over {} bytes differs",
                blobs_[place].size());
  }
  bytes_[place] = {static_cast<ColumnEncoding>(encoding), blobs_[place]};
  return {};
}

template <typename Record>
Result<bool> SegmentReader<Record>::read_batch(sqlite3_stmt* select,
                                               std::vector<Record>& records,
                                               Segments* kept) {
  const size_t enough = records.size() + kBatchRecords;
  while (records.size() < enough) {
    const Result<bool> more = next_row(select);
    if (!more || !*more) return more;
    const auto segment = static_cast<int64_t>(counts_.size());
    if (Status read = read_segment(select, segment, records); !read)
      return pass(read.error(), fmt::format("segment {}", segment));
    if (kept != nullptr)
      kept->emplace_back(bytes_, static_cast<size_t>(counts_.back()));
  }
  return true;
}

template <typename Record>
Status SegmentReader<Record>::read_segment(sqlite3_stmt* select,
                                           int64_t segment,
                                           std::vector<Record>& records) {
  for (size_t place = 0; place < columns_.size(); ++place) {
    const Result<bool> more = place == 0 ? true : next_row(select);
    const Status read = !more   ? pass(more.error())
                        : *more ? read_column(select, segment, place)
                                : fail(ErrorKind::kParse, "is missing");
    if (!read) {
      return fail(read.error().kind, "column {} {}", columns_[place].name,
                  read.error().message);
    }
  }
  const size_t first = records.size();
  const size_t count = count_values(blobs_[0]);
  if (count > kSegmentRecords || count > left_)
    return fail(ErrorKind::kParse, "{} records in one segment", count);
  left_ -= count;
  records.resize(first + count);
  counts_.push_back(static_cast<int64_t>(count));
  return decode_segment<Record>(columns_, bytes_,
                                std::span(records).subspan(first));
}

template class SegmentReader<Event>;
template class SegmentReader<EventDependency>;

}  // namespace reprise

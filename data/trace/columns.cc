// The one list of the event columns: how each is taken from a record and put
// back. Records pass through all columns in blocks that stay in the first
// cache.
#include "data/trace/columns.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "data/integers.h"
#include "data/io/column_names.h"

namespace reprise {
namespace {

/// Records are taken through all columns in blocks that fit the first cache.
constexpr size_t kBlockRecords = 128;

template <typename Field>
bool narrow(Field& field, int64_t value) {
  if (value < int64_t{std::numeric_limits<Field>::min()} ||
      value > int64_t{std::numeric_limits<Field>::max()}) {
    return false;
  }
  field = static_cast<Field>(value);
  return true;
}

bool narrow(StringId& field, int64_t value) {
  uint32_t id = 0;
  if (!narrow(id, value)) return false;
  field = StringId{id};
  return true;
}

bool narrow(EventKind& field, int64_t value) {
  if (value < 0 || value > static_cast<int64_t>(kLastEventKind)) return false;
  field = static_cast<EventKind>(value);
  return true;
}

/// A column from what it is for one record.
template <typename Record, typename Get, typename Set>
constexpr ColumnSpec<Record> column(std::string_view name,
                                    ColumnEncoding encoding, Get, Set) {
  return {name, encoding,
          [](std::span<const Record> records, int64_t* values) {
            for (const Record& record : records) *values++ = Get{}(record);
          },
          [](std::span<Record> records, const int64_t* values) {
            size_t done = 0;
            while (done < records.size() && Set{}(records[done], values[done]))
              ++done;
            return done;
          }};
}

/// A column that is one field as it is.
template <auto Field, typename Record>
constexpr ColumnSpec<Record> plain_column(std::string_view name,
                                          ColumnEncoding encoding) {
  return column<Record>(
      name, encoding,
      [](const Record& record) { return static_cast<int64_t>(record.*Field); },
      [](Record& record, int64_t value) {
        return narrow(record.*Field, value);
      });
}

using enum ColumnEncoding;

using enum EventColumn;
constexpr ColumnNames<EventColumn> kEventNames = {
    {kStart, "start_ns"},
    {kDuration, "duration_ns"},
    {kQueued, "queued_ns"},
    {kRank, "rank"},
    {kStream, "stream"},
    {kKind, "kind"},
    {kStep, "step"},
    {kUnit, "unit"},
    {kName, "name"},
    {kBytes, "bytes"},
    {kCorrelation, "correlation"},
    {kExternalId, "external_id"},
    {kGraphNode, "graph_node"},
    {kSequence, "sequence"},
    {kDetail, "detail"},
    {kAttributes, "attributes"},
};

constexpr ColumnSpec<Event> kEventColumns[] = {
    plain_column<&Event::start_ns, Event>(kEventNames[kStart], kDelta),
    column<Event>(
        kEventNames[kDuration], kPlain,
        [](const Event& e) { return wrapping_subtract(e.end_ns, e.start_ns); },
        [](Event& e, int64_t value) {
          e.end_ns = wrapping_add(e.start_ns, value);
          return true;
        }),
    column<Event>(
        kEventNames[kQueued], kPlain,
        [](const Event& e) {
          return wrapping_subtract(e.start_ns, e.enqueue_ns);
        },
        [](Event& e, int64_t value) {
          e.enqueue_ns = wrapping_subtract(e.start_ns, value);
          return true;
        }),
    plain_column<&Event::rank, Event>(kEventNames[kRank], kDelta),
    plain_column<&Event::stream, Event>(kEventNames[kStream], kPlain),
    plain_column<&Event::kind, Event>(kEventNames[kKind], kPlain),
    plain_column<&Event::step, Event>(kEventNames[kStep], kDelta),
    plain_column<&Event::unit, Event>(kEventNames[kUnit], kDelta),
    plain_column<&Event::name, Event>(kEventNames[kName], kPlain),
    plain_column<&Event::bytes, Event>(kEventNames[kBytes], kPlain),
    plain_column<&Event::correlation, Event>(kEventNames[kCorrelation], kDelta),
    plain_column<&Event::external_id, Event>(kEventNames[kExternalId], kDelta),
    plain_column<&Event::graph_node, Event>(kEventNames[kGraphNode], kPlain),
    plain_column<&Event::sequence, Event>(kEventNames[kSequence], kDelta),
    plain_column<&Event::detail, Event>(kEventNames[kDetail], kPlain),
    plain_column<&Event::attributes, Event>(kEventNames[kAttributes], kPlain),
};
static_assert(std::equal(std::begin(kEventColumns), std::end(kEventColumns),
                         kEventNames.all().begin(), kEventNames.all().end(),
                         [](const auto& column, std::string_view name) {
                           return column.name == name;
                         }),
              "the columns stand in the order of EventColumn");

constexpr ColumnSpec<EventDependency> kDependencyColumns[] = {
    plain_column<&EventDependency::before, EventDependency>("before", kDelta),
    plain_column<&EventDependency::after, EventDependency>("after", kDelta),
    plain_column<&EventDependency::rank, EventDependency>("rank", kDelta),
};

}  // namespace

std::span<const ColumnSpec<Event>> event_columns() { return kEventColumns; }

std::span<const ColumnSpec<EventDependency>> dependency_columns() {
  return kDependencyColumns;
}

EncodedSegment::EncodedSegment(std::span<const ColumnBytes> columns,
                               size_t count)
    : count_(count) {
  size_t size = 0;
  for (const ColumnBytes& column : columns) size += column.bytes.size();
  bytes_.reserve(size);
  for (const ColumnBytes& column : columns) {
    bytes_ += column.bytes;
    columns_.push_back({column.encoding, column.bytes.size()});
  }
}

std::vector<ColumnBytes> EncodedSegment::columns() const {
  std::vector<ColumnBytes> views;
  std::string_view rest = bytes_;
  for (const Column& column : columns_) {
    views.push_back({column.encoding, rest.substr(0, column.size)});
    rest.remove_prefix(column.size);
  }
  return views;
}

template <typename Record>
std::span<const ColumnBytes> SegmentEncoder<Record>::encode(
    std::span<const Record> records, std::span<const uint32_t> order) {
  for (size_t i = 0; i < columns_.size(); ++i)
    encoders_[i].start(columns_[i].encoding, i > 0);
  int64_t values[kBlockRecords];
  for (size_t first = 0; first < records.size(); first += kBlockRecords) {
    const size_t count = std::min(kBlockRecords, records.size() - first);
    std::span<const Record> block = records.subspan(first, count);
    if (!order.empty()) {
      block_.clear();
      for (const uint32_t place : order.subspan(first, count))
        block_.push_back(records[place]);
      block = block_;
    }
    for (size_t i = 0; i < columns_.size(); ++i) {
      columns_[i].get(block, values);
      encoders_[i].put(std::span(values, count));
    }
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    views_[i].bytes = encoders_[i].finish();
    views_[i].encoding = encoders_[i].encoding();
  }
  return views_;
}

template <typename Record>
Status decode_segment(std::span<const ColumnSpec<Record>> columns,
                      std::span<const ColumnBytes> bytes,
                      std::span<Record> records) {
  std::vector<ColumnDecoder> decoders;
  for (const ColumnBytes& one : bytes)
    decoders.emplace_back(one.encoding, one.bytes);
  int64_t values[kBlockRecords];
  for (size_t first = 0; first < records.size(); first += kBlockRecords) {
    const std::span<Record> block =
        records.subspan(first, std::min(kBlockRecords, records.size() - first));
    for (size_t i = 0; i < decoders.size(); ++i) {
      const size_t taken = decoders[i].take(std::span(values, block.size()));
      const size_t set = columns[i].set(block.first(taken), values);
      if (set < taken) {
        return fail(ErrorKind::kParse,
                    "column {}: record {} of {}: value {} is out of range",
                    columns[i].name, first + set, records.size(), values[set]);
      }
      if (taken < block.size()) {
        return fail(ErrorKind::kParse,
                    "column {}: record {} of {} is cut short", columns[i].name,
                    first + taken, records.size());
      }
    }
  }
  for (size_t i = 0; i < decoders.size(); ++i) {
    if (decoders[i].at_end()) continue;
    return fail(ErrorKind::kParse,
                "column {}: more values than {} records ({} bytes left)",
                columns[i].name, records.size(), decoders[i].bytes_left());
  }
  return {};
}

template class SegmentEncoder<Event>;
template class SegmentEncoder<EventDependency>;
template Status decode_segment(std::span<const ColumnSpec<Event>>,
                               std::span<const ColumnBytes>, std::span<Event>);
template Status decode_segment(std::span<const ColumnSpec<EventDependency>>,
                               std::span<const ColumnBytes>,
                               std::span<EventDependency>);

}  // namespace reprise

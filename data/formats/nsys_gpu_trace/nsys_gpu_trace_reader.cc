#include "data/formats/nsys_gpu_trace/nsys_gpu_trace_reader.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "data/formats/csv_table.h"
#include "data/formats/nccl_names.h"
#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"

namespace reprise {
namespace {

enum class Column {
  kStart,
  kDuration,
  kCorrelation,
  kMegabytes,
  kDevice,
  kStream,
  kName,
  kCount
};
constexpr ColumnNames<Column> kNames = {
    {Column::kStart, "Start (ns)"},   {Column::kDuration, "Duration (ns)"},
    {Column::kCorrelation, "CorrId"}, {Column::kMegabytes, "Bytes (MB)"},
    {Column::kDevice, "Device"},      {Column::kStream, "Strm"},
    {Column::kName, "Name"}};
/// Devices and streams beyond so many are those of garbage.
constexpr size_t kMostStreams = 1 << 16;

/// "NVIDIA H100 80GB HBM3 (1)" -> 1; -1 where the name has no such end.
int32_t ordinal_of(std::string_view device) {
  const size_t open = device.rfind('(');
  if (open == device.npos || !device.ends_with(')')) return -1;
  const auto number =
      parse_integer(device.substr(open + 1, device.size() - open - 2));
  const bool fits = number && *number >= 0 && *number < (1 << 16);
  return fits ? static_cast<int32_t>(*number) : -1;
}

/// "161.821" -> 161,821,000; 0 where nothing is written.
int64_t bytes_of(std::string_view megabytes) {
  // Thousandths, of a microsecond there, of a megabyte here.
  const int64_t kilobytes = parse_microseconds(megabytes).value_or(0);
  constexpr int64_t kMost = int64_t{1} << 50;
  return kilobytes < 0 || kilobytes > kMost ? 0 : kilobytes * 1000;
}

class DeviceWork {
 public:
  DeviceWork(TraceSpool& spool, FileReport& report)
      : spool_(spool), report_(report) {}

  void read_row(const CsvTable<Column>& row) {
    const auto start = parse_integer(row[Column::kStart]);
    const auto duration = parse_integer(row[Column::kDuration]);
    const auto number = parse_integer(row[Column::kStream]);
    if (!start || !duration || !number) {
      ++report_.dropped["row without numbers"];
    } else if (*start < 0 || *duration < 0 ||
               *start > kLargestTimeNs - *duration) {
      ++report_.dropped["time out of range"];
    } else if (const auto place = place_of(row[Column::kDevice], *number)) {
      Event event;
      event.rank = place->rank;
      event.stream = place->stream;
      event.start_ns = event.enqueue_ns = *start;
      event.end_ns = *start + *duration;
      event.correlation = parse_integer(row[Column::kCorrelation]).value_or(-1);
      describe(row, event);
      spool_.add(event);
    } else {
      ++report_.dropped["too many streams"];
    }
  }

  /// Several devices in one table are ranks by their ordinals; one alone may be
  /// any rank of a job.
  void number_ranks() {
    if (ranks_.size() < 2) return;
    for (const auto& [device, rank] : ranks_) {
      const int32_t ordinal = ordinal_of(device);
      if (ordinal >= 0) spool_.rank(rank).rank = static_cast<uint32_t>(ordinal);
    }
  }

 private:
  struct Place {
    uint32_t rank, stream;
  };

  std::optional<Place> place_of(std::string_view device, int64_t number) {
    std::pair key(std::string(device), number);
    const auto known = streams_.find(key);
    if (known != streams_.end()) return known->second;
    if (streams_.size() >= kMostStreams) return std::nullopt;
    const uint32_t rank = find_or_add(ranks_, key.first, [&] {
      const uint32_t added = add_unknown_rank(spool_, "capture");
      spool_.rank(added).device = device;
      return added;
    });
    const int32_t ordinal = ordinal_of(device);
    const uint32_t stream =
        spool_.add_stream({.rank = rank,
                           .name = fmt::format("stream {}", number),
                           .kind = StreamKind::kDeviceStream,
                           .process = 0,
                           .device = ordinal,
                           .number = number});
    return streams_.emplace(std::move(key), Place{rank, stream}).first->second;
  }

  /// Kind, name, size and what a kernel of NCCL's does.
  void describe(const CsvTable<Column>& row, Event& event) {
    const std::string_view name = row[Column::kName];
    event.name = spool_.intern(name.empty() ? "(unnamed)" : name);
    event.bytes = bytes_of(row[Column::kMegabytes]);
    if (name.starts_with("[CUDA memset")) {
      event.kind = EventKind::kMemset;
    } else if (name.starts_with("[CUDA memcpy") ||
               name.starts_with("[CUDA Unified Memory memcpy")) {
      event.kind = EventKind::kCopy;
    } else {
      event.kind = EventKind::kCompute;
      ++report_.kernels;
      const auto collective = describe_collective_kernel(name);
      if (!collective) return;
      event.kind = EventKind::kCollective;
      ++report_.collectives;
      event.detail = spool_.add_collective(*collective);
    }
  }

  TraceSpool& spool_;
  FileReport& report_;
  std::map<std::string, uint32_t, std::less<>> ranks_;  ///< By device.
  std::map<std::pair<std::string, int64_t>, Place> streams_;
};

class NsysGpuTraceReader : public TraceReader {
 public:
  std::string_view kind() const override { return "nsys-gpu-trace"; }

  bool recognizes(const InputFile& input) const override {
    return names_columns(input.head, kNames);
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    DeviceWork work(spool, report);
    Status read =
        read_csv(input, kNames, report,
                 [&](const CsvTable<Column>& row) { work.read_row(row); });
    if (!read) return read;
    work.number_ranks();
    report.dialect = "cuda_gpu_trace";
    report.missing.emplace_back(
        "Only device work is in this table: what launched it, operators and "
        "steps are unknown; import the profile itself, exported by `nsys "
        "export --type sqlite`.");
    return {};
  }
};

}  // namespace

const TraceReader& nsys_gpu_trace_reader() {
  static const NsysGpuTraceReader reader;
  return reader;
}

}  // namespace reprise

#include "data/formats/nsys_jax/nsys_jax_reader.h"

#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "data/formats/csv_table.h"
#include "data/formats/nccl_names.h"
#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"

namespace reprise {
namespace {

enum class Column { kStart, kEnd, kName, kProcess, kThread, kCount };
constexpr ColumnNames<Column> kNames = {{Column::kStart, "Start (ns)"},
                                        {Column::kEnd, "End (ns)"},
                                        {Column::kName, "Name"},
                                        {Column::kProcess, "PID"},
                                        {Column::kThread, "TID"}};
/// Processes and threads beyond so many are those of garbage.
constexpr size_t kMostThreads = 1 << 16;

class CsvRangeTable {
 public:
  CsvRangeTable(TraceSpool& spool, FileReport& report)
      : spool_(spool), report_(report) {}

  void read_row(const CsvTable<Column>& row) {
    const auto start = parse_integer(row[Column::kStart]);
    const auto end = parse_integer(row[Column::kEnd]);
    const auto process = parse_integer(row[Column::kProcess]);
    const auto thread = parse_integer(row[Column::kThread]);
    constexpr int64_t kLatest = std::numeric_limits<int64_t>::max() / 4;
    if (!start || !end || !process || !thread) {
      ++report_.dropped["row without numbers"];
    } else if (*start < 0 || *end < *start || *end > kLatest) {
      ++report_.dropped["time out of range"];
    } else if (const auto stream = stream_of(*process, *thread)) {
      add(row[Column::kName], *start, *end, *stream);
    } else {
      ++report_.dropped["too many threads"];
    }
  }

 private:
  struct Place {
    uint32_t rank, stream;
  };

  std::optional<Place> stream_of(int64_t process, int64_t thread) {
    const auto known = threads_.find({process, thread});
    if (known != threads_.end()) return known->second;
    if (threads_.size() >= kMostThreads) return std::nullopt;
    const uint32_t rank = find_or_add(ranks_, process, [&] {
      return add_unknown_rank(spool_, "capture", process);
    });
    const uint32_t stream =
        spool_.add_stream({.rank = rank,
                           .name = "thread " + std::to_string(thread),
                           .kind = StreamKind::kHostThread,
                           .process = process,
                           .device = -1,
                           .number = thread});
    const Place place{rank, stream};
    threads_[{process, thread}] = place;
    return place;
  }

  void add(std::string_view name, int64_t start, int64_t end, Place place) {
    Event event;
    event.rank = place.rank;
    event.stream = place.stream;
    event.start_ns = event.enqueue_ns = start;
    event.end_ns = end;
    event.kind = EventKind::kAnnotation;
    event.name = spool_.intern(name.empty() ? "(unnamed)" : name);
    // "NCCL:ncclAllGather": the domain, and what is called in it.
    const size_t colon = name.find(':');
    const std::string_view call =
        name.starts_with("NCCL:") ? name.substr(colon + 1) : std::string_view();
    if (!call.empty()) event.kind = EventKind::kHostOp;
    const CollectiveKind kind = kind_of_nccl_call(call);
    if (kind != CollectiveKind::kUnknown) {
      event.detail = spool_.add_collective({.kind = kind});
    }
    spool_.add(event);
  }

  TraceSpool& spool_;
  FileReport& report_;
  std::map<int64_t, uint32_t> ranks_;
  std::map<std::pair<int64_t, int64_t>, Place> threads_;
};

class NsysJaxReader : public TraceReader {
 public:
  std::string_view kind() const override { return "nsys-jax-csv"; }

  bool recognizes(const InputFile& input) const override {
    return names_columns(input.head, kNames);
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    CsvRangeTable table(spool, report);
    Status read =
        read_csv(input, kNames, report,
                 [&](const CsvTable<Column>& row) { table.read_row(row); });
    if (!read) return read;
    report.dialect = "nvtx_pushpop_trace";
    report.missing.emplace_back(
        "What devices did is not in this table but in "
        "nvtx_gpu_proj_trace/trace.parquet, which is not read: run `nsys "
        "export --type sqlite -o profile.sqlite profile.nsys-rep` on the "
        "profile itself and import profile.sqlite.");
    return {};
  }
};

}  // namespace

const TraceReader& nsys_jax_reader() {
  static const NsysJaxReader reader;
  return reader;
}

}  // namespace reprise

#include "data/formats/nsys_jax/nsys_jax_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "data/formats/nccl_names.h"
#include "data/formats/nsys_jax/nsys_jax_csv.h"

namespace reprise {
namespace {

constexpr std::string_view kStart = "Start (ns)", kEnd = "End (ns)",
                           kName = "Name", kProcess = "PID", kThread = "TID";
constexpr size_t kColumns = 5;
constexpr std::array<std::string_view, kColumns> kNames = {kStart, kEnd, kName,
                                                           kProcess, kThread};
/// Processes and threads beyond so many are those of garbage.
constexpr size_t kMostThreads = 1 << 16;

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && last == end && !text.empty();
  return whole ? std::optional(value) : std::nullopt;
}

class CsvRangeTable {
 public:
  CsvRangeTable(TraceSpool& spool, FileReport& report)
      : spool_(spool), report_(report) {}

  /// Whether the row names all columns.
  bool read_header(const std::vector<std::string>& fields) {
    for (size_t i = 0; i < kColumns; ++i) {
      const auto found = std::find(fields.begin(), fields.end(), kNames[i]);
      if (found == fields.end()) return false;
      places_[i] = static_cast<size_t>(found - fields.begin());
    }
    return true;
  }

  void read_row(const std::vector<std::string>& fields) {
    if (fields.size() <= *std::max_element(places_.begin(), places_.end())) {
      ++report_.dropped["row with too few fields"];
      return;
    }
    const auto start = integer(fields[places_[0]]);
    const auto end = integer(fields[places_[1]]);
    const auto process = integer(fields[places_[3]]);
    const auto thread = integer(fields[places_[4]]);
    constexpr int64_t kLatest = std::numeric_limits<int64_t>::max() / 4;
    if (!start || !end || !process || !thread) {
      ++report_.dropped["row without numbers"];
    } else if (*start < 0 || *end < *start || *end > kLatest) {
      ++report_.dropped["time out of range"];
    } else if (const auto stream = stream_of(*process, *thread)) {
      add(fields[places_[2]], *start, *end, *stream);
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
    const auto [rank, is_new] = ranks_.try_emplace(process, 0);
    if (is_new) {
      RankInfo info;
      info.rank = kUnknownRank;
      info.process = process;
      info.clock_domain = "capture";
      rank->second = spool_.add_rank(std::move(info));
    }
    const uint32_t stream =
        spool_.add_stream({.rank = rank->second,
                           .name = "thread " + std::to_string(thread),
                           .kind = StreamKind::kHostThread,
                           .process = process,
                           .device = -1,
                           .number = thread});
    const Place place{rank->second, stream};
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
    const std::string_view operation = operation_of_nccl_call(call);
    if (!operation.empty()) {
      CollectiveInfo info;
      info.op = operation;
      event.detail = spool_.add_collective(info);
    }
    spool_.add(event);
  }

  TraceSpool& spool_;
  FileReport& report_;
  std::array<size_t, kColumns> places_{};
  std::map<int64_t, uint32_t> ranks_;
  std::map<std::pair<int64_t, int64_t>, Place> threads_;
};

class NsysJaxReader : public TraceReader {
 public:
  std::string_view kind() const override { return "nsys-jax-csv"; }

  bool recognizes(const InputFile& input) const override {
    const std::string_view head = input.head;
    const std::string_view first = head.substr(0, head.find('\n'));
    return first.starts_with(kStart) &&
           std::all_of(kNames.begin(), kNames.end(),
                       [&](std::string_view name) {
                         return first.find(name) != first.npos;
                       });
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    CsvRows rows(*input.source);
    CsvRangeTable table(spool, report);
    bool header = false;
    while (true) {
      const Result<bool> row = rows.next();
      if (!row) return pass(row.error(), input.name);
      if (!*row) break;
      if (header) {
        table.read_row(rows.fields());
      } else if (header = table.read_header(rows.fields()); !header) {
        return fail(ErrorKind::kParse, "{}: the first row names no columns",
                    input.name);
      }
    }
    if (rows.rows_too_long() > 0) {
      report.dropped["row of more than 1 MiB"] = rows.rows_too_long();
    }
    if (rows.cut()) ++report.dropped["row cut within quotes"];
    report.dialect = "nvtx_pushpop_trace";
    report.missing.emplace_back(
        "What devices did is not in this table but in "
        "nvtx_gpu_proj_trace/trace.parquet, which is not read; import the "
        "profile itself, exported by `nsys export --type sqlite`.");
    return {};
  }
};

}  // namespace

const TraceReader& nsys_jax_reader() {
  static const NsysJaxReader reader;
  return reader;
}

}  // namespace reprise

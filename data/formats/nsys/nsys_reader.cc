#include "data/formats/nsys/nsys_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "data/formats/nsys/nsys_import.h"

namespace reprise {
namespace {

constexpr std::string_view kMagic("SQLite format 3\0", 16);

/// Tables of every export since 2020, any of which tells the format.
constexpr std::string_view kTelling[] = {
    "META_DATA_EXPORT", "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME", "TARGET_INFO_SESSION_START_TIME",
    "StringIds"};

/// What a table's absence costs.
struct Wanted {
  std::string_view table;
  std::string_view cost;
};
constexpr Wanted kWanted[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     "No kernels are in the file (CUPTI_ACTIVITY_KIND_KERNEL): what the device "
     "computed is unknown; profile with --trace=cuda."},
    {"CUPTI_ACTIVITY_KIND_RUNTIME",
     "CUDA calls are not in the file (CUPTI_ACTIVITY_KIND_RUNTIME): what "
     "launched a kernel is unknown."},
    {"NVTX_EVENTS",
     "No NVTX ranges are in the file: operators and steps are unknown; profile "
     "with --trace=cuda,nvtx."},
    {"StringIds",
     "The table of names (StringIds) is not in the file: kernels are "
     "nameless."}};

/// Tables that hold events which no analysis uses.
struct Unused {
  std::string_view table;
  const char* what;
};
constexpr Unused kUnused[] = {
    {"OSRT_API", "OS runtime call"},
    {"SCHED_EVENTS", "scheduler event"},
    {"COMPOSITE_EVENTS", "CPU sample"},
    {"CUDA_GPU_MEMORY_USAGE_EVENTS", "memory usage event"},
    {"CUBLAS_EVENTS", "cuBLAS call"},
    {"CUDNN_EVENTS", "cuDNN call"},
    {"MPI_COLLECTIVES_EVENTS", "MPI collective"},
    {"MPI_P2P_EVENTS", "MPI message"},
    {"GPU_METRICS", "GPU metric"}};

void count_unused(NsysImport& import) {
  for (const Unused& unused : kUnused) {
    NsysRows rows = import.database.rows(unused.table, {});
    int64_t count = 0;
    while (rows.next()) ++count;
    if (count > 0) import.report.ignored[unused.what] = count;
    import.finish(rows);
  }
}

std::string dialect_of(NsysDatabase& database) {
  std::string schema, version;
  NsysRows rows = database.rows("META_DATA_EXPORT",
                                {NsysColumn::kName, NsysColumn::kValue});
  while (rows.next()) {
    const std::string_view name = rows.text(NsysColumn::kName);
    const std::string_view value = rows.text(NsysColumn::kValue);
    if (name == "EXPORT_SCHEMA_VERSION") schema = value;
    if (name == "EXPORT_PRODUCT_VERSION") version = value;
  }
  if (schema.empty()) return "schema unknown";
  return version.empty() ? fmt::format("schema {}", schema)
                         : fmt::format("schema {} nsys {}", schema, version);
}

class NsysReader : public TraceReader {
 public:
  std::string_view kind() const override { return "nsys-sqlite"; }

  bool recognizes(const InputFile& input) const override {
    if (!input.head.starts_with(kMagic)) return false;
    // The schema mostly stands on the first pages.
    for (const std::string_view name : kTelling) {
      if (input.head.find(name) != std::string::npos) return true;
    }
    if (input.path.empty()) return false;
    const auto database = NsysDatabase::open(input.path);
    return database && std::any_of(std::begin(kTelling), std::end(kTelling),
                                   [&](std::string_view name) {
                                     return database->has_table(name);
                                   });
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    auto file = LocalFile::of(input);
    if (!file) return pass(file.error());
    auto database = NsysDatabase::open(file->path());
    if (!database) {
      return fail(database.error().kind, "{}: {}", input.name,
                  database.error().message);
    }
    NsysImport import(*database, spool, report);
    report.dialect = dialect_of(*database);
    import.ranks.find(*database);
    if (import.ranks.count() == 0) {
      report.refused =
          "holds no CUDA activity (no kernels, copies or CUDA calls); profile "
          "with --trace=cuda and export again";
      return {};
    }
    for (const Wanted& wanted : kWanted) {
      if (!database->has_table(wanted.table)) {
        import.miss(std::string(wanted.cost));
      }
    }
    read_nsys_environment(import);
    read_nsys_device_work(import);
    read_nsys_synchronizations(import);
    read_nsys_calls(import);
    read_nsys_annotations(import);
    count_unused(import);
    describe_nsys_ranks(import);
    return {};
  }
};

}  // namespace

const TraceReader& nsys_reader() {
  static const NsysReader reader;
  return reader;
}

}  // namespace reprise

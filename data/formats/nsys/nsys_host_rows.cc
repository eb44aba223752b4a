// Host rows of an Nsight Systems export: CUDA calls and the profiler's own
// time; and who the ranks are.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "data/formats/nsys/nsys_import.h"

namespace reprise {
namespace {

/// Times beyond 36 years from the capture's start are no times; sums of two
/// such fit in 64 bits.
constexpr int64_t kMaxTime = int64_t{1} << 60;
/// The year 2043, in ns since the epoch.
constexpr int64_t kMaxEpoch = int64_t{1} << 61;

using enum NsysColumn;

/// One row of a host thread; false when no rank can own it.
bool place_on_thread(NsysImport& import, int64_t global_tid, Event& event) {
  const auto rank = import.ranks.rank_of_call(global_tid, event.correlation);
  if (!rank) {
    import.drop("host event of a process without GPU work");
    return false;
  }
  event.rank = *rank;
  event.stream = import.ranks.host_thread(*rank, global_tid, import.database);
  return true;
}

void read_host_table(NsysImport& import, std::string_view table, EventKind kind,
                     std::string_view fallback) {
  NsysRows rows =
      import.database.rows(table, {kStart, kEnd, kTid, kNameId, kCorrelation});
  while (rows.next()) {
    Event event;
    if (!import.read_times(rows, event)) continue;
    const auto tid = rows.integer(kTid);
    if (!tid) {
      import.drop("host event without a thread");
      continue;
    }
    event.kind = kind;
    const int64_t correlation = rows.integer_or(kCorrelation, -1);
    event.correlation = std::max<int64_t>(-1, correlation);
    if (!place_on_thread(import, *tid, event)) continue;
    event.name = import.string_of(rows.integer(kNameId), fallback);
    if (kind == EventKind::kOverhead) event.correlation = -1;
    import.add(event);
  }
  import.finish(rows);
}

/// The text of one row of a table of names and values.
std::string value_of(NsysDatabase& database, std::string_view table,
                     std::string_view name) {
  NsysRows rows = database.rows(table, {kName, kValue});
  while (rows.next()) {
    if (rows.text(kName) == name) return std::string(rows.text(kValue));
  }
  return {};
}

/// Models of the machine's GPUs by the number that CUDA gives them.
std::map<int64_t, std::string> device_names(NsysDatabase& database) {
  std::map<int64_t, std::string> by_gpu;
  NsysRows gpus = database.rows("TARGET_INFO_GPU", {kId, kName});
  while (gpus.next() && by_gpu.size() < 1024) {
    if (const auto id = gpus.integer(kId))
      by_gpu.emplace(*id, gpus.text(kName));
  }
  std::map<int64_t, std::string> by_device;
  NsysRows devices =
      database.rows("TARGET_INFO_CUDA_DEVICE", {kGpu, kCudaDevice});
  while (devices.next() && by_device.size() < 1024) {
    const auto gpu = by_gpu.find(devices.integer_or(kGpu, -1));
    if (gpu != by_gpu.end()) {
      by_device.emplace(devices.integer_or(kCudaDevice, -1), gpu->second);
    }
  }
  return by_device.empty() ? by_gpu : by_device;
}

std::optional<uint32_t> number_in(std::string_view text) {
  while (!text.empty() && (text.front() == '"' || text.front() == ' ')) {
    text.remove_prefix(1);
  }
  uint32_t value = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || value >= kUnknownRank) return std::nullopt;
  return value;
}

/// The launchers' variables of a process's number in the whole job.
constexpr std::string_view kRankVariables[] = {"RANK", "OMPI_COMM_WORLD_RANK",
                                               "PMI_RANK", "SLURM_PROCID"};

/// The value of the first such variable in `NAME=value` pairs.
std::optional<uint32_t> rank_in(std::string_view pair,
                                std::string_view variable) {
  if (!pair.starts_with(variable) || pair.size() <= variable.size() ||
      pair[variable.size()] != '=') {
    return std::nullopt;
  }
  return number_in(pair.substr(variable.size() + 1));
}

/// The rank that the environment of the profiled program states, which is one
/// process's only when the file holds one.
std::optional<uint32_t> rank_of_environment(NsysDatabase& database) {
  for (const std::string_view variable : kRankVariables) {
    const std::string direct =
        value_of(database, "TARGET_INFO_SYSTEM_ENV", variable);
    if (const auto rank = number_in(direct)) return rank;
    NsysRows rows = database.rows("META_DATA_CAPTURE", {kName, kValue});
    while (rows.next()) {
      if (!rows.text(kName).ends_with(":ENVIRONMENT_VARIABLE")) continue;
      if (const auto rank = rank_in(rows.text(kValue), variable)) return rank;
    }
  }
  return std::nullopt;
}

/// The start of the capture in ns since the epoch; 0 when unknown.
int64_t epoch_of(NsysDatabase& database) {
  NsysRows rows = database.rows("TARGET_INFO_SESSION_START_TIME", {kUtcEpoch});
  const int64_t epoch = rows.next() ? rows.integer_or(kUtcEpoch, 0) : 0;
  return epoch > 0 && epoch < kMaxEpoch ? epoch : 0;
}

void number_ranks(NsysImport& import) {
  TraceSpool& spool = import.spool;
  if (spool.rank_count() == 1) return;
  // NCCL's own numbers, where its calls told them, if they are of all ranks.
  std::set<uint32_t> told;
  for (uint32_t i = 0; i < spool.rank_count(); ++i) {
    if (spool.rank(i).rank != kUnknownRank) told.insert(spool.rank(i).rank);
  }
  if (told.size() == spool.rank_count()) return;
  for (uint32_t i = 0; i < spool.rank_count(); ++i) spool.assume_rank(i, i);
}

}  // namespace

bool NsysImport::read_times(const NsysRows& rows, Event& event,
                            NsysColumn end) {
  const auto from = rows.integer(kStart);
  const auto to = rows.integer(end);
  if (!from || !to) {
    drop("no start or end");
  } else if (*from > kMaxTime || *from < -kMaxTime || *to > kMaxTime ||
             *to < -kMaxTime) {
    drop("time out of range");
  } else if (*to < *from) {
    drop("end before start");
  } else {
    event.start_ns = event.enqueue_ns = *from;
    event.end_ns = *to;
    return true;
  }
  return false;
}

StringId NsysImport::string_of(std::optional<int64_t> id,
                               std::string_view fallback) {
  if (id) {
    const auto known = strings.find(*id);
    if (known != strings.end()) return known->second;
    if (const auto text = database.string_of(*id)) {
      return strings.emplace(*id, spool.intern(*text)).first->second;
    }
  }
  ++report.repaired["name not in StringIds"];
  return spool.intern(fallback);
}

void NsysImport::add(const Event& event) {
  spool.add(event);
  ++report.events;
}

void NsysImport::finish(const NsysRows& rows) {
  if (rows.damage().empty()) return;
  drop(fmt::format("rest of {}: {}", rows.table(), rows.damage()));
}

void read_nsys_calls(NsysImport& import) {
  read_host_table(import, "CUPTI_ACTIVITY_KIND_RUNTIME", EventKind::kRuntime,
                  "CUDA call");
  read_host_table(import, "PROFILER_OVERHEAD", EventKind::kOverhead,
                  "profiler");
  read_host_table(import, "CUPTI_ACTIVITY_KIND_OVERHEAD", EventKind::kOverhead,
                  "CUPTI");
}

void read_nsys_environment(NsysImport& import) {
  if (import.spool.rank_count() != 1) return;
  const auto rank = rank_of_environment(import.database);
  if (rank) import.spool.rank(0).rank = *rank;
}

void describe_nsys_ranks(NsysImport& import) {
  const std::string host =
      value_of(import.database, "TARGET_INFO_SYSTEM_ENV", "Hostname");
  const std::map<int64_t, std::string> devices = device_names(import.database);
  const int64_t epoch = epoch_of(import.database);
  for (uint32_t i = 0; i < import.spool.rank_count(); ++i) {
    RankInfo& rank = import.spool.rank(i);
    rank.host = host;
    const auto name = devices.find(import.ranks.device(i));
    if (name != devices.end()) rank.device = name->second;
    if (epoch == 0) continue;
    rank.clock_domain = "epoch";
    import.spool.set_time_base(i, epoch);
  }
  if (epoch == 0) {
    import.miss(
        "The time of the capture's start is not in the file "
        "(TARGET_INFO_SESSION_START_TIME); clocks of several files are "
        "aligned by their collectives alone.");
  }
  number_ranks(import);
}

}  // namespace reprise

// What the parts of the Nsight Systems reader share while they read one
// export, and those parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/formats/nsys/nsys_database.h"
#include "data/formats/nsys/nsys_nccl.h"
#include "data/formats/nsys/nsys_ranks.h"
#include "data/formats/reader.h"
#include "data/trace/trace_spool.h"

namespace reprise {

struct NsysImport {
  NsysDatabase& database;
  TraceSpool& spool;
  FileReport& report;
  NsysRanks ranks;
  NcclPayloads payloads;
  /// StringIds -> the spool's, for those already used.
  std::unordered_map<int64_t, StringId> strings;

  NsysImport(NsysDatabase& opened, TraceSpool& into, FileReport& filled)
      : database(opened), spool(into), report(filled), ranks(into) {}

  void drop(const std::string& reason) { ++report.dropped[reason]; }
  void miss(std::string sentence) {
    report.missing.push_back(std::move(sentence));
  }
  /// Reads the row's times; counts and refuses rows without, out of order or
  /// out of range. A mark's `end` is its start.
  bool read_times(const NsysRows& rows, Event& event,
                  NsysColumn end = NsysColumn::kEnd);
  /// The text of StringIds' row, or `fallback` and a count.
  StringId string_of(std::optional<int64_t> id, std::string_view fallback);
  void add(const Event& event);
  /// To be called after each walk of a table.
  void finish(const NsysRows& rows);
};

/// The rank's number that a launcher told a file's one process.
void read_nsys_environment(NsysImport& import);
/// Kernels, graphs traced whole, copies, sets.
void read_nsys_device_work(NsysImport& import);
/// Waits for events, streams and devices.
void read_nsys_synchronizations(NsysImport& import);
/// Calls of the CUDA runtime and driver, and what the profiler itself cost.
void read_nsys_calls(NsysImport& import);
/// NVTX ranges and marks: operators, NCCL's calls, annotations, steps.
void read_nsys_annotations(NsysImport& import);
/// Hosts, devices, the ranks' numbers, the clock.
void describe_nsys_ranks(NsysImport& import);

}  // namespace reprise

// How records of NCCL's profiler plugins become events, whichever plugin wrote
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "data/formats/nccl_profiler/nccl_profiler_calls.h"
#include "data/formats/reader.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// A span of time; without a start there is none.
struct NcclSpan {
  std::optional<int64_t> start_ns;
  int64_t end_ns = 0;

  void extend(const NcclSpan& other);
};

/// A collective or point-to-point operation.
struct NcclOperation {
  uint32_t rank = 0;  ///< The spool's.
  std::string name;   ///< "AllReduce".
  CollectiveInfo info;
  int64_t bytes = 0, sequence = -1;
  std::string attributes;           ///< A JSON object, or "".
  int64_t process = 0, thread = 0;  ///< That launched it.
  NcclSpan launch, channels;
  bool proxies = false;  ///< `launch` reaches to the end of network proxies.
};

/// A kernel that ran one operation or several.
struct OperationKernel {
  std::string name;
  NcclSpan times;
  int32_t device = -1;
  std::string stream;
  int64_t correlation = -1;
};

/// Fills info, bytes, sequence and attributes from the fields of a record,
/// given as they stand there by either plugin's names ("Count" or "count").
void read_operation(
    const std::function<std::string_view(std::string_view field)>& field,
    NcclOperation& operation);

/// Turns what was recorded into events of a spool.
class NcclProfilerImport {
 public:
  NcclProfilerImport(TraceSpool& spool, FileReport& report)
      : spool_(spool), report_(report), times_(spool, "nccl-profiler") {}

  /// An event of a host thread.
  void add_host(uint32_t rank, int64_t process, int64_t thread, EventKind kind,
                std::string_view name, const NcclSpan& times,
                int64_t correlation = -1);
  /// `operation` has the bytes of all that the kernel ran; only where that was
  /// one is it a cost point.
  void add_kernel(const NcclOperation& operation, const OperationKernel& kernel,
                  bool cost_point);
  /// An operation whose kernel was not recorded.
  void add_alone(const NcclOperation& operation);
  void finish();

 private:
  uint32_t thread_of(uint32_t rank, int64_t process, int64_t thread);
  uint32_t stream_of(uint32_t rank, int32_t device, const std::string& name);
  void add(const NcclOperation& operation, Event event);

  TraceSpool& spool_;
  FileReport& report_;
  CollectiveCostPoints times_;
  std::map<std::tuple<uint32_t, int64_t, int64_t>, uint32_t> threads_;
  std::map<std::tuple<uint32_t, int32_t, std::string>, uint32_t> streams_;
  int64_t launches_alone_ = 0;
};

/// Reads the lines of pha-Z/nccl's minimal profiler.
Status read_nccl_profiler_lines(InputFile& input, TraceSpool& spool,
                                FileReport& report);

/// Reads the Chrome events of NVIDIA's example plugin.
Status read_nccl_profiler_events(InputFile& input, TraceSpool& spool,
                                 FileReport& report);

}  // namespace reprise

// A made-up step with known causes of slowness. It runs a little program on
// several ranks by rules of its own (a host that launches, a compute stream, a
// communication stream, collectives that begin with the last rank), so the same
// program without a cause says what that cause costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/trace/trace.h"
#include "tests/replay/analysis/analysis_trace.h"

namespace reprise {

class InjectedStep {
 public:
  explicit InjectedStep(uint32_t ranks);

  int64_t launch_ns = 4'000;    ///< A launching call.
  int64_t operator_ns = 4'000;  ///< The operator around it, beside.
  int64_t dispatch_ns = 1'000;  ///< Between kernels of a stream.
  /// [rank] Kernels of this rank last so many times as long.
  std::vector<double> pace;

  /// On every rank: an operator that launches a kernel.
  void kernel(const std::string& name, int64_t duration_ns);
  /// On one rank alone.
  void kernel_on(uint32_t rank, const std::string& name, int64_t duration_ns);
  /// After what was computed so far, on a stream of its own or the compute
  /// stream. `kernel`: its name there.
  void collective(CollectiveKind kind, int64_t bytes, int64_t transfer_ns,
                  bool own_stream = true,
                  const std::string& kernel = "ncclDevKernel_AllReduce_Sum");
  /// All-reduces of several groups of ranks at a time, by place in
  /// `transfer_ns` each, `size` neighbouring ranks a group; on the compute
  /// stream.
  void grouped(uint32_t size, int64_t bytes,
               const std::vector<int64_t>& transfer_ns);
  /// Each rank sends to one and receives from one, which takes it its own time.
  void permute(int64_t bytes, const std::vector<int64_t>& transfer_ns);
  /// From one rank to the next, on the compute stream of both.
  void send(uint32_t from, int64_t bytes, int64_t transfer_ns) {
    send(from, from + 1, bytes, transfer_ns);
  }
  void send(uint32_t from, uint32_t to, int64_t bytes, int64_t transfer_ns);
  /// What is computed next waits for all communication so far.
  void wait_for_communication();
  /// The host waits for the compute stream, in an operator.
  void synchronize(const std::string& op);
  /// A copy to the device; the host waits for it where `pageable`.
  void copy(int64_t duration_ns, bool pageable);
  void load_data(int64_t duration_ns, EventKind kind = EventKind::kHostOp);
  /// An operator that one rank's host alone is busy with.
  void host_on(uint32_t rank, const std::string& name, int64_t duration_ns);
  /// Of the driver, by the host alone.
  void set_up(int64_t duration_ns);

  /// The longest time of a rank so far: host and device.
  int64_t span_ns() const;
  /// Ends the step.
  Trace trace();

 private:
  struct Rank {
    uint32_t host = 0, compute = 0, communication = 0;  ///< Streams.
    int64_t host_ns = 0, compute_ns = 0, communication_ns = 0;
  };
  void call(Rank& rank, const std::string& name, int64_t duration_ns);
  int64_t launched(Rank& rank, const std::string& op);
  /// Ranks from `first` on, on their compute streams; `transfer_ns`: of each.
  void meet(CollectiveKind kind, uint32_t first, int64_t bytes,
            const std::vector<int64_t>& transfer_ns);
  void run_on(Rank& rank, const std::string& name, int64_t duration_ns);

  AnalysisTrace trace_;
  std::vector<Rank> ranks_;
  std::vector<CollectiveInfo> collectives_;
  int64_t correlation_ = 0;
};

}  // namespace reprise

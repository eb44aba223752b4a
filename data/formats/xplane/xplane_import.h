// An XLA profile on its way into a spool: which planes are ranks, what their
// lines hold, and where each event goes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/formats/reader.h"
#include "data/formats/xplane/xplane_calls.h"
#include "data/formats/xplane/xplane_cpu_devices.h"
#include "data/formats/xplane/xplane_host_steps.h"
#include "data/formats/xplane/xplane_modules.h"
#include "data/formats/xplane/xplane_order.h"
#include "data/formats/xplane/xplane_pool_tasks.h"
#include "data/formats/xplane/xplane_proto.h"
#include "data/formats/xplane/xplane_row.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// Reads one XSpace. A rank is a device that ran kernels; what other devices
/// copied, and the host's threads, belong to the first. Host calls belong to
/// the device that did their work. Where no device did anything, a rank is a
/// CPU device that ran operations on the host's threads.
class XplaneImport {
 public:
  /// `bytes` must outlive the object.
  XplaneImport(std::string_view bytes, TraceSpool& spool, FileReport& report)
      : bytes_(bytes), spool_(spool), report_(report) {}

  /// Errors: kParse when not one plane is sound.
  Status run();

 private:
  struct Device {
    std::string_view bytes;
    std::string_view name;  ///< "GPU:4"
    bool streams = false;   ///< Has events on streams.
    bool kernels = false;   ///< Of which one is a kernel.
    bool beside = false;    ///< Has a line of what runs beside operations.
    uint32_t rank = 0;
  };
  enum class LineKind {
    kWork,        ///< What ran, when.
    kBeside,      ///< What ran beside operations.
    kAnnotation,  ///< Spans over the work: programs; ops, beside streams.
    kSteps,
    kDerived,  ///< The same time told otherwise: "TensorFlow Name Scope" …
  };

  void find_planes();
  void add_plane(std::string_view bytes);
  void read_environment(const Xplane& plane);
  void look_at(Device& device);
  void add_ranks();
  void add_host_ranks();
  void add_rank(const Device* device);

  static LineKind kind_of(const Device& device, std::string_view line);
  void read_device(const Device& device);
  void read_device_line(const Device& device, const Xplane& plane,
                        const XplaneLine& line);
  uint32_t add_stream(const Device& device, std::string_view line,
                      std::string name);
  void add_work(const Device& device, LineKind line, XplaneRow& row);
  void describe_collective(XplaneRow& row);
  void add_step(uint32_t rank, const XplaneRow& row);

  void read_host(const Xplane& plane);
  void read_host_line(const Xplane& plane, const XplaneLine& line);
  void add_host_event(const XplaneLine& line, XplaneCalls::Owner owner,
                      XplaneRow& row);
  void add_pool_event(const XplaneLine& line, const PoolEvent& found);
  void classify_host_event(XplaneRow& row);
  uint32_t host_thread(uint32_t rank, const XplaneLine& line);

  void add(XplaneRow& row);
  void finish();

  std::string_view bytes_;
  TraceSpool& spool_;
  FileReport& report_;
  std::string host_name_;
  std::vector<Device> devices_;
  std::vector<std::string_view> hosts_, metadata_;
  XplaneModules modules_;
  XplaneOrder order_{modules_};                 ///< Of the device at hand.
  std::vector<std::string_view> rank_devices_;  ///< `[rank]`: "GPU:4", "".
  CpuDevices cpu_devices_;   ///< The ranks, where there are any.
  PoolTasks pool_tasks_;     ///< Of those.
  int64_t started_ns_ = 0;   ///< When the profile did, of the epoch.
  bool from_epoch_ = false;  ///< The lines' times count from there already.
  XplaneCalls calls_;        ///< Of the host, where devices are several.
  std::map<std::pair<uint32_t, int64_t>, uint32_t> threads_;
  /// (rank, step) -> its mark, of devices or, where these have none, hosts.
  std::map<std::pair<uint32_t, int32_t>, StepMark> steps_;
  HostSteps host_steps_;
};

}  // namespace reprise

// A schedule bound to a device's memory and code: what each unit enqueues.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cuda/cubins.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/device_communicator.h"
#include "runtime/cuda/device_resources.h"
#include "runtime/cuda/device_unit_calls.h"
#include "runtime/cuda/driver.h"

namespace reprise {

/// Alignment of buffers in device memory, bytes: that of cuMemAlloc.
constexpr int64_t kDeviceAlignmentBytes = 256;

/// None without cuDNN, which must outlive the answer.
ConvolutionLibrary library_of(CudnnLibrary* cudnn);

/// One arena, planned as on the CPU but for its alignment, with the constants
/// in it, and every computing unit bound to its addresses. `enqueue` allocates
/// nothing.
class DeviceProgram {
 public:
  /// `cubins` are of the kernels of `device_programs`. The context is current;
  /// all references must outlive the program. Errors: kUnsupported naming the
  /// first unit that cannot run; kDevice.
  static Result<std::unique_ptr<DeviceProgram>> create(
      const DeviceContext& context, const Module& inlined,
      const Schedule& schedule, const Cubins& cubins, CublasLibrary& cublas,
      const DeviceBinding& binding = {});

  /// Enqueues one unit of the compute stream. Errors: kDevice naming it.
  Status enqueue(UnitId unit, CUstream stream) const;
  /// Why something that ran on the host failed, once the device has ended it.
  Status host_failure() const;

  /// Whether a graph can hold a step: no loop or branch waits for what the
  /// device computes, and its operations are not too many.
  bool is_capturable() const;
  /// Units that the host runs, loops' own included.
  const std::vector<std::string>& on_host() const { return shared_.on_host; }
  /// Collectives inside loops and branches, which `enqueue` enqueues.
  const std::vector<const Unit*>& called_collectives() const {
    return shared_.called_collectives;
  }
  /// `waited` is called each time that `enqueue` has waited for the device.
  void set_waited(std::function<void()> waited) {
    shared_.waited = std::move(waited);
  }

  CUdeviceptr address_of(const Location& location) const;
  /// A parameter's or output's whole value.
  Location parameter(int64_t number) const;
  Location output(int64_t number) const;
  DeviceSpan arena() const {
    return {.base = arena_.address(), .size_bytes = arena_.size_bytes()};
  }

 private:
  DeviceProgram(const Driver& driver, const Module& inlined,
                const Schedule& schedule, const Cubins& cubins,
                CublasLibrary& cublas, const DeviceBinding& binding);
  Status allocate();
  Status load_modules();
  Status write_constants(const Module& inlined);
  Status bind(const Module& inlined);
  Status place_host_work();

  const Driver& driver_;
  const Schedule& schedule_;
  std::vector<int64_t> offsets_;  ///< `[buffer]` in the arena.
  DeviceMemory arena_;
  DeviceResources shared_;
  DeviceUnitCalls calls_;
};

}  // namespace reprise

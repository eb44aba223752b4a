// What the units of a step share on its device, those of loops and branches
// inside it included.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/kernel_code.h"
#include "runtime/cuda/cubins.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/device_communicator.h"
#include "runtime/cuda/device_programs.h"
#include "runtime/cuda/driver.h"

namespace reprise {

class HostWork;

/// What a step is bound with beside its code; references must outlive it.
struct DeviceBinding {
  int64_t rank = 0;
  /// Of collectives inside loops and branches; null where there are none.
  DeviceCommunicator* communicator = nullptr;
  /// [kernel of the step's schedule] Code for the host of comparators and
  /// reducers (`host_functions`); others may be empty.
  std::span<const KernelCode> functions = {};
  double timeout_s = kDeviceWaitSeconds;  ///< Longest wait for the device.
  CudnnLibrary* cudnn = nullptr;          ///< Null: convolutions are expanded.
};

struct DeviceResources {
  const Driver& driver;
  const Cubins& cubins;
  CublasLibrary& cublas;
  DeviceBinding binding;
  DevicePrograms programs;
  std::vector<CudaModule> modules = {};  ///< [image]
  /// Of kernels, of packed dots, of expanded routines.
  DeviceMemory workspace = {}, scratch = {}, expansion = {};
  std::vector<DeviceMemory> constants = {};  ///< Of called programs, for good.
  PinnedMemory choice = {};                  ///< What the host reads to go on.
  PinnedMemory staging = {};  ///< Operands and results of host work.
  std::vector<HostWork*> host_work = {};  ///< In order of binding.
  std::vector<std::string> on_host = {};  ///< Their units' names.
  std::vector<const Unit*> called_collectives = {};
  /// The host waits for the device in the middle of a step.
  bool reads_back = false;
  /// Told after each such wait.
  std::function<void()> waited = {};
  /// Set by host work that failed, by a thread of the driver's.
  std::atomic<bool> host_failed{false};
};

/// A choice that the device made: `choice_bytes` from `address`, once all that
/// `stream` holds has run. Errors: kDevice.
Result<std::span<const std::byte>> read_choice(DeviceResources& resources,
                                               CUdeviceptr address,
                                               size_t choice_bytes,
                                               CUstream stream);

/// Places in Schedule::kernels of what host work calls, sorted.
std::vector<int32_t> host_functions(const Schedule& step);

}  // namespace reprise

// The CUDA driver by dlopen: its function table, one device, and owners of what
// it hands out. Types are those of cuda.h; nothing links libcuda, so a binary
// starts on a machine that has no driver.
//
// Threads: the table is read-only after `load`. Every call needs the device's
// context current on the calling thread (`make_current`).
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/result.h"

#if CUDA_VERSION < 12080
// Drivers of all CUDA 12 and 13 are asked for it, and find_symbol takes the
// older name; only headers came to it late.
extern "C" CUresult CUDAAPI cuEventElapsedTime_v2(float* milliseconds,
                                                  CUevent start, CUevent end);
#endif

namespace reprise {

// X(member, symbol): the symbol's version that drivers of CUDA 12 and 13 have.
#define REPRISE_DRIVER_FUNCTIONS(X)                     \
  X(init, cuInit)                                       \
  X(get_error_name, cuGetErrorName)                     \
  X(get_error_string, cuGetErrorString)                 \
  X(driver_get_version, cuDriverGetVersion)             \
  X(device_get_count, cuDeviceGetCount)                 \
  X(device_get, cuDeviceGet)                            \
  X(device_get_name, cuDeviceGetName)                   \
  X(device_get_attribute, cuDeviceGetAttribute)         \
  X(device_get_uuid, cuDeviceGetUuid_v2)                \
  X(context_retain, cuDevicePrimaryCtxRetain)           \
  X(context_release, cuDevicePrimaryCtxRelease_v2)      \
  X(context_set_current, cuCtxSetCurrent)               \
  X(context_synchronize, cuCtxSynchronize)              \
  X(stream_priority_range, cuCtxGetStreamPriorityRange) \
  X(memory_get_info, cuMemGetInfo_v2)                   \
  X(memory_allocate, cuMemAlloc_v2)                     \
  X(memory_free, cuMemFree_v2)                          \
  X(host_allocate, cuMemHostAlloc)                      \
  X(host_free, cuMemFreeHost)                           \
  X(copy_to_device, cuMemcpyHtoD_v2)                    \
  X(copy_to_host, cuMemcpyDtoH_v2)                      \
  X(copy_to_device_async, cuMemcpyHtoDAsync_v2)         \
  X(copy_to_host_async, cuMemcpyDtoHAsync_v2)           \
  X(copy_on_device_async, cuMemcpyDtoDAsync_v2)         \
  X(memset_async, cuMemsetD8Async)                      \
  X(stream_create, cuStreamCreateWithPriority)          \
  X(stream_destroy, cuStreamDestroy_v2)                 \
  X(stream_synchronize, cuStreamSynchronize)            \
  X(stream_query, cuStreamQuery)                        \
  X(stream_wait_event, cuStreamWaitEvent)               \
  X(stream_write_value, cuStreamWriteValue32_v2)        \
  X(stream_begin_capture, cuStreamBeginCapture_v2)      \
  X(stream_end_capture, cuStreamEndCapture)             \
  X(event_create, cuEventCreate)                        \
  X(event_destroy, cuEventDestroy_v2)                   \
  X(event_record, cuEventRecord)                        \
  X(event_query, cuEventQuery)                          \
  X(event_synchronize, cuEventSynchronize)              \
  X(event_elapsed_time, cuEventElapsedTime_v2)          \
  X(module_load_data, cuModuleLoadData)                 \
  X(module_unload, cuModuleUnload)                      \
  X(module_get_function, cuModuleGetFunction)           \
  X(function_set_attribute, cuFuncSetAttribute)         \
  X(launch_kernel, cuLaunchKernel)                      \
  X(launch_host_function, cuLaunchHostFunc)             \
  X(graph_instantiate, cuGraphInstantiateWithFlags)     \
  X(graph_destroy, cuGraphDestroy)                      \
  X(graph_get_nodes, cuGraphGetNodes)                   \
  X(graph_upload, cuGraphUpload)                        \
  X(graph_launch, cuGraphLaunch)                        \
  X(graph_executable_destroy, cuGraphExecDestroy)

struct Driver;

/// Longest wait for a device where nobody has said another; that of --timeout.
constexpr double kDeviceWaitSeconds = 30;

/// Deletes a driver's object by the function given, unless the device was
/// abandoned.
template <typename Object>
struct DriverDeleter {
  const Driver* driver = nullptr;
  CUresult (*Driver::*destroy)(Object*) = nullptr;
  void operator()(Object* object) const;
};
template <typename Object>
using DriverHandle = std::unique_ptr<Object, DriverDeleter<Object>>;

using CudaStream = DriverHandle<CUstream_st>;
using CudaEvent = DriverHandle<CUevent_st>;
using CudaModule = DriverHandle<CUmod_st>;
using CudaGraph = DriverHandle<CUgraph_st>;
using CudaGraphExecutable = DriverHandle<CUgraphExec_st>;

/// The driver's functions, found once per process.
///
/// No wait on a device is for ever. Where a deadline has passed, the device is
/// abandoned: what would give its objects back, and could block behind the work
/// that does not end, does nothing any more, and the process ends soon.
struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration.
#define REPRISE_DRIVER_MEMBER(member, symbol) decltype(&::symbol) member;
  REPRISE_DRIVER_FUNCTIONS(REPRISE_DRIVER_MEMBER)
#undef REPRISE_DRIVER_MEMBER
  int version = 0;  ///< 13000 for CUDA 13.0.

  /// Opens libcuda.so.1 and initializes it; later calls give the same table.
  /// Errors: kDevice: no driver, an incomplete one, no device.
  static Result<const Driver*> load();

  /// `result` as a Status: kDevice with what was called, and the driver's name
  /// and words for it.
  Status check(CUresult result, std::string_view call) const;
  /// Marks in `event` what `stream` holds so far. Errors: kDevice.
  Status record(const CudaEvent& event, const CudaStream& stream) const;
  /// Lets `stream` wait for what `event` marks. Errors: kDevice.
  Status wait(const CudaStream& stream, const CudaEvent& event) const;
  /// Waits until `stream` has ended what it holds, at most `timeout_s`, by
  /// asking. Errors: kDevice, also when the time has passed: then nobody has
  /// abandoned the device yet.
  Status synchronize(CUstream stream,
                     double timeout_s = kDeviceWaitSeconds) const;

  /// From now on nothing waits for a device of this process. Any thread.
  void abandon() const { *abandoned_ = true; }
  bool is_abandoned() const { return *abandoned_; }

 private:
  std::shared_ptr<std::atomic<bool>> abandoned_ =
      std::make_shared<std::atomic<bool>>(false);
};

template <typename Object>
void DriverDeleter<Object>::operator()(Object* object) const {
  if (!driver->is_abandoned()) (driver->*destroy)(object);
}

/// A device whose primary context this value holds.
class DeviceContext {
 public:
  /// Retains the primary context of device `index` and makes it current on
  /// this thread. Errors: kDevice.
  static Result<std::shared_ptr<const DeviceContext>> open(int index);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  const Driver& driver() const { return driver_; }
  int index() const { return index_; }
  const std::string& name() const { return name_; }
  /// The same for two processes exactly when they have the same device.
  const std::string& uuid() const { return uuid_; }
  /// Compute capability, 90 for sm_90.
  int architecture() const { return architecture_; }

  /// Makes the context current on the calling thread.
  Status make_current() const;
  /// Fails when the driver refuses an image for this device, as code of another
  /// CUDA or of another architecture; other failures are left to who loads it.
  Status try_image(const std::string& image) const;

 private:
  static Result<std::shared_ptr<const DeviceContext>> make(int index);
  DeviceContext(const Driver& driver, int index)
      : driver_(driver), index_(index) {}

  const Driver& driver_;
  int index_ = 0;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string name_, uuid_;
  int architecture_ = 0;
};

/// Number of devices; 0 and an error where there is no driver.
Result<int> device_count();

/// A stream that does not wait for the default stream. `urgent` asks for the
/// highest priority there is.
Result<CudaStream> make_stream(const Driver& driver, bool urgent);
/// `timed` events cost more to record.
Result<CudaEvent> make_event(const Driver& driver, bool timed);

/// Device memory, 256-byte aligned, freed with this value.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Zero bytes are allowed and give one page. Errors: kDevice.
  static Result<DeviceMemory> allocate(const Driver& driver, size_t size_bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  CUdeviceptr address() const { return address_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  const Driver* driver_ = nullptr;
  CUdeviceptr address_ = 0;
  size_t size_bytes_ = 0;
};

/// Copies host memory of any kind to the device and returns when it is there,
/// for every stream. cuMemcpyHtoD alone returns when it has been read, and
/// streams that do not wait for the default one may then be too early.
/// Source: CUDA driver API, "API synchronization behavior". Errors: kDevice.
Status write_device(const Driver& driver, CUdeviceptr to,
                    std::span<const std::byte> bytes,
                    double timeout_s = kDeviceWaitSeconds);

/// Page-locked host memory, which the device copies from and to by itself.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// Errors: kDevice.
  static Result<PinnedMemory> allocate(const Driver& driver, size_t size_bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }

 private:
  const Driver* driver_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace reprise

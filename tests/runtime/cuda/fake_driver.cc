#include <immintrin.h>
// The functions of cuda.h that Reprise calls, over fake_device.h.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/runtime/cuda/fake_device.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/cuda/fake_entry.h"

using fake::current_context;
using fake::Device;
using fake::enter;
using fake::enter_current;
using fake::enter_uncaptured;
using fake::Lock;

namespace {

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

thread_local const char* next_kernel = nullptr;
thread_local int64_t next_lasts_ns = 0;

/// A kernel that a library launches, by the runtime.
CUresult enqueue_kernel(CUstream stream, fake::Work work, fake::Ready ready) {
  const char* name = std::exchange(next_kernel, nullptr);
  const Lock lock(Device::get().mutex);
  const fake::TracedCall runtime("cudaLaunchKernelExC", /*is_runtime=*/true);
  const fake::TracedCall call("cuLaunchKernelEx");
  const CUresult entered = enter_current("fake_cuda_enqueue");
  if (entered != CUDA_SUCCESS) return entered;
  fake::Stream* queue = Device::get().stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  fake::Activity kernel = call.activity(reprise::fake::kKernel);
  kernel.name = name == nullptr ? "kernel_of_a_library" : name;
  if (const int64_t longer_ns = std::exchange(next_lasts_ns, 0)) {
    work = [longer_ns, inner = std::move(work)] {
      Device::get().pass_time(longer_ns);
      inner();
    };
  }
  Device::get().enqueue(*queue, kernel, std::move(work), std::move(ready));
  return CUDA_SUCCESS;
}

// Of a driver's call that waits.
CUresult run_until(const std::function<bool()>& done) {
  Device& device = Device::get();
  return device.run_until(done) ? device.sticky : CUDA_ERROR_LAUNCH_TIMEOUT;
}

/// The queue of a stream that may be waited for: of one that is captured may
/// not.
CUresult find_to_wait(const char* name, CUstream stream,
                      const fake::Stream** queue) {
  *queue = Device::get().stream(stream);
  if (*queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!(*queue)->capture) return CUDA_SUCCESS;
  enter_uncaptured(name);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/// What the documentation calls an invalid value, which a test must not pass.
CUresult misused(const char* what) {
  Device::get().report(what);
  return CUDA_ERROR_INVALID_VALUE;
}

/// An event that may be waited for.
CUresult find_to_wait(CUevent event, std::shared_ptr<fake::EventState>* state) {
  *state = Device::get().event(event);
  if (!*state) return CUDA_ERROR_INVALID_HANDLE;
  return (*state)->graph ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

// Once in a process; its failure is nobody's.
void load_tool() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  void* tool = path == nullptr ? nullptr : ::dlopen(path, RTLD_NOW);
  if (tool == nullptr) return;
  using Initialize = int();
  auto* initialize =
      reinterpret_cast<Initialize*>(::dlsym(tool, "InitializeInjection"));
  if (initialize != nullptr) initialize();
}

}  // namespace

extern "C" {

void fake_cuda_seed(uint64_t seed) {
  const Lock lock(Device::get().mutex);
  Device::get().random.seed(seed);
}

void fake_cuda_trace(const reprise::fake::Tracer* tracer) {
  const Lock lock(Device::get().mutex);
  Device::get().tracer = tracer;
}

void fake_cuda_name_kernel(const char* name) { next_kernel = name; }

void fake_cuda_next_lasts(int64_t nanoseconds) { next_lasts_ns = nanoseconds; }

CUresult fake_cuda_enqueue(CUstream stream, void (*run)(void*), void* data,
                           void (*destroy)(void*)) {
  const std::shared_ptr<void> kept(data, destroy);
  return enqueue_kernel(stream, [run, kept] { run(kept.get()); }, {});
}

CUresult fake_cuda_enqueue_when(CUstream stream, int (*ready)(void*),
                                void (*run)(void*), void* data,
                                void (*destroy)(void*)) {
  const std::shared_ptr<void> kept(data, destroy);
  return enqueue_kernel(
      stream, [run, kept] { run(kept.get()); },
      [ready, kept] { return ready(kept.get()) != 0; });
}

int fake_cuda_is_device_memory(uint64_t address, uint64_t bytes) {
  const Lock lock(Device::get().mutex);
  return Device::get().covers(address, bytes, true, "an operand") ? 1 : 0;
}

int fake_cuda_live_objects() {
  const Lock lock(Device::get().mutex);
  return Device::get().live_objects();
}

const char* fake_cuda_report() {
  const Lock lock(Device::get().mutex);
  static std::string text;
  text = Device::get().misuse;
  return text.c_str();
}

void fake_cuda_clear() {
  const Lock lock(Device::get().mutex);
  Device::get().misuse.clear();
  Device::get().failures.clear();
  Device::get().sticky = CUDA_SUCCESS;
}

void fake_cuda_hang(uint64_t after) {
  const Lock lock(Device::get().mutex);
  Device::get().launches_to_hang = static_cast<int64_t>(after);
}

uint64_t fake_cuda_calls(const char* function) {
  const Lock lock(Device::get().mutex);
  return Device::get().calls[function];
}

void fake_cuda_fail(const char* function, uint64_t after, CUresult result) {
  const Lock lock(Device::get().mutex);
  Device::get().failures[function] = {after, result};
}

// Process and devices.

CUresult CUDAAPI cuInit(unsigned) {
  static std::once_flag once;
  std::call_once(once, load_tool);
  ENTER(enter, "cuInit");
  device.random.seed(static_cast<uint64_t>(number_of("FAKE_CUDA_SEED", 0)));
  device.launches_to_hang = number_of("FAKE_CUDA_HANG", -1);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** text) {
  static thread_local std::string name;
  name = "FAKE_ERROR_" + std::to_string(static_cast<int>(error));
  *text = name.c_str();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult, const char** text) {
  *text = "an error of the fake driver";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  ENTER(enter, "cuDeviceGetCount");
  *count = number_of("FAKE_CUDA_DEVICES", 1);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice* found, int index) {
  ENTER(enter, "cuDeviceGet");
  if (index < 0 || index >= number_of("FAKE_CUDA_DEVICES", 1))
    return CUDA_ERROR_INVALID_DEVICE;
  *found = index;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice which) {
  std::snprintf(name, static_cast<size_t>(length), "Fake device %d", which);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice which) {
  std::memset(uuid, 'a' + which, sizeof *uuid);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                      CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                       : 4;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice which) {
  ENTER(enter, "cuDevicePrimaryCtxRetain");
  const auto number = static_cast<uint32_t>(which);
  if (++device.retained_contexts == 1 && device.tracer != nullptr)
    device.tracer->context(number + 1, number);
  *context = reinterpret_cast<CUcontext>(static_cast<uint64_t>(which) + 1);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice) {
  ENTER(enter, "cuDevicePrimaryCtxRelease");
  if (--device.retained_contexts < 0) device.report("context released twice");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  ENTER(enter, "cuCtxSetCurrent");
  if (context != nullptr && device.retained_contexts <= 0) {
    device.report("cuCtxSetCurrent of a context that nobody holds");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  current_context = reinterpret_cast<uint64_t>(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize() {
  ENTER(enter_uncaptured, "cuCtxSynchronize");
  const CUresult done = run_until([&] { return device.is_idle(); });
  call.waited(reprise::fake::kContextWait, nullptr, nullptr);
  return done;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

// Memory.

CUresult CUDAAPI cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = size_t{8} << 30;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  ENTER(enter_uncaptured, "cuMemAlloc");
  if (bytes == 0) return misused("cuMemAlloc of nothing");
  *address = device.allocate(bytes, true);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

// As the real one, waits for everything that may still use the memory.
CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  ENTER(enter_current, "cuMemFree");
  device.run_until([&] { return device.is_idle(); });
  return device.release(address, true) ? CUDA_SUCCESS
                                       : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
  ENTER(enter_uncaptured, "cuMemHostAlloc");
  constexpr unsigned kKnown = CU_MEMHOSTALLOC_PORTABLE |
                              CU_MEMHOSTALLOC_DEVICEMAP |
                              CU_MEMHOSTALLOC_WRITECOMBINED;
  if (bytes == 0 || (flags & ~kKnown) != 0)
    return misused("cuMemHostAlloc of nothing, or with unknown flags");
  *address = reinterpret_cast<void*>(device.allocate(bytes, false));
  return *address == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFreeHost(void* address) {
  ENTER(enter_current, "cuMemFreeHost");
  device.run_until([&] { return device.is_idle(); });
  return device.release(reinterpret_cast<uint64_t>(address), false)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// Returns when pageable memory has been read, which may be before it has
// arrived; the default stream knows. Source: CUDA driver API, "API
// synchronization behavior".
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  ENTER(enter_uncaptured, "cuMemcpyHtoD");
  if (!device.covers(to, bytes, true, "cuMemcpyHtoD")) return device.sticky;
  const auto* first = static_cast<const char*>(from);
  const std::string read(first, first + bytes);
  device.enqueue(*device.stream(nullptr),
                 call.copy(reprise::fake::kHostToDevice, bytes), [=] {
                   if (Device::get().covers(to, bytes, true, "cuMemcpyHtoD"))
                     std::memcpy(reinterpret_cast<void*>(to), read.data(),
                                 bytes);
                 });
  return CUDA_SUCCESS;
}

// Waits for the default stream, and for no other.
CUresult CUDAAPI cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  ENTER(enter_uncaptured, "cuMemcpyDtoH");
  const fake::Stream* queue = device.stream(nullptr);
  if (!device.run_until([&] { return queue->queue.empty(); }))
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  if (!device.covers(from, bytes, true, "cuMemcpyDtoH")) return device.sticky;
  fake::Activity activity = call.copy(reprise::fake::kDeviceToHost, bytes);
  activity.stream = queue->number;
  device.perform(
      [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); },
      activity);
  return CUDA_SUCCESS;
}

// Copies are checked when asked for, and again when they run.
static CUresult copy(const char* name, uint64_t to, bool to_device,
                     uint64_t from, bool from_device, size_t bytes,
                     CUstream stream) {
  ENTER(enter_current, name);
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto valid = [=] {
    return Device::get().covers(to, bytes, to_device, name) &&
           Device::get().covers(from, bytes, from_device, name);
  };
  if (!valid()) return device.sticky;
  const uint32_t direction = !to_device    ? reprise::fake::kDeviceToHost
                             : from_device ? reprise::fake::kDeviceToDevice
                                           : reprise::fake::kHostToDevice;
  device.enqueue(*queue, call.copy(direction, bytes), [=] {
    if (valid()) {
      std::memmove(reinterpret_cast<void*>(to),
                   reinterpret_cast<const void*>(from), bytes);
    }
  });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from,
                                   size_t bytes, CUstream stream) {
  return copy("cuMemcpyHtoDAsync", to, true, reinterpret_cast<uint64_t>(from),
              false, bytes, stream);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) {
  return copy("cuMemcpyDtoHAsync", reinterpret_cast<uint64_t>(to), false, from,
              true, bytes, stream);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from,
                                   size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoDAsync", to, true, from, true, bytes, stream);
}

// A thread of the driver's own calls it, whose modes are the system's.
CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function,
                                  void* data) {
  ENTER(enter_current, "cuLaunchHostFunc");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return misused("cuLaunchHostFunc without function");
  device.enqueue(*queue, {}, [=] {
    constexpr unsigned kUsualModes = 0x1F80;
    const unsigned before = _mm_getcsr();
    _mm_setcsr(kUsualModes);
    function(data);
    _mm_setcsr(before);
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                 size_t bytes, CUstream stream) {
  ENTER(enter_current, "cuMemsetD8Async");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!device.covers(to, bytes, true, "cuMemsetD8Async")) return device.sticky;
  fake::Activity activity = call.activity(reprise::fake::kMemset);
  activity.bytes = bytes;
  device.enqueue(*queue, activity, [=] {
    if (Device::get().covers(to, bytes, true, "cuMemsetD8Async"))
      std::memset(reinterpret_cast<void*>(to), value, bytes);
  });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr to,
                                      cuuint32_t value, unsigned flags) {
  ENTER(enter_current, "cuStreamWriteValue32");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT || to % sizeof value != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!device.covers(to, sizeof value, false, "cuStreamWriteValue32"))
    return device.sticky;
  device.enqueue(*queue, {}, [=] {
    if (Device::get().covers(to, sizeof value, false, "cuStreamWriteValue32"))
      *reinterpret_cast<volatile cuuint32_t*>(to) = value;
  });
  return CUDA_SUCCESS;
}

// Streams and events.

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned flags,
                                            int priority) {
  ENTER(enter_uncaptured, "cuStreamCreateWithPriority");
  if (flags > CU_STREAM_NON_BLOCKING || priority > 0 || priority < -5)
    return misused("cuStreamCreateWithPriority: flags or priority");
  void* handle = device.add("stream");
  device.make_stream(handle);
  *stream = static_cast<CUstream>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  ENTER(enter_current, "cuStreamDestroy");
  return device.remove(stream, "stream") ? CUDA_SUCCESS
                                         : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  ENTER(enter_current, "cuStreamSynchronize");
  const fake::Stream* queue = nullptr;
  const CUresult found = find_to_wait("cuStreamSynchronize", stream, &queue);
  if (found != CUDA_SUCCESS) return found;
  const CUresult done = run_until([&] { return queue->queue.empty(); });
  call.waited(reprise::fake::kStreamWait, queue, nullptr);
  return done;
}

// Tools hear of what has ended, unless they ask for more (CUPTI's
// cuptiActivityEnableAllSyncRecords).
CUresult CUDAAPI cuStreamQuery(CUstream stream) {
  ENTER(enter_current, "cuStreamQuery");
  const fake::Stream* queue = nullptr;
  const CUresult found = find_to_wait("cuStreamQuery", stream, &queue);
  if (found != CUDA_SUCCESS) return found;
  device.run_some(device.random() % 8);
  if (device.sticky != CUDA_SUCCESS) return device.sticky;
  if (!queue->queue.empty()) return CUDA_ERROR_NOT_READY;
  call.waited(reprise::fake::kStreamWait, queue, nullptr);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event,
                                   unsigned flags) {
  ENTER(enter_current, "cuStreamWaitEvent");
  if (flags != CU_EVENT_WAIT_DEFAULT)
    return misused("cuStreamWaitEvent: flags");
  fake::Stream* queue = device.stream(stream);
  const auto state = device.event(event);
  if (queue == nullptr || !state) return CUDA_ERROR_INVALID_HANDLE;
  const bool runs = !queue->capture && !state->graph;
  if (runs) call.waited(reprise::fake::kStreamWaitsEvent, queue, state.get());
  return device.wait(*queue, state);
}

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned flags) {
  ENTER(enter_uncaptured, "cuEventCreate");
  if (flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
    return misused("cuEventCreate: flags");
  void* handle = device.add("event");
  device.make_event(handle);
  device.event(static_cast<CUevent>(handle))->timed =
      (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *event = static_cast<CUevent>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  ENTER(enter_current, "cuEventDestroy");
  return device.remove(event, "event") ? CUDA_SUCCESS
                                       : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  ENTER(enter_current, "cuEventRecord");
  fake::Stream* queue = device.stream(stream);
  const auto state = device.event(event);
  if (queue == nullptr || !state) return CUDA_ERROR_INVALID_HANDLE;
  device.record(*queue, state);
  if (!queue->capture) call.recorded(*state, *queue);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
  ENTER(enter_current, "cuEventQuery");
  std::shared_ptr<fake::EventState> state;
  const CUresult found = find_to_wait(event, &state);
  if (found != CUDA_SUCCESS) return found;
  device.run_some(device.random() % 8);
  if (device.sticky != CUDA_SUCCESS) return device.sticky;
  if (state->completed < state->recorded) return CUDA_ERROR_NOT_READY;
  call.waited(reprise::fake::kEventWait, nullptr, state.get());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  ENTER(enter_current, "cuEventSynchronize");
  std::shared_ptr<fake::EventState> state;
  const CUresult found = find_to_wait(event, &state);
  if (found != CUDA_SUCCESS) return found;
  const CUresult done =
      run_until([&] { return state->completed >= state->recorded; });
  call.waited(reprise::fake::kEventWait, nullptr, state.get());
  return done;
}

CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start,
                                    CUevent end) {
  ENTER(enter_current, "cuEventElapsedTime");
  const auto first = device.event(start), last = device.event(end);
  if (!first || !last) return CUDA_ERROR_INVALID_HANDLE;
  if (!first->timed || !last->timed) {
    device.report("cuEventElapsedTime of an event without timing");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (first->completed == 0 || last->completed == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (last->completed < last->recorded) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(last->time_ns - first->time_ns) * 1e-6F;
  return CUDA_SUCCESS;
}

}  // extern "C"

namespace {

/// Judges the process when it ends.
struct AtExit {
  ~AtExit() {
    // As the real driver may, its end waits for the device.
    if (number_of("FAKE_CUDA_HANG", -1) >= 0) {
      const Lock lock(Device::get().mutex);
      Device::get().run_until([] { return Device::get().is_idle(); });
    }
    if (number_of("FAKE_CUDA_STRICT", 0) == 0) return;
    const int live = fake_cuda_live_objects();
    const char* misuse = fake_cuda_report();
    if (live == 0 && misuse[0] == '\0') return;
    std::fprintf(stderr, "fake driver: %d objects leaked\n%s", live, misuse);
    std::fflush(stderr);
    ::_exit(99);
  }
} at_exit;

}  // namespace

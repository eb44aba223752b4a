// The functions of cuda.h that Reprise calls, over fake_device.h.
#include "tests/runtime/cuda/fake_driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/runtime/cuda/fake_device.h"

using fake::Device;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

/// A context is its device's number + 1.
thread_local uint64_t current_context = 0;

/// What a CUfunction is: a function of the host, called as it was printed.
struct Function {
  void* module = nullptr;
  /// Of the host printer; `arguments` addresses.
  void (*host)(void* const*, int64_t, int64_t) = nullptr;
  int64_t extent = 0;
  size_t arguments = 0;
  /// Of a printed launch as host code: addresses and blocks of the grid.
  void (*twin)(void* const*, unsigned) = nullptr;
  const int* twin_parameters = nullptr;
};

std::map<std::pair<void*, std::string>, std::unique_ptr<Function>>&
functions() {
  static auto* all =
      new std::map<std::pair<void*, std::string>, std::unique_ptr<Function>>();
  return *all;
}

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Counts the call and says how it must fail, if it must.
CUresult enter(const char* name) {
  Device& device = Device::get();
  ++device.calls[name];
  const auto planned = device.failures.find(name);
  if (planned != device.failures.end() && planned->second.first-- == 0) {
    const CUresult result = planned->second.second;
    device.failures.erase(planned);
    return result;
  }
  return device.sticky;
}

// For all that needs a context.
CUresult enter_current(const char* name) {
  const CUresult result = enter(name);
  if (result != CUDA_SUCCESS || current_context != 0) return result;
  Device::get().report(std::string(name) + " without a current context");
  return CUDA_ERROR_INVALID_CONTEXT;
}

// What capture forbids.
CUresult enter_uncaptured(const char* name) {
  const CUresult result = enter_current(name);
  if (result != CUDA_SUCCESS || !Device::get().is_capturing()) return result;
  Device::get().invalidate_captures();
  Device::get().report(std::string(name) + " under capture");
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace

#define ENTER(how, name)                                           \
  const Lock lock(Device::get().mutex);                            \
  Device& device = Device::get();                                  \
  if (const CUresult entered = how(name); entered != CUDA_SUCCESS) \
    return entered;                                                \
  static_cast<void>(device)

extern "C" {

void fake_cuda_seed(uint64_t seed) {
  const Lock lock(Device::get().mutex);
  Device::get().random.seed(seed);
}

CUresult fake_cuda_enqueue(CUstream stream, void (*run)(void*), void* data,
                           void (*destroy)(void*)) {
  const std::shared_ptr<void> kept(data, destroy);
  ENTER(enter_current, "fake_cuda_enqueue");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  device.enqueue(*queue, [run, kept] { run(kept.get()); });
  return CUDA_SUCCESS;
}

CUresult fake_cuda_enqueue_when(CUstream stream, int (*ready)(void*),
                                void (*run)(void*), void* data,
                                void (*destroy)(void*)) {
  const std::shared_ptr<void> kept(data, destroy);
  ENTER(enter_current, "fake_cuda_enqueue");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  device.enqueue(
      *queue, [run, kept] { run(kept.get()); },
      [ready, kept] { return ready(kept.get()) != 0; });
  return CUDA_SUCCESS;
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
  ENTER(enter, "cuInit");
  device.random.seed(static_cast<uint64_t>(number_of("FAKE_CUDA_SEED", 0)));
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
  ++device.retained_contexts;
  *context = reinterpret_cast<CUcontext>(static_cast<uint64_t>(which) + 1);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice) {
  ENTER(enter, "cuDevicePrimaryCtxRelease");
  if (--device.retained_contexts < 0) device.report("context released twice");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  current_context = reinterpret_cast<uint64_t>(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize() {
  ENTER(enter_uncaptured, "cuCtxSynchronize");
  return device.run_until([&] { return device.is_idle(); })
             ? device.sticky
             : CUDA_ERROR_LAUNCH_TIMEOUT;
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

CUresult CUDAAPI cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  ENTER(enter_uncaptured, "cuMemHostAlloc");
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
  device.enqueue(*device.stream(nullptr), [=] {
    if (Device::get().covers(to, bytes, true, "cuMemcpyHtoD"))
      std::memcpy(reinterpret_cast<void*>(to), read.data(), bytes);
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
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
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
  device.enqueue(*queue, [=] {
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

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                 size_t bytes, CUstream stream) {
  ENTER(enter_current, "cuMemsetD8Async");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!device.covers(to, bytes, true, "cuMemsetD8Async")) return device.sticky;
  device.enqueue(*queue, [=] {
    if (Device::get().covers(to, bytes, true, "cuMemsetD8Async"))
      std::memset(reinterpret_cast<void*>(to), value, bytes);
  });
  return CUDA_SUCCESS;
}

// Streams and events.

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  ENTER(enter_uncaptured, "cuStreamCreateWithPriority");
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
  const fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (queue->capture) return enter_uncaptured("cuStreamSynchronize");
  return device.run_until([&] { return queue->queue.empty(); })
             ? device.sticky
             : CUDA_ERROR_LAUNCH_TIMEOUT;
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
  ENTER(enter_current, "cuStreamQuery");
  const fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (queue->capture) return enter_uncaptured("cuStreamQuery");
  device.run_some(device.random() % 8);
  if (device.sticky != CUDA_SUCCESS) return device.sticky;
  return queue->queue.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER(enter_current, "cuStreamWaitEvent");
  fake::Stream* queue = device.stream(stream);
  const auto state = device.event(event);
  if (queue == nullptr || !state) return CUDA_ERROR_INVALID_HANDLE;
  return device.wait(*queue, state);
}

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned) {
  ENTER(enter_uncaptured, "cuEventCreate");
  void* handle = device.add("event");
  device.make_event(handle);
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
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
  ENTER(enter_current, "cuEventQuery");
  const auto state = device.event(event);
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  if (state->graph) return CUDA_ERROR_CAPTURED_EVENT;
  device.run_some(device.random() % 8);
  if (device.sticky != CUDA_SUCCESS) return device.sticky;
  return state->completed >= state->recorded ? CUDA_SUCCESS
                                             : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  ENTER(enter_current, "cuEventSynchronize");
  const auto state = device.event(event);
  if (!state) return CUDA_ERROR_INVALID_HANDLE;
  if (state->graph) return CUDA_ERROR_CAPTURED_EVENT;
  return device.run_until([&] { return state->completed >= state->recorded; })
             ? device.sticky
             : CUDA_ERROR_LAUNCH_TIMEOUT;
}

CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start,
                                    CUevent end) {
  ENTER(enter_current, "cuEventElapsedTime");
  const auto first = device.event(start), last = device.event(end);
  if (!first || !last) return CUDA_ERROR_INVALID_HANDLE;
  if (first->completed == 0 || last->completed == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (last->completed < last->recorded) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(last->time_ns - first->time_ns) * 1e-6F;
  return CUDA_SUCCESS;
}

// Modules and kernels.

// An image is text that begins with "host functions": then an entry is
// ADDRESS:EXTENT:ARGUMENTS of a function in this process; or an ELF library,
// as the fake NVRTC makes it: NAME beside the int parameters_of_NAME.
CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  ENTER(enter_uncaptured, "cuModuleLoadData");
  void* library = nullptr;
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    Elf64_Ehdr header;
    std::memcpy(&header, image, sizeof header);
    const size_t bytes =
        header.e_shoff + size_t{header.e_shentsize} * header.e_shnum;
    const int file = ::memfd_create("cubin", MFD_CLOEXEC);
    if (::write(file, image, bytes) != static_cast<ssize_t>(bytes))
      return CUDA_ERROR_INVALID_IMAGE;
    library = ::dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(),
                       RTLD_NOW | RTLD_LOCAL);
    // The file stays open: the loader knows libraries by their path.
    if (library == nullptr) {
      device.report(::dlerror());
      return CUDA_ERROR_INVALID_IMAGE;
    }
  } else if (std::strncmp(static_cast<const char*>(image), "host functions",
                          14) != 0) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  void* handle = device.add("module");
  device.modules[handle] = library;
  *module = static_cast<CUmodule>(handle);
  return CUDA_SUCCESS;
}

// Its library stays: what is enqueued of it must fail by a report, not a crash.
CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  ENTER(enter_current, "cuModuleUnload");
  return device.remove(module, "module") ? CUDA_SUCCESS
                                         : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule module,
                                     const char* name) {
  ENTER(enter_uncaptured, "cuModuleGetFunction");
  if (!device.is_live(module, "module")) return CUDA_ERROR_INVALID_HANDLE;
  auto made = std::make_unique<Function>();
  made->module = module;
  if (void* library = device.modules[module]) {
    void* symbol = ::dlsym(library, name);
    const void* count =
        ::dlsym(library, (std::string("parameters_of_") + name).c_str());
    if (symbol == nullptr || count == nullptr) return CUDA_ERROR_NOT_FOUND;
    made->twin = reinterpret_cast<decltype(made->twin)>(symbol);
    made->twin_parameters = static_cast<const int*>(count);
  } else {
    unsigned long long address = 0;
    long long extent = 0;
    if (std::sscanf(name, "%llx:%lld:%zu", &address, &extent,
                    &made->arguments) != 3) {
      return CUDA_ERROR_NOT_FOUND;
    }
    made->host = reinterpret_cast<decltype(made->host)>(address);
    made->extent = extent;
  }
  auto& known = functions()[{module, name}];
  if (!known) known = std::move(made);
  *function = reinterpret_cast<CUfunction>(known.get());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned grid_x,
                                unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y,
                                unsigned block_z, unsigned shared,
                                CUstream stream, void** parameters, void**) {
  ENTER(enter_current, "cuLaunchKernel");
  fake::Stream* queue = device.stream(stream);
  const auto* kernel = reinterpret_cast<const Function*>(function);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 ||
      block_x > 1024 || block_y != 1 || block_z != 1 || shared != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // The driver copies a kernel's parameters when it is launched.
  const size_t count = kernel->twin == nullptr
                           ? kernel->arguments
                           : static_cast<size_t>(*kernel->twin_parameters);
  std::vector<void*> arguments(count);
  for (size_t i = 0; i < count; ++i)
    std::memcpy(&arguments[i], parameters[i], sizeof arguments[i]);
  device.enqueue(*queue, [=] {
    if (!Device::get().is_live(kernel->module, "module")) return;
    if (kernel->twin != nullptr)
      kernel->twin(arguments.data(), grid_x);
    else
      kernel->host(arguments.data(), 0, kernel->extent);
  });
  return CUDA_SUCCESS;
}

// Graphs.

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  ENTER(enter_current, "cuStreamBeginCapture");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (queue->capture) return CUDA_ERROR_ILLEGAL_STATE;
  queue->capture = std::make_shared<fake::Graph>();
  queue->capture->capturing = true;
  queue->is_origin = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  ENTER(enter_current, "cuStreamEndCapture");
  *graph = nullptr;
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<fake::Graph> captured;
  const CUresult ended = device.end_capture(*queue, &captured);
  if (ended != CUDA_SUCCESS) return ended;
  void* handle = device.add("graph");
  device.graphs[handle] = std::move(captured);
  *graph = static_cast<CUgraph>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode*, size_t* count) {
  ENTER(enter_current, "cuGraphGetNodes");
  if (!device.is_live(graph, "graph")) return CUDA_ERROR_INVALID_HANDLE;
  *count = device.graphs[graph]->nodes.size();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* executable,
                                             CUgraph graph,
                                             unsigned long long) {
  ENTER(enter_uncaptured, "cuGraphInstantiate");
  if (!device.is_live(graph, "graph")) return CUDA_ERROR_INVALID_HANDLE;
  void* handle = device.add("graph executable");
  device.executables[handle] =
      std::make_shared<const fake::Graph>(*device.graphs[graph]);
  *executable = static_cast<CUgraphExec>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec executable, CUstream) {
  ENTER(enter_current, "cuGraphUpload");
  return device.is_live(executable, "graph executable")
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER(enter_current, "cuGraphLaunch");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr || !device.is_live(executable, "graph executable"))
    return CUDA_ERROR_INVALID_HANDLE;
  device.launch(*queue, device.executables[executable]);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  ENTER(enter_current, "cuGraphDestroy");
  if (!device.remove(graph, "graph")) return CUDA_ERROR_INVALID_HANDLE;
  device.graphs.erase(graph);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable) {
  ENTER(enter_current, "cuGraphExecDestroy");
  if (!device.remove(executable, "graph executable"))
    return CUDA_ERROR_INVALID_HANDLE;
  device.executables.erase(executable);
  return CUDA_SUCCESS;
}

}  // extern "C"

namespace {

/// Judges the process when it ends.
struct AtExit {
  ~AtExit() {
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

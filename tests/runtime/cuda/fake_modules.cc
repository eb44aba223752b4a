// Modules, kernels and graphs of the fake driver.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "tests/runtime/cuda/fake_device.h"
#include "tests/runtime/cuda/fake_entry.h"

using fake::Device;
using fake::enter_current;
using fake::enter_uncaptured;

namespace {

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
  std::string name;
};

std::map<std::pair<void*, std::string>, std::unique_ptr<Function>>&
functions() {
  static auto* all =
      new std::map<std::pair<void*, std::string>, std::unique_ptr<Function>>();
  return *all;
}

}  // namespace

extern "C" {

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
  made->name = name;
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
    device.report(
        "cuLaunchKernel: a grid, block or shared memory beyond limits");
    return CUDA_ERROR_INVALID_VALUE;
  }
  // The driver copies a kernel's parameters when it is launched.
  const size_t count = kernel->twin == nullptr
                           ? kernel->arguments
                           : static_cast<size_t>(*kernel->twin_parameters);
  std::vector<void*> arguments(count);
  for (size_t i = 0; i < count; ++i)
    std::memcpy(&arguments[i], parameters[i], sizeof arguments[i]);
  fake::Activity activity = call.activity(reprise::fake::kKernel);
  activity.name = kernel->name.c_str();
  activity.grid = static_cast<int32_t>(grid_x);
  activity.block = static_cast<int32_t>(block_x);
  fake::Ready ready;
  if (device.launches_to_hang >= 0 && device.launches_to_hang-- == 0)
    ready = [] { return false; };
  const auto work = [=] {
    if (!Device::get().is_live(kernel->module, "module")) return;
    if (kernel->twin != nullptr)
      kernel->twin(arguments.data(), grid_x);
    else
      kernel->host(arguments.data(), 0, kernel->extent);
  };
  device.enqueue(*queue, activity, work, std::move(ready));
  return CUDA_SUCCESS;
}

// Graphs.

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream,
                                      CUstreamCaptureMode mode) {
  ENTER(enter_current, "cuStreamBeginCapture");
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    device.report("cuStreamBeginCapture: mode");
    return CUDA_ERROR_INVALID_VALUE;
  }
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (queue->capture) return CUDA_ERROR_ILLEGAL_STATE;
  queue->capture = std::make_shared<fake::Graph>();
  queue->capture->capturing = true;
  queue->capture->thread = std::this_thread::get_id();
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
  device.executables[handle] = device.instantiate(*device.graphs[graph]);
  *executable = static_cast<CUgraphExec>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec executable, CUstream stream) {
  ENTER(enter_uncaptured, "cuGraphUpload");
  if (device.stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return device.is_live(executable, "graph executable")
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER(enter_current, "cuGraphLaunch");
  fake::Stream* queue = device.stream(stream);
  if (queue == nullptr || !device.is_live(executable, "graph executable"))
    return CUDA_ERROR_INVALID_HANDLE;
  device.launch(*queue, device.executables[executable], call.correlation());
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

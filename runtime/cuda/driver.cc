#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/cuda/injected_recorder.h"

namespace reprise {
namespace {

constexpr size_t kSmallestAllocation = 256;
/// How long a wait only yields, and how often it asks after that.
constexpr std::chrono::milliseconds kPromptWait(2);
constexpr std::chrono::microseconds kPollPeriod(50);

// A symbol as cuda.h spells it, or without its version suffix where the driver
// is older than the suffix; their types are the same for all that we call.
void* find_symbol(void* library, std::string name) {
  void* symbol = ::dlsym(library, name.c_str());
  const size_t suffix = name.rfind("_v2");
  if (symbol != nullptr || suffix == std::string::npos) return symbol;
  name.resize(suffix);
  // Only this one: other unversioned names have other types.
  return name == "cuEventElapsedTime" ? ::dlsym(library, name.c_str())
                                      : nullptr;
}

// Keeps the name of the first function that is missing.
template <typename Function>
void find_function(void* library, const char* name, Function& function,
                   std::string& missing) {
  function = reinterpret_cast<Function>(find_symbol(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

Status find_functions(void* library, Driver& driver) {
  std::string missing;
#define REPRISE_DRIVER_FIND(member, symbol) \
  find_function(library, #symbol, driver.member, missing);
  REPRISE_DRIVER_FUNCTIONS(REPRISE_DRIVER_FIND)
#undef REPRISE_DRIVER_FIND
  if (missing.empty()) return {};
  return fail(ErrorKind::kDevice,
              "the NVIDIA driver lacks {}: it is older than CUDA 12", missing);
}

Result<Driver> load_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(ErrorKind::kDevice,
                "no NVIDIA driver (libcuda.so.1 cannot be opened); use "
                "--device cpu, or see `reprise doctor`");
  }
  Driver driver;
  Status status = find_functions(library, driver);
  if (status) status = driver.check(driver.init(0), "cuInit");
  if (status) {
    status = driver.check(driver.driver_get_version(&driver.version),
                          "cuDriverGetVersion");
  }
  if (!status) return pass(status.error());
  return driver;
}

}  // namespace

Result<const Driver*> Driver::load() {
  static const Result<Driver> driver = load_driver();
  if (!driver) return pass(driver.error());
  return &*driver;
}

Status Driver::check(CUresult result, std::string_view call) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  const char* words = nullptr;
  get_error_name(result, &name);
  get_error_string(result, &words);
  if (name == nullptr || words == nullptr) {
    return fail(ErrorKind::kDevice, "{}: error {} of the NVIDIA driver", call,
                static_cast<int>(result));
  }
  return fail(ErrorKind::kDevice, "{}: {} ({}), {}", call, name,
              static_cast<int>(result), words);
}

Status Driver::record(const CudaEvent& event, const CudaStream& stream) const {
  return check(event_record(event.get(), stream.get()), "cuEventRecord");
}

Status Driver::wait(const CudaStream& stream, const CudaEvent& event) const {
  return check(
      stream_wait_event(stream.get(), event.get(), CU_EVENT_WAIT_DEFAULT),
      "cuStreamWaitEvent");
}

// The thread sleeps a little once a wait is long, so that it is prompt for what
// takes microseconds and costs nothing where the device has a lot to do.
Status Driver::synchronize(CUstream stream, double timeout_s) const {
  using std::chrono::steady_clock;
  const auto begin = steady_clock::now();
  for (;;) {
    const CUresult state = stream_query(stream);
    if (state != CUDA_ERROR_NOT_READY) return check(state, "cuStreamQuery");
    const auto passed = steady_clock::now() - begin;
    if (passed > std::chrono::duration<double>(timeout_s)) {
      return fail(ErrorKind::kDevice,
                  "the device has not ended its work after {} s", timeout_s);
    }
    if (passed < kPromptWait)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kPollPeriod);
  }
}

Result<int> device_count() {
  const Result<const Driver*> driver = Driver::load();
  if (!driver) return pass(driver.error());
  int count = 0;
  const Status counted =
      (*driver)->check((*driver)->device_get_count(&count), "cuDeviceGetCount");
  if (!counted) return pass(counted.error());
  if (count == 0)
    return fail(ErrorKind::kDevice, "the NVIDIA driver sees no device");
  return count;
}

Result<std::shared_ptr<const DeviceContext>> DeviceContext::open(int index) {
  // What is recorded from before a context on cannot be switched off in its
  // graphs.
  const InjectedRecorder injected = InjectedRecorder::find();
  injected.hold();
  auto made = make(index);
  injected.let_go();
  return made;
}

Result<std::shared_ptr<const DeviceContext>> DeviceContext::make(int index) {
  const Result<const Driver*> loaded = Driver::load();
  if (!loaded) return pass(loaded.error());
  const Driver& driver = **loaded;
  std::shared_ptr<DeviceContext> made(new DeviceContext(driver, index));
  Status status =
      driver.check(driver.device_get(&made->device_, index), "cuDeviceGet");
  std::array<char, 256> name{};
  if (status) {
    status = driver.check(
        driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1,
                               made->device_),
        "cuDeviceGetName");
  }
  made->name_ = name.data();
  CUuuid uuid{};
  if (status) {
    status = driver.check(driver.device_get_uuid(&uuid, made->device_),
                          "cuDeviceGetUuid");
  }
  made->uuid_.assign(std::begin(uuid.bytes), std::end(uuid.bytes));
  const auto attribute = [&](CUdevice_attribute which, int* value) {
    if (!status) return;
    status =
        driver.check(driver.device_get_attribute(value, which, made->device_),
                     "cuDeviceGetAttribute");
  };
  int major = 0, minor = 0;
  attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major);
  attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor);
  made->architecture_ = 10 * major + minor;
  if (status) {
    status = driver.check(driver.context_retain(&made->context_, made->device_),
                          "cuDevicePrimaryCtxRetain");
  }
  if (status) status = made->make_current();
  if (!status) return pass(status.error());
  return std::shared_ptr<const DeviceContext>(std::move(made));
}

DeviceContext::~DeviceContext() {
  if (context_ != nullptr && !driver_.is_abandoned())
    driver_.context_release(device_);
}

Status DeviceContext::make_current() const {
  return driver_.check(driver_.context_set_current(context_),
                       "cuCtxSetCurrent");
}

Status DeviceContext::try_image(const std::string& image) const {
  Status current = make_current();
  if (!current) return current;
  CUmodule module = nullptr;
  const CUresult result = driver_.module_load_data(&module, image.data());
  switch (result) {
    case CUDA_SUCCESS:
      driver_.module_unload(module);
      return {};
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_SOURCE:
      return driver_.check(result, "cuModuleLoadData");
    default:
      return {};
  }
}

Result<CudaStream> make_stream(const Driver& driver, bool urgent) {
  int least = 0, greatest = 0;
  Status status = driver.check(driver.stream_priority_range(&least, &greatest),
                               "cuCtxGetStreamPriorityRange");
  CUstream stream = nullptr;
  if (status) {
    status = driver.check(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING,
                                               urgent ? greatest : least),
                          "cuStreamCreateWithPriority");
  }
  if (!status) return pass(status.error());
  return CudaStream(stream, {&driver, &Driver::stream_destroy});
}

Result<CudaEvent> make_event(const Driver& driver, bool timed) {
  CUevent event = nullptr;
  const Status status =
      driver.check(driver.event_create(&event, timed ? CU_EVENT_DEFAULT
                                                     : CU_EVENT_DISABLE_TIMING),
                   "cuEventCreate");
  if (!status) return pass(status.error());
  return CudaEvent(event, {&driver, &Driver::event_destroy});
}

Result<DeviceMemory> DeviceMemory::allocate(const Driver& driver,
                                            size_t size_bytes) {
  DeviceMemory memory;
  const Status status = driver.check(
      driver.memory_allocate(&memory.address_,
                             std::max(size_bytes, kSmallestAllocation)),
      "cuMemAlloc");
  if (!status) return pass(status.error(), fmt::format("{} bytes", size_bytes));
  memory.driver_ = &driver;
  memory.size_bytes_ = size_bytes;
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)),
      address_(std::exchange(other.address_, 0)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(address_, other.address_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (driver_ != nullptr && !driver_->is_abandoned())
    driver_->memory_free(address_);
}

Status write_device(const Driver& driver, CUdeviceptr to,
                    std::span<const std::byte> bytes, double timeout_s) {
  Status copied = driver.check(
      driver.copy_to_device(to, bytes.data(), bytes.size()), "cuMemcpyHtoD");
  if (!copied) return copied;
  return driver.synchronize(nullptr, timeout_s);
}

Result<PinnedMemory> PinnedMemory::allocate(const Driver& driver,
                                            size_t size_bytes) {
  void* data = nullptr;
  const Status status = driver.check(
      driver.host_allocate(&data, std::max(size_bytes, kSmallestAllocation),
                           CU_MEMHOSTALLOC_PORTABLE),
      "cuMemHostAlloc");
  if (!status) return pass(status.error(), fmt::format("{} bytes", size_bytes));
  PinnedMemory memory;
  memory.driver_ = &driver;
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_bytes_ = size_bytes;
  return memory;
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (driver_ != nullptr && !driver_->is_abandoned()) driver_->host_free(data_);
}

}  // namespace reprise

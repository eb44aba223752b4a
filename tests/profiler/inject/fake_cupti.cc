#include "tests/profiler/inject/fake_cupti.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// FAKE_CUPTI_VERSION: what cuptiGetVersion says. Offsets and sizes are those
// of the headers of CUDA 13.0 (cupti_layout_test.cc compares them), written
// down apart from the library's own.
namespace {

using reprise::fake::Activity;

constexpr uint32_t kVersion = FAKE_CUPTI_VERSION;
constexpr bool kIs12_8 = kVersion >= 26;
constexpr bool kIs13 = kVersion >= 130000;

using RequestBuffer = void (*)(uint8_t**, size_t*, size_t*);
using CompleteBuffer = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
using Callback = void (*)(void*, uint32_t, uint32_t, const void*);

struct Buffer {
  uint8_t* bytes = nullptr;
  size_t size = 0, used = 0;
};

std::mutex mutex;  // Of all that follows.
std::set<uint32_t> kinds;
std::set<std::pair<bool, uint32_t>> calls;          // (is runtime, id)
std::set<std::pair<uint32_t, uint32_t>> callbacks;  // (domain, id)
std::list<Buffer> buffers;                          // One for each thread.
RequestBuffer request_buffer = nullptr;
CompleteBuffer complete_buffer = nullptr;
Callback callback = nullptr;
void* callback_user = nullptr;
bool has_clock = false;
uint64_t dropped = 0;
std::atomic<uint32_t> misuses{0};
thread_local Buffer* thread_buffer = nullptr;  // In `buffers`, for good.
thread_local std::vector<uint64_t> external_ids;

void expect(bool holds) {
  if (!holds) ++misuses;
}

size_t size_of(uint32_t kind) {
  switch (kind) {
    case 10:
      return kIs13 ? 216 : 208;
    case 1:
    case 22:
      return kIs12_8 ? 96 : 88;
    case 2:
      return 88;
    case 4:
    case 5:
      return 40;
    case 39:
      return 24;
    case 38:
      return kIs12_8 ? 56 : 40;
    case 36:
      return kIs12_8 ? 56 : 24;
    case 17:
      return kIs13 ? 56 : 48;
    default:
      return 0;
  }
}

/// A record with every byte that is not written at a telling value.
struct Raw {
  explicit Raw(const Activity& activity)
      : bytes(size_of(activity.kind), uint8_t{0xcd}) {
    set(0, activity.kind);
  }
  template <typename T>
  void set(size_t offset, T value) {
    if (offset + sizeof value > bytes.size()) std::abort();
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
  std::vector<uint8_t> bytes;
};

void set_kernel(const Activity& a, Raw* raw) {
  raw->set<uint16_t>(6, 32);  // Registers.
  raw->set(16, a.start);
  raw->set(24, a.end);
  raw->set(40, a.device);
  raw->set(44, a.context);
  raw->set(48, a.stream);
  const int32_t sizes[] = {a.grid, 1, 1, a.block, 1, 1, 1024, 4096};
  for (size_t i = 0; i < 8; ++i) raw->set(52 + 4 * i, sizes[i]);
  raw->set(92, a.correlation);
  raw->set(104, a.name);
  raw->set(144, a.graph_node);
}

void set_copy(const Activity& a, Raw* raw) {
  raw->set(4, static_cast<uint8_t>(a.type));
  raw->set<uint8_t>(5, 2);  // From pinned memory
  raw->set<uint8_t>(6, 3);  // to the device's.
  raw->set(8, a.bytes);
  raw->set(16, a.start);
  raw->set(24, a.end);
  raw->set(32, a.device);
  raw->set(36, a.context);
  raw->set(40, a.stream);
  if (a.kind == 22) {
    raw->set<uint32_t>(44, 0);  // From device 0
    raw->set<uint32_t>(52, 1);  // to device 1.
    raw->set(60, a.correlation);
    raw->set(72, a.graph_node);
  } else {
    raw->set(44, a.correlation);
    raw->set(64, a.graph_node);
  }
}

void set_call(const Activity& a, Raw* raw) {
  raw->set(4, a.callback);
  raw->set(8, a.start);
  raw->set(16, a.end);
  raw->set(28, a.thread);
  raw->set(32, a.correlation);
}

void set_synchronization(const Activity& a, Raw* raw) {
  raw->set(4, a.type);
  raw->set(8, a.start);
  raw->set(16, a.end);
  raw->set(24, a.correlation);
  raw->set(28, a.context);
  raw->set(32, a.stream);
  raw->set(36, a.event);
  if (kIs12_8) raw->set(40, a.sync_id);
}

void set_event(const Activity& a, Raw* raw) {
  raw->set(4, a.correlation);
  raw->set(8, a.context);
  raw->set(12, a.stream);
  raw->set(16, a.event);
  if (kIs12_8) raw->set(48, a.sync_id);
}

void set_overhead(const Activity& a, Raw* raw) {
  raw->set(4, a.type);
  raw->set<uint32_t>(8, 2);  // Of a thread.
  raw->set(16, a.thread);
  raw->set(24, a.start);
  raw->set(32, a.end);
  if (kIs13) raw->set(48, std::malloc(12));  // The client's to free.
}

std::vector<uint8_t> raw_record(const Activity& a) {
  Raw raw(a);
  switch (a.kind) {
    case 10:
      set_kernel(a, &raw);
      break;
    case 1:
    case 2:
    case 22:
      set_copy(a, &raw);
      break;
    case 4:
    case 5:
      set_call(a, &raw);
      break;
    case 38:
      set_synchronization(a, &raw);
      break;
    case 36:
      set_event(a, &raw);
      break;
    case 17:
      set_overhead(a, &raw);
      break;
    case 39:
      raw.set(4, uint32_t{a.type});
      raw.set(8, a.external);
      raw.set(16, a.correlation);
      break;
    default:
      std::abort();
  }
  return raw.bytes;
}

bool is_enabled(const Activity& a) {
  if (kinds.contains(a.kind)) return true;
  return (a.kind == 4 || a.kind == 5) &&
         calls.contains({a.kind == 5, a.callback});
}

/// Requires: mutex, which is free while the library is called.
void complete(Buffer* buffer, std::unique_lock<std::mutex>* lock) {
  if (buffer->used == 0) return;
  const Buffer full = *buffer;
  *buffer = {};
  lock->unlock();
  complete_buffer(nullptr, 0, full.bytes, full.size, full.used);
  lock->lock();
}

/// False when the library has no buffer: the record is dropped.
bool make_room(size_t size, std::unique_lock<std::mutex>* lock) {
  if (thread_buffer == nullptr) thread_buffer = &buffers.emplace_back();
  if (thread_buffer->bytes != nullptr &&
      thread_buffer->used + size > thread_buffer->size) {
    complete(thread_buffer, lock);
  }
  if (thread_buffer->bytes != nullptr) return true;
  size_t most_records = 0;
  lock->unlock();
  Buffer fresh;
  request_buffer(&fresh.bytes, &fresh.size, &most_records);
  lock->lock();
  if (fresh.bytes == nullptr) return false;
  expect(reinterpret_cast<uintptr_t>(fresh.bytes) % 8 == 0);
  expect(std::all_of(fresh.bytes, fresh.bytes + fresh.size,
                     [](uint8_t byte) { return byte == 0; }));
  *thread_buffer = fresh;
  return true;
}

void call_back(uint32_t domain, uint32_t id, const void* data) {
  {
    const std::lock_guard lock(mutex);
    if (!callbacks.contains({domain, id})) return;
  }
  callback(callback_user, domain, id, data);
}

void* handle(uint64_t number) { return reinterpret_cast<void*>(number << 8); }
uint64_t number_of(void* handle) {
  return reinterpret_cast<uint64_t>(handle) >> 8;
}

}  // namespace

extern "C" {

void fake_cupti_put(const Activity* activity) {
  std::unique_lock lock(mutex);
  if (complete_buffer == nullptr || !is_enabled(*activity)) return;
  const std::vector<uint8_t> bytes = raw_record(*activity);
  if (!make_room(bytes.size(), &lock)) {
    ++dropped;
    return;
  }
  std::memcpy(thread_buffer->bytes + thread_buffer->used, bytes.data(),
              bytes.size());
  thread_buffer->used += bytes.size();
}

void fake_cupti_launch(const Activity* kernel) {
  if (!external_ids.empty()) {
    Activity external;
    external.kind = 39;
    external.type = 3;
    external.external = external_ids.back();
    external.correlation = kernel->correlation;
    fake_cupti_put(&external);
  }
  fake_cupti_put(kernel);
}

void fake_cupti_drop(uint64_t count) {
  const std::lock_guard lock(mutex);
  dropped += count;
}

void fake_cupti_graph_node(uint64_t node, uint64_t original) {
  struct {
    void *graph, *original_graph, *node, *original_node;
    uint32_t type;
    void *dependency, *exec;
  } graph = {};
  graph.node = handle(node);
  graph.original_node = original == 0 ? nullptr : handle(original);
  void* resource[3] = {nullptr, nullptr, &graph};
  call_back(3, original == 0 ? 13 : 20, resource);
}

void fake_cupti_context(uint32_t context, uint32_t device) {
  void* resource[3] = {handle(uint64_t{context} << 8 | device), nullptr,
                       nullptr};
  call_back(3, 1, resource);
}

void fake_cupti_runtime_call(uint32_t id) {
  for (uint32_t site = 0; site < 2; ++site) {
    uint64_t data[9] = {site};
    call_back(2, id, data);
  }
}

void fake_cupti_complete_all() {
  std::unique_lock lock(mutex);
  for (Buffer& buffer : buffers) complete(&buffer, &lock);
}

uint32_t fake_cupti_misuses() { return misuses.load(); }

// What the library finds by dlsym. Results: 0, or CUptiResult.

int cuptiGetVersion(uint32_t* version) {
  *version = kVersion;
  return 0;
}

int cuptiGetResultString(int, const char** text) {
  *text = "CUPTI_ERROR_OF_THE_FAKE";
  return 0;
}

int cuptiSubscribe(void** subscriber, Callback function, void* user) {
  if (const char* refused = std::getenv("FAKE_CUPTI_REFUSE")) {
    return std::atoi(refused);
  }
  expect(callback == nullptr);
  callback = function;
  callback_user = user;
  *subscriber = &callback;
  return 0;
}

#if FAKE_CUPTI_VERSION >= 130000
int cuptiSubscribe_v2(void** subscriber, Callback function, void* user,
                      void* parameters) {
  struct Parameters {
    size_t size;
    const char* name;
    char* old_name;
    size_t old_size;
  };
  auto* given = static_cast<Parameters*>(parameters);
  expect(given->size == 32 && std::strcmp(given->name, "reprise") == 0 &&
         given->old_size >= 64);
  const int result = cuptiSubscribe(subscriber, function, user);
  if (result == 39) std::strcpy(given->old_name, "Nsight Systems");
  return result;
}
#endif

int cuptiEnableCallback(uint32_t enable, void* subscriber, uint32_t domain,
                        uint32_t id) {
  const std::lock_guard lock(mutex);
  expect(subscriber == &callback && enable == 1);
  callbacks.insert({domain, id});
  return 0;
}

int cuptiGetCallbackName(uint32_t domain, uint32_t id, const char** name) {
  struct Name {
    uint32_t domain, id;
    const char* text;
  };
  constexpr Name kNames[] = {{2, 211, "cudaLaunchKernel_v7000"},
                             {2, 214, "cudaLaunchKernel_ptsz_v7000"},
                             {2, 41, "cudaMemcpyAsync_v3020"},
                             {2, 51, "cudaMemsetAsync_v3020"},
                             {2, 135, "cudaEventRecord_v3020"},
                             {2, 147, "cudaStreamWaitEvent_v3020"},
                             {2, 131, "cudaStreamSynchronize_v3020"},
                             {2, 311, "cudaGraphLaunch_v10000"},
                             {1, 307, "cuLaunchKernel"},
                             {1, 281, "cuMemcpyDtoDAsync_v2"}};
  for (const Name& known : kNames) {
    if (known.domain != domain || known.id != id) continue;
    *name = known.text;
    return 0;
  }
  return 1;
}

int cuptiActivityEnable(uint32_t kind) {
  const std::lock_guard lock(mutex);
  expect(callback != nullptr && complete_buffer != nullptr);
  const char* refused = std::getenv("FAKE_CUPTI_REFUSE_KIND");
  if (refused != nullptr && std::to_string(kind) == refused) return 27;
  kinds.insert(kind);
  return 0;
}

int cuptiActivityDisable(uint32_t kind) {
  const std::lock_guard lock(mutex);
  kinds.erase(kind);
  return 0;
}

int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t enable) {
  const std::lock_guard lock(mutex);
  if (enable != 0) {
    calls.insert({true, id});
  } else {
    calls.erase({true, id});
  }
  return 0;
}

int cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable) {
  const std::lock_guard lock(mutex);
  if (enable != 0) {
    calls.insert({false, id});
  } else {
    calls.erase({false, id});
  }
  return 0;
}

int cuptiActivityRegisterCallbacks(RequestBuffer request,
                                   CompleteBuffer complete_function) {
  const std::lock_guard lock(mutex);
  request_buffer = request;
  complete_buffer = complete_function;
  return 0;
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  if (std::getenv("FAKE_CUPTI_NO_CLOCK") != nullptr) return 27;
  expect(!has_clock && clock() > 0);
  has_clock = true;
  return 0;
}

int cuptiGetTimestamp(uint64_t* time) {
  *time = 1;
  return 0;
}

int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record) {
  auto* next = static_cast<uint8_t*>(*record);
  if (next == nullptr) {
    next = buffer;
  } else {
    uint32_t kind = 0;
    std::memcpy(&kind, next, sizeof kind);
    next += size_of(kind);
  }
  if (next >= buffer + valid) return 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED.
  *record = next;
  return 0;
}

int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* count) {
  const std::lock_guard lock(mutex);
  *count = dropped;
  dropped = 0;
  return 0;
}

int cuptiActivityFlushAll(uint32_t) {
  fake_cupti_complete_all();
  return 0;
}

int cuptiActivityFlushPeriod(uint32_t) { return 0; }
int cuptiActivitySetAttribute(uint32_t, size_t*, void*) { return 0; }

int cuptiSetThreadIdType(uint32_t type) {
  expect(type == 1);  // The system's.
  return 0;
}

int cuptiActivityEnableLatencyTimestamps(uint8_t) { return 0; }
int cuptiActivityEnableAllSyncRecords(uint8_t) { return 0; }

int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id) {
  expect(kind == 3);
  external_ids.push_back(id);
  return 0;
}

int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t* last) {
  expect(kind == 3);
  if (external_ids.empty()) return 18;  // CUPTI_ERROR_QUEUE_EMPTY.
  *last = external_ids.back();
  external_ids.pop_back();
  return 0;
}

int cuptiGetGraphNodeId(void* node, uint64_t* id) {
  *id = number_of(node);
  return 0;
}

int cuptiGetContextId(void* context, uint32_t* id) {
  *id = static_cast<uint32_t>(number_of(context) >> 8);
  return 0;
}

int cuptiGetDeviceId(void* context, uint32_t* device) {
  *device = static_cast<uint32_t>(number_of(context) & 0xff);
  return 0;
}
}

#include "tests/profiler/inject/fake_cupti.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/profiler/inject/fake_cupti_calls.h"
#include "tests/profiler/inject/fake_cupti_records.h"
#include "tests/profiler/inject/fake_tracer.h"

namespace {

using reprise::fake::Activity;
using reprise::fake::kCuptiVersion;
using reprise::fake::raw_record;
using reprise::fake::record_size;

using RequestBuffer = void (*)(uint8_t**, size_t*, size_t*);
using CompleteBuffer = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
using Callback = void (*)(void*, uint32_t, uint32_t, const void*);

struct Buffer {
  uint8_t* bytes = nullptr;
  size_t size = 0, used = 0;
  uint32_t last_work = 0;  ///< Largest correlation id of device work.
};

std::mutex mutex;  // Of all that follows.
std::set<uint32_t> kinds;
/// Enabled when the context was made.
std::optional<std::set<uint32_t>> lasting;
std::set<std::pair<bool, uint32_t>> calls;          // (is runtime, id)
std::set<std::pair<uint32_t, uint32_t>> callbacks;  // (domain, id)
/// The device's, then one for each thread: kernels come before what says whose
/// they are.
std::list<Buffer> buffers(1);
std::list<Buffer> kept;          ///< Full, with an unfinished record.
uint32_t progress = UINT32_MAX;  ///< Work up to this id has finished.
std::atomic<uint32_t> flushes{0};
RequestBuffer request_buffer = nullptr;
CompleteBuffer complete_buffer = nullptr;
Callback callback = nullptr;
void* callback_user = nullptr;
uint64_t (*clock_now)() = nullptr;
uint64_t dropped = 0;
std::atomic<uint32_t> misuses{0};
thread_local Buffer* thread_buffer = nullptr;  // In `buffers`, for good.
thread_local std::vector<uint64_t> external_ids;

void expect(bool holds) {
  if (!holds) ++misuses;
}

struct KnownCall {
  bool is_runtime;
  uint32_t id;
  const char* text;
};
#define KNOWN_DRIVER_CALL(name, id) {false, id, #name},
#define KNOWN_RUNTIME_CALL(name, id) {true, id, #name},
constexpr KnownCall kKnownCalls[] = {
    FAKE_CUPTI_DRIVER_CALLS(KNOWN_DRIVER_CALL)  //
    FAKE_CUPTI_RUNTIME_CALLS(KNOWN_RUNTIME_CALL)};

/// Of a name without CUPTI's version; null when the call is never recorded.
const KnownCall* find_call(std::string_view name, bool is_runtime) {
  for (const KnownCall& known : kKnownCalls) {
    const std::string_view text = known.text;
    if (known.is_runtime != is_runtime || !text.starts_with(name)) continue;
    const std::string_view version = text.substr(name.size());
    if (version.empty() || version.starts_with("_v")) return &known;
  }
  return nullptr;
}

bool is_enabled(const Activity& a) {
  if (kinds.contains(a.kind)) return true;
  // As CUPTI 13.0.1 does (tests/gpu/results of 24f115f).
  if (a.graph_node != 0 && lasting && lasting->contains(a.kind)) return true;
  return (a.kind == 4 || a.kind == 5) &&
         calls.contains({a.kind == 5, a.callback});
}

bool is_device_work(uint32_t kind) {
  return kind == reprise::fake::kCopy || kind == reprise::fake::kMemset ||
         kind == reprise::fake::kKernel;
}

/// Threads take turns to hand buffers over, so that a thread's come in order.
class Turns {
 public:
  uint64_t take() { return taken_++; }  ///< Requires: mutex.
  template <typename Work>
  void wait_for(uint64_t turn, const Work& work) {
    std::unique_lock lock(of_served_);
    changed_.wait(lock, [&] { return served_ == turn; });
    lock.unlock();
    work();
    lock.lock();
    ++served_;
    changed_.notify_all();
  }

 private:
  uint64_t taken_ = 0;
  std::mutex of_served_;
  std::condition_variable changed_;
  uint64_t served_ = 0;
};
Turns turns;

/// Requires: mutex, which is free while the library is called.
void complete(Buffer* buffer, std::unique_lock<std::mutex>* lock) {
  if (buffer->used == 0) return;
  const Buffer full = *buffer;
  *buffer = {};
  const uint64_t turn = turns.take();
  lock->unlock();
  turns.wait_for(turn, [&] {
    complete_buffer(nullptr, 0, full.bytes, full.size, full.used);
  });
  lock->lock();
}

/// False when the library has no buffer: the record is dropped.
bool make_room(size_t size, Buffer* buffer,
               std::unique_lock<std::mutex>* lock) {
  if (buffer->bytes != nullptr && buffer->used + size > buffer->size) {
    if (buffer->last_work > progress) {
      kept.push_back(*buffer);
      *buffer = {};
    } else {
      complete(buffer, lock);
    }
  }
  if (buffer->bytes != nullptr) return true;
  size_t most_records = 0;
  lock->unlock();
  Buffer fresh;
  request_buffer(&fresh.bytes, &fresh.size, &most_records);
  lock->lock();
  if (fresh.bytes == nullptr) return false;
  expect(reinterpret_cast<uintptr_t>(fresh.bytes) % 8 == 0);
  expect(std::all_of(fresh.bytes, fresh.bytes + fresh.size,
                     [](uint8_t byte) { return byte == 0; }));
  *buffer = fresh;
  return true;
}

void put(const Activity& activity, bool of_device) {
  std::unique_lock lock(mutex);
  if (complete_buffer == nullptr || !is_enabled(activity)) return;
  if (thread_buffer == nullptr) thread_buffer = &buffers.emplace_back();
  Buffer* buffer = of_device ? &buffers.front() : thread_buffer;
  const std::vector<uint8_t> bytes = raw_record(activity);
  if (!make_room(bytes.size(), buffer, &lock)) {
    ++dropped;
    return;
  }
  std::memcpy(buffer->bytes + buffer->used, bytes.data(), bytes.size());
  buffer->used += bytes.size();
  if (is_device_work(activity.kind)) {
    buffer->last_work = std::max(buffer->last_work, activity.correlation);
  }
}

/// As the header has it: a buffer returns when it is full and all its records
/// are complete; by a flush before it is full; by a forced one as it is.
void flush_all(bool is_forced) {
  std::unique_lock lock(mutex);
  if (complete_buffer == nullptr) return;
  for (std::list<Buffer>* list : {&kept, &buffers}) {
    for (Buffer& buffer : *list) {
      if (is_forced || buffer.last_work <= progress) complete(&buffer, &lock);
    }
  }
  kept.remove_if([](const Buffer& buffer) { return buffer.used == 0; });
}

/// What the thread has pushed last, for a call. CUPTI 13.0.1 had none where the
/// kind was enabled after the context (tests/gpu/results of 02773d2).
void put_external(uint32_t correlation) {
  if (external_ids.empty()) return;
  {
    const std::lock_guard lock(mutex);
    if (lasting && !lasting->contains(reprise::fake::kExternal)) return;
  }
  Activity external;
  external.kind = reprise::fake::kExternal;
  external.type = 3;
  external.external = external_ids.back();
  external.correlation = correlation;
  put(external, /*of_device=*/false);
}

void call_back(uint32_t domain, uint32_t id, const void* data) {
  {
    const std::lock_guard lock(mutex);
    if (!callbacks.contains({domain, id})) return;
  }
  callback(callback_user, domain, id, data);
}

// The fake driver's device, where that is in the process.

uint64_t now() {
  if (clock_now != nullptr) return clock_now();
  return static_cast<uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch().count());
}

/// An activity record of the call, and before it, as CUPTI's header has it,
/// one of the external id: no record of the call, none of the id.
void trace_call(const char* name, bool is_runtime, uint32_t correlation,
                uint64_t start) {
  const KnownCall* known = find_call(name, is_runtime);
  if (known == nullptr) return;
  Activity call;
  call.kind =
      is_runtime ? reprise::fake::kRuntimeCall : reprise::fake::kDriverCall;
  call.callback = known->id;
  call.correlation = correlation;
  call.thread = static_cast<uint32_t>(::syscall(SYS_gettid));
  call.start = start;
  call.end = now();
  {
    const std::lock_guard lock(mutex);
    if (!is_enabled(call)) return;
  }
  put_external(correlation);
  put(call, /*of_device=*/false);
}

void trace_device(const Activity* activity) {
  put(*activity, /*of_device=*/true);
}

/// As the real one does by the driver's private tables.
void attach_to_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return;
  using Trace = void(const reprise::fake::Tracer*);
  auto* trace = reinterpret_cast<Trace*>(::dlsym(driver, "fake_cuda_trace"));
  static constexpr reprise::fake::Tracer kTracer = {
      .now = now,
      .call = trace_call,
      .host = fake_cupti_put,
      .device = trace_device,
      .graph_node = fake_cupti_graph_node,
      .context = fake_cupti_context};
  if (trace != nullptr) trace(&kTracer);
}

void* handle(uint64_t number) { return reinterpret_cast<void*>(number << 8); }
uint64_t number_of(void* handle) {
  return reinterpret_cast<uint64_t>(handle) >> 8;
}

}  // namespace

extern "C" {

void fake_cupti_put(const Activity* activity) {
  put(*activity, /*of_device=*/false);
}

void fake_cupti_launch(const Activity* kernel) {
  put_external(kernel->correlation);
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
  {
    const std::lock_guard lock(mutex);
    lasting = kinds;
  }
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

void fake_cupti_progress(uint32_t correlation) {
  const std::lock_guard lock(mutex);
  progress = correlation;
}

uint64_t fake_cupti_now() { return now(); }

uint32_t fake_cupti_flushes() { return flushes.load(); }

void fake_cupti_complete_all() { flush_all(/*is_forced=*/true); }

uint32_t fake_cupti_misuses() { return misuses.load(); }

// What the library finds by dlsym. Results: 0, or CUptiResult.

int cuptiGetVersion(uint32_t* version) {
  // FAKE_CUPTI_SHARES: of CUDA 13.2, which lets subscribers share it.
  *version =
      std::getenv("FAKE_CUPTI_SHARES") == nullptr ? kCuptiVersion : 130202;
  return 0;
}

int cuptiGetResultString(int, const char** text) {
  *text = "CUPTI_ERROR_OF_THE_FAKE";
  return 0;
}

static int subscribe(void** subscriber, Callback function, void* user) {
  if (callback != nullptr) return 39;
  callback = function;
  callback_user = user;
  *subscriber = &callback;
  attach_to_driver();
  return 0;
}

int cuptiSubscribe(void** subscriber, Callback function, void* user) {
  if (const char* refused = std::getenv("FAKE_CUPTI_REFUSE")) {
    return std::atoi(refused);
  }
  return subscribe(subscriber, function, user);
}

#if FAKE_CUPTI_VERSION >= 130000
int cuptiSubscribe_v2(void** subscriber, Callback function, void* user,
                      void* parameters) {
  struct Parameters {
    size_t size;
    const char* name;
    char* old_name;
    size_t old_size;
    uint8_t allows_others;
  };
  auto* given = static_cast<Parameters*>(parameters);
  const bool can_share = std::getenv("FAKE_CUPTI_SHARES") != nullptr;
  const bool shares = can_share && given->size == 40 && given->allows_others;
  expect((given->size == 32 || shares) &&
         std::strcmp(given->name, "reprise") == 0 && given->old_size >= 64);
  if (shares) {
    std::strcpy(given->old_name, "Nsight Systems");
    return subscribe(subscriber, function, user);
  }
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

int cuptiEnableDomain(uint32_t enable, void* subscriber, uint32_t domain) {
  const std::lock_guard lock(mutex);
  expect(subscriber == &callback);
  for (uint32_t id = 0; id < 1000; ++id) {
    if (enable != 0) {
      callbacks.insert({domain, id});
    } else {
      callbacks.erase({domain, id});
    }
  }
  return 0;
}

/// Nobody's business while ours records.
int cuptiUnsubscribe(void*) {
  expect(false);
  return 1;
}

int cuptiFinalize() {
  expect(false);
  return 1;
}

int cuptiGetCallbackName(uint32_t domain, uint32_t id, const char** name) {
  for (const KnownCall& known : kKnownCalls) {
    if ((known.is_runtime ? 2 : 1) != domain || known.id != id) continue;
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
  expect(clock_now == nullptr && clock() > 0);
  clock_now = clock;
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
    next += record_size(kind);
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

int cuptiActivityFlushAll(uint32_t flag) {
  expect(flag <= 1);
  flush_all(flag == 1);
  ++flushes;
  return 0;
}

/// The real one may return full buffers only, which return by themselves here.
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

// A CUPTI of our own for tests: libcupti.so.12 and .13, each with the record
// layouts of its version. A program says what CUPTI would have seen; the fake
// writes it into the buffers that the injection library gave it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::fake {

// Of CUpti_ActivityKind, CUpti_ActivityMemcpyKind and
// CUpti_ActivitySynchronizationType, as far as the fakes name them.
enum Kind : uint32_t {
  kCopy = 1,
  kMemset = 2,
  kDriverCall = 4,
  kRuntimeCall = 5,
  kKernel = 10,
  kEvent = 36,
  kSynchronization = 38,
  kExternal = 39,
};
enum CopyKind : uint32_t {
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 8,
};
enum WaitKind : uint32_t {
  kEventWait = 1,
  kStreamWaitsEvent = 2,
  kStreamWait = 3,
  kContextWait = 4,
};
inline constexpr uint32_t kNoId = 0xffffffffU;  ///< Of a stream, an event.

/// One activity record in no version's layout.
struct Activity {
  uint32_t kind = 0;  ///< CUpti_ActivityKind.
  uint64_t start = 0, end = 0;
  uint32_t device = 0, context = 1, stream = 0, correlation = 0;
  uint64_t graph_node = 0;
  uint64_t bytes = 0;
  const char* name = nullptr;   ///< Kernels: mangled.
  int32_t grid = 1, block = 1;  ///< Their x sizes; y and z are 1.
  uint32_t callback = 0;        ///< Calls: CUpti_CallbackId.
  uint32_t thread = 0;          ///< Calls and overheads.
  uint32_t type = 0;            ///< Copies, waits, overheads: their kind.
  uint64_t external = 0;        ///< External ids.
  uint32_t event = 0;           ///< CUDA events and waits for them.
  uint64_t sync_id = 0;
};

}  // namespace reprise::fake

extern "C" {
/// As if the calling thread's work had made this record: kept if its kind (its
/// call) is enabled.
void fake_cupti_put(const reprise::fake::Activity* activity);
/// A kernel's launch by the calling thread: the external id that it pushed, if
/// any, then the call and the kernel.
void fake_cupti_launch(const reprise::fake::Activity* kernel);
/// The next buffers that are completed report so many dropped records.
void fake_cupti_drop(uint64_t count);
/// A graph's node is created; `original` is not null when it is a clone.
void fake_cupti_graph_node(uint64_t node, uint64_t original);
/// A context is made on a device.
void fake_cupti_context(uint32_t context, uint32_t device);
/// A call of the runtime is entered, then left.
void fake_cupti_runtime_call(uint32_t callback);
/// From now on device work is unfinished when its correlation id is larger.
void fake_cupti_progress(uint32_t correlation);
/// What the clock that was registered says.
uint64_t fake_cupti_now();
/// Calls of cuptiActivityFlushAll so far.
uint32_t fake_cupti_flushes();
/// Completes all buffers that hold something.
void fake_cupti_complete_all();
/// Calls that the library made in an order that CUPTI does not take.
uint32_t fake_cupti_misuses();
}

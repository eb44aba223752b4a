// How every function of the fake driver begins.
#pragma once

#include <cuda.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "tests/runtime/cuda/fake_device.h"

namespace fake {

using Lock = std::lock_guard<std::recursive_mutex>;

/// A context is its device's number + 1.
inline thread_local uint64_t current_context = 0;

/// A call as a tool sees it, with a record when it returns. One within another,
/// as the driver's within the runtime's, has the same correlation.
class TracedCall {
 public:
  explicit TracedCall(const char* name, bool is_runtime = false)
      : name_(name), is_runtime_(is_runtime), outer_(innermost_) {
    Device& device = Device::get();
    correlation_ =
        outer_ == nullptr ? ++device.correlations : outer_->correlation_;
    if (device.tracer != nullptr) start_ = device.tracer->now();
    innermost_ = this;
  }
  ~TracedCall() {
    innermost_ = outer_;
    const Tracer* tracer = Device::get().tracer;
    if (tracer != nullptr)
      tracer->call(name_, is_runtime_, correlation_, start_);
  }
  TracedCall(const TracedCall&) = delete;
  TracedCall& operator=(const TracedCall&) = delete;

  uint32_t correlation() const { return correlation_; }

  /// What the call does, but for its stream and its end.
  Activity activity(uint32_t kind) const {
    Activity made;
    made.kind = kind;
    made.context = static_cast<uint32_t>(current_context);
    made.device = made.context - 1;
    made.correlation = correlation_;
    made.start = start_;
    return made;
  }
  Activity copy(uint32_t direction, uint64_t bytes) const {
    Activity made = activity(reprise::fake::kCopy);
    made.type = direction;
    made.bytes = bytes;
    return made;
  }

  /// The call has waited, or made a stream wait; null for what it did not wait
  /// for.
  void waited(uint32_t how, const Stream* stream,
              const EventState* event) const {
    const Tracer* tracer = Device::get().tracer;
    if (tracer == nullptr) return;
    Activity wait = activity(reprise::fake::kSynchronization);
    wait.type = how;
    wait.stream = stream == nullptr ? reprise::fake::kNoId : stream->number;
    wait.event = event == nullptr ? reprise::fake::kNoId : event->number;
    wait.sync_id = event == nullptr ? reprise::fake::kNoId : event->sync_id;
    wait.end = tracer->now();
    tracer->host(&wait);
  }
  void recorded(const EventState& event, const Stream& stream) const {
    const Tracer* tracer = Device::get().tracer;
    if (tracer == nullptr) return;
    Activity record = activity(reprise::fake::kEvent);
    record.stream = stream.number;
    record.event = event.number;
    record.sync_id = event.sync_id;
    tracer->host(&record);
  }

 private:
  static inline thread_local const TracedCall* innermost_ = nullptr;
  const char* name_;
  bool is_runtime_;
  const TracedCall* outer_;
  uint32_t correlation_ = 0;
  uint64_t start_ = 0;
};

// FAKE_CUDA_BLOCK=CALL:N.
inline bool must_block(const char* name, uint64_t call) {
  static const char* const plan = std::getenv("FAKE_CUDA_BLOCK");
  if (plan == nullptr) return false;
  return plan == std::string(name) + ":" + std::to_string(call);
}

// Counts the call and says how it must fail, if it must.
inline CUresult enter(const char* name) {
  fake::Device& device = fake::Device::get();
  const uint64_t call = device.calls[name]++;
  while (must_block(name, call)) ::pause();
  const auto planned = device.failures.find(name);
  if (planned != device.failures.end() && planned->second.first-- == 0) {
    const CUresult result = planned->second.second;
    device.failures.erase(planned);
    return result;
  }
  return device.sticky;
}

// For all that needs a context.
inline CUresult enter_current(const char* name) {
  const CUresult result = enter(name);
  if (result != CUDA_SUCCESS || current_context != 0) return result;
  Device::get().report(std::string(name) + " without a current context");
  return CUDA_ERROR_INVALID_CONTEXT;
}

// What capture forbids.
inline CUresult enter_uncaptured(const char* name) {
  const CUresult result = enter_current(name);
  if (result != CUDA_SUCCESS || !Device::get().is_capturing()) return result;
  Device::get().invalidate_captures();
  Device::get().report(std::string(name) + " under capture");
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace fake

// Takes the lock, names the device `device` and the call `call`, and returns
// where that must fail.
#define ENTER(how, name)                                           \
  const fake::Lock lock(fake::Device::get().mutex);                \
  [[maybe_unused]] fake::Device& device = fake::Device::get();     \
  [[maybe_unused]] const fake::TracedCall call(name);              \
  if (const CUresult entered = how(name); entered != CUDA_SUCCESS) \
    return entered;                                                \
  static_cast<void>(0)

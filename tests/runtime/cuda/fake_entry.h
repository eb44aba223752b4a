// How every function of the fake driver begins.
#pragma once

#include <cuda.h>

#include <mutex>
#include <string>

#include "tests/runtime/cuda/fake_device.h"

namespace fake {

using Lock = std::lock_guard<std::recursive_mutex>;

/// A context is its device's number + 1.
inline thread_local uint64_t current_context = 0;

// Counts the call and says how it must fail, if it must.
inline CUresult enter(const char* name) {
  fake::Device& device = fake::Device::get();
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

// Takes the lock, names it `device`, and returns where the call must fail.
#define ENTER(how, name)                                           \
  const fake::Lock lock(fake::Device::get().mutex);                \
  fake::Device& device = fake::Device::get();                      \
  if (const CUresult entered = how(name); entered != CUDA_SUCCESS) \
    return entered;                                                \
  static_cast<void>(device)

// Another tool's subscription to CUPTI's callbacks in the same process. Before
// CUDA 13.2 CUPTI has room for one, which is ours, and a tool that is refused
// records no device work at all: PyTorch's profiler (Kineto) goes on with CPU
// operators alone (seen on an H100, driver 580.159.04, torch 2.11.0). So ours
// takes its place at CUPTI and calls the tool's function.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "profiler/cupti/cupti_types.h"

namespace reprise::cupti {

class GuestSubscriber {
 public:
  /// Gives out the handle. kMultipleSubscribers while another guest has it.
  Result begin(void** handle, Callback function, void* user);
  void end();
  bool owns(const void* handle) const { return handle == &function_; }

  /// Ids of a domain that the guest wants from now on, or no longer.
  Result want(bool is_wanted, uint32_t domain, uint32_t id);
  Result want_all(bool is_wanted, uint32_t domain);

  /// Lock-free: the guest's function, where it wants this.
  void call(uint32_t domain, uint32_t id, const void* data) const;

 private:
  static constexpr uint32_t kDomains = 16, kIds = 2048;  // CUDA 13.5: 7, 1,000.
  using Ids = std::array<std::atomic<uint64_t>, kIds / 64>;

  std::atomic<Callback> function_{nullptr};
  std::atomic<void*> user_{nullptr};
  std::array<Ids, kDomains> wanted_{};
};

}  // namespace reprise::cupti

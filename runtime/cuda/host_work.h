// What no device code computes: the CPU's routines, run by the host between
// copies, in stream order and as nodes of a graph. Bits are the CPU's;
// time is that of the copies and of one core.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cuda/device_unit_calls.h"

namespace reprise {

/// One unit's.
class HostWork final : public DeviceRoutine {
 public:
  /// Bytes of the device's, and where they lie in the staging memory.
  struct Transfer {
    CUdeviceptr device = 0;
    size_t offset = 0, size_bytes = 0;
  };
  /// Makes what runs, false when it failed for good, of staging memory.
  using Bind = std::function<Result<std::function<bool()>>(std::byte* staging)>;

  explicit HostWork(DeviceResources& resources) : shared_(resources) {}
  /// Arrays of the device that it reads or writes; in order, the offset in
  /// staging memory of each.
  size_t add_operand(CUdeviceptr device, int64_t size_bytes);
  size_t add_result(CUdeviceptr device, int64_t size_bytes);
  void set_bind(Bind bind) { bind_ = std::move(bind); }

  size_t staging_bytes() const { return staging_bytes_; }
  /// Once all units are bound. Errors: those of `bind`.
  Status place(std::byte* staging);

  Status enqueue(CUstream stream) override;
  int64_t operations() const override {
    return static_cast<int64_t>(operands_.size() + results_.size() + 1);
  }

 private:
  size_t reserve(int64_t size_bytes);
  static void CUDA_CB run_on_host(void* work);

  DeviceResources& shared_;
  std::vector<Transfer> operands_, results_;
  size_t staging_bytes_ = 0;
  std::byte* staging_ = nullptr;
  Bind bind_;
  std::function<bool()> run_;
};

/// A unit's routine; what the CPU refuses comes to light when it is placed.
std::unique_ptr<DeviceRoutine> make_host_routine(
    const DeviceUnitContext& context, const Unit& unit);

}  // namespace reprise

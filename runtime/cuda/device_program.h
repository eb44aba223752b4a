// A schedule bound to a device's memory and code: what each unit enqueues.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cuda/cubins.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/device_communicator.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/packed_dots.h"

namespace reprise {

/// Alignment of buffers in device memory, bytes: that of cuMemAlloc.
constexpr int64_t kDeviceAlignmentBytes = 256;

/// One arena, planned as on the CPU but for its alignment, with the constants
/// in it, and every computing unit bound to its addresses. `enqueue` allocates
/// nothing.
class DeviceProgram {
 public:
  /// `cubins` are of `device_kernels(schedule)`. The context is current; all
  /// references must outlive the program. Errors: kUnsupported naming the first
  /// unit that cannot run; kDevice.
  static Result<std::unique_ptr<DeviceProgram>> create(
      const DeviceContext& context, const Module& inlined,
      const Schedule& schedule, const Cubins& cubins, CublasLibrary& cublas,
      int64_t rank = 0);

  /// Enqueues one unit of the compute stream. Errors: kDevice naming it.
  Status enqueue(UnitId unit, CUstream stream) const;

  CUdeviceptr address_of(const Location& location) const;
  /// A parameter's or output's whole value.
  Location parameter(int64_t number) const;
  Location output(int64_t number) const;
  DeviceSpan arena() const {
    return {.base = arena_.address(), .size_bytes = arena_.size_bytes()};
  }

 private:
  /// One launch of a kernel; its parameters are addresses.
  struct Launch {
    CUfunction function = nullptr;
    uint32_t grid_blocks = 1, block_threads = 1;
    size_t first_parameter = 0;
  };
  struct Thunk {
    UnitKind kind = UnitKind::kKernel;
    std::vector<Launch> launches;  ///< Of a dot, what is packed before it.
    CublasLibrary::Call dot;
    CUdeviceptr target = 0, source = 0;  ///< kCopy.
    size_t size_bytes = 0;
  };

  DeviceProgram(const Driver& driver, const Schedule& schedule)
      : driver_(driver), schedule_(schedule), packed_(pack_dots(schedule)) {}
  Status allocate(const Cubins& cubins);
  Status load_modules(const Cubins& cubins);
  Status write_constants(const Module& inlined, int64_t rank);
  Status bind(const Cubins& cubins, CublasLibrary& cublas);
  Status bind_unit(UnitId id, const Cubins& cubins, CublasLibrary& cublas);
  Status bind_kernel(const CubinKernel& kernel,
                     const std::vector<CUdeviceptr>& arguments, Thunk& thunk);
  Status bind_dot(UnitId id, const Cubins& cubins, CublasLibrary& cublas,
                  Thunk& thunk);

  const Driver& driver_;
  const Schedule& schedule_;
  std::vector<int64_t> offsets_;  ///< `[buffer]` in the arena.
  PackedDots packed_;
  DeviceMemory arena_, workspace_, scratch_;
  std::vector<CudaModule> modules_;     ///< `[image]`
  std::vector<Thunk> thunks_;           ///< `[unit]`; empty for collectives.
  std::vector<CUdeviceptr> addresses_;  ///< Parameters of all launches,
  std::vector<void*> parameters_;       ///< and where each of them lies.
};

}  // namespace reprise

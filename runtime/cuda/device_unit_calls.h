// The computing units of a schedule, bound to a device's memory: a step's, or
// those of a program that a unit of it calls. Every unit is one of a few
// actions in a vector, so that enqueueing is a walk without lookups or
// allocation.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cuda/device_resources.h"

namespace reprise {

/// What units are bound to. References must outlive the calls.
struct DeviceUnitContext {
  DeviceResources& resources;
  const Module& module;  ///< Inlined.
  const Schedule& schedule;
  /// [kernel of this schedule] Its place in the step's.
  std::vector<int32_t> kernels;
  std::vector<CUdeviceptr> buffers;  ///< [buffer] Its first byte.
  bool is_step = true;               ///< Then collectives are its executor's.

  CUdeviceptr address_of(const Location& location) const {
    return buffers[index_of(location.buffer)] +
           static_cast<CUdeviceptr>(location.offset_bytes);
  }
};

/// What a unit of several operations enqueues.
class DeviceRoutine {
 public:
  virtual ~DeviceRoutine() = default;
  /// Errors: kDevice.
  virtual Status enqueue(CUstream stream) = 0;
  /// How many, at most, where that is known.
  virtual int64_t operations() const = 0;
};

/// A routine's arrays in device memory, and what it needs beside them.
struct DeviceArrays {
  std::vector<DeviceSpan> operands, results;
  CUdeviceptr workspace = 0;
};
DeviceArrays arrays_of(const DeviceUnitContext& context, const Unit& unit);

class DeviceUnitCalls {
 public:
  DeviceUnitCalls();
  ~DeviceUnitCalls();
  DeviceUnitCalls(DeviceUnitCalls&&) noexcept;
  DeviceUnitCalls& operator=(DeviceUnitCalls&&) noexcept;

  /// Binds all units, in order; nothing was bound before. Errors: kUnsupported
  /// naming the first that cannot run; kDevice.
  Status bind(const DeviceUnitContext& context);
  /// Enqueues one; of a step's collectives only what a rank that is alone
  /// copies. Errors: kDevice.
  Status enqueue(UnitId unit, CUstream stream) const;
  /// Enqueues all, in order. Errors: kDevice naming the unit.
  Status enqueue_all(CUstream stream) const;
  int64_t operations() const;

 private:
  struct Launch;
  struct Call;
  class Binder;

  const Driver* driver_ = nullptr;
  const Schedule* schedule_ = nullptr;
  std::vector<Call> calls_;             ///< [unit]
  std::vector<CUdeviceptr> addresses_;  ///< Parameters of all launches,
  std::vector<void*> parameters_;       ///< and where each of them lies.
};

/// Whiles and conditionals: what they call is enqueued from the host, pass by
/// pass, a known number of times or as the device's own choices say, which the
/// host then waits for. Errors: those of units.
Result<std::unique_ptr<DeviceRoutine>> make_device_loop(
    const DeviceUnitContext& context, const Unit& unit);
Result<std::unique_ptr<DeviceRoutine>> make_device_conditional(
    const DeviceUnitContext& context, const Unit& unit);
/// A program of its own on these arrays. Errors: those of units.
Result<std::unique_ptr<DeviceRoutine>> make_expanded(
    DeviceResources& resources, const ExpandedRoutine& expanded,
    const DeviceArrays& arrays);
/// A convolution of the library and what arranges its arrays, on memory that
/// all expansions share. Errors: those of units; kDevice.
Result<std::unique_ptr<DeviceRoutine>> make_library_convolution(
    DeviceResources& resources, const LibraryRoutine& routine,
    const DeviceArrays& arrays);

}  // namespace reprise

// Collectives by NCCL, one rank per device.
#pragma once

#include <functional>
#include <memory>

#include "data/result.h"
#include "runtime/cuda/device_communicator.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// What NCCL leaves to the caller.
struct NcclDevice {
  /// Makes the device's context current on the thread that calls it.
  std::function<Status()> make_current;
  /// Enqueues zeros for bytes at a device address.
  std::function<Status(uint64_t address, size_t size_bytes,
                       CUstream_st* stream)>
      clear;
};

/// Connects all ranks; collective. Groups of them are connected when they are
/// first joined. Connecting has a thread of its own, so that a silent peer
/// costs `timeout_s` and no more. `group` outlives the communicator.
///
/// Graphs that hold its work must be destroyed before the communicator, and
/// streams must be idle or `abort` have been called. Several communicators of
/// one process must not be enqueued to from several threads (NCCL may then
/// deadlock). Errors: kDevice: no NCCL, a device that two ranks share (before
/// NCCL 2.30), a rank that does not come.
Result<std::unique_ptr<DeviceCommunicator>> make_nccl_communicator(
    ProcessGroup& group, const NcclDevice& device, double timeout_s);

}  // namespace reprise

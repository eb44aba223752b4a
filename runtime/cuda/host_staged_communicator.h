// Collectives of ranks that share a device, which NCCL refuses: copied to the
// host, run there, copied back. For tests and for eager steps; its times say
// nothing of a link.
#pragma once

#include <memory>

#include "data/result.h"
#include "runtime/cuda/device_communicator.h"
#include "runtime/cuda/driver.h"
#include "runtime/process/communicator.h"

namespace reprise {

/// Runs collectives by `host`, which is not attached yet. `enqueue` waits for
/// the work before it on its stream, at most `timeout_s`, then for the peers;
/// it must not be called while that stream is captured.
std::unique_ptr<DeviceCommunicator> make_host_staged_communicator(
    const Driver& driver, std::unique_ptr<Communicator> host,
    double timeout_s = kDeviceWaitSeconds);

}  // namespace reprise

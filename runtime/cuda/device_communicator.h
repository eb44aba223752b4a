// The seam behind which collectives on device memory run: NCCL, or copies to
// the host and Gloo where several ranks share a device. Needs no header of the
// toolkit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/result.h"
#include "data/schedule/schedule.h"

struct CUstream_st;  // The driver's; CUstream is a pointer to it.

namespace reprise {

/// Bytes of device memory; `base` is a CUdeviceptr.
struct DeviceSpan {
  uint64_t base = 0;
  size_t size_bytes = 0;
};

/// The device addresses of a CollectiveArray.
struct ArrayAddresses {
  uint64_t input = 0, output = 0;
};

/// Collectives among ranks, in stream order. Every rank enqueues the same
/// sequence, also of those that it has no part in; what all members compute has
/// the same bits on all of them.
///
/// Threads: `attach`, `check`, `join` and `enqueue` belong to one thread at a
/// time, and to one where the device's context is current; `poll` and `abort`
/// may be called by another one meanwhile.
class DeviceCommunicator {
 public:
  /// Requires: graphs that hold its work are gone, and streams with its work
  /// are idle or `abort` was called.
  virtual ~DeviceCommunicator() = default;

  /// Names the device memory in which every later collective lies, and the
  /// bytes that the largest of them reads and writes. Collective. Errors:
  /// kDevice.
  virtual Status attach(DeviceSpan memory, size_t largest_bytes) = 0;

  /// Refuses, before the first step, what `enqueue` cannot do. Errors:
  /// kUnsupported.
  virtual Status check(const CollectiveSpec& spec) const = 0;

  /// Connects those that meet in a collective, unless they are. Collective: all
  /// ranks give it the same in the same order. Errors: kDevice.
  virtual Status join(const CollectiveSpec& /*spec*/) { return {}; }

  /// True when `enqueue` waits for `stream`, goes through host memory and
  /// returns with the result's copy enqueued: then a step cannot be captured
  /// as a graph, and `enqueue` is best called from a thread of its own.
  virtual bool is_host_staged() const = 0;

  /// True when nobody is to be met: one rank, or each rank alone. Then nothing
  /// is enqueued here; results that lie elsewhere are copies of the operands.
  virtual bool is_immediate() const { return false; }

  /// Enqueues one collective over `arrays`, those of the spec in their order.
  /// Under capture
  /// of `stream` it becomes part of the graph (not when host-staged). Errors:
  /// kDevice when a rank was lost or kept silent, naming it where that is
  /// known. After an error no further call succeeds.
  virtual Status enqueue(const CollectiveSpec& spec,
                         std::span<const ArrayAddresses> arrays,
                         CUstream_st* stream) = 0;
  /// Of one array.
  Status enqueue(const CollectiveSpec& spec, uint64_t input, uint64_t output,
                 CUstream_st* stream) {
    const ArrayAddresses array{input, output};
    return enqueue(spec, {&array, 1}, stream);
  }

  /// Asks, without waiting, whether something enqueued has failed since (a peer
  /// was lost): to be called while waiting for a stream, every few
  /// milliseconds. Errors: kDevice.
  virtual Status poll() { return {}; }

  /// Ends what is enqueued and never finishes, as after an error or a timeout
  /// of the caller's: streams then run dry with undefined results. Returns
  /// within seconds.
  virtual void abort() {}
};

/// Bytes that a collective reads and writes, in place those of its buffer.
size_t touched_bytes(const CollectiveSpec& spec);

/// Does nothing: one rank, or each rank alone (calibration).
std::unique_ptr<DeviceCommunicator> make_solo_device_communicator();

}  // namespace reprise

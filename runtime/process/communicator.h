// The seam behind which collectives run: Gloo on CPU, nothing at all for one
// rank or a solo run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// The bytes of a CollectiveArray.
struct ArrayBytes {
  const void* input = nullptr;
  void* output = nullptr;
};

/// Blocking collectives among ranks. Every rank runs the same sequence, also of
/// those that it has no part in; what all members compute has the same bits on
/// all of them, and from run to run. `attach` and `check` belong to the thread
/// that sets up, `run` to one thread.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Names the memory in which every later collective of tag 0 lies.
  /// Collective.
  virtual Status attach(std::span<std::byte> memory) = 0;
  /// Refuses, before the first step, what `run` cannot do. Errors:
  /// kUnsupported.
  virtual Status check(const CollectiveSpec& spec) const = 0;
  /// True when `run` returns at once: no thread is worth waking for it.
  virtual bool is_immediate() const { return false; }
  /// Runs one collective over `arrays`, those of the spec in their order.
  /// Errors: kDevice when a rank was
  /// lost or kept silent, naming it where there are two. After an error no
  /// further call succeeds, and the peers' calls fail too.
  /// A call meets calls of the same `tag` alone: ranks whose loops run
  /// differently often wait in vain rather than take each other's data.
  virtual Status run(const CollectiveSpec& spec,
                     std::span<const ArrayBytes> arrays, uint32_t tag) = 0;
  /// Of one array, in a step.
  Status run(const CollectiveSpec& spec, const void* input, void* output) {
    const ArrayBytes array{input, output};
    return run(spec, {&array, 1}, 0);
  }
  /// Lets every peer that waits for this rank fail at once. Any thread.
  virtual void abandon() {}
};

/// Does nothing: one rank, or each rank alone (calibration).
std::unique_ptr<Communicator> make_solo_communicator();

/// Connects every pair of ranks by TCP. Binds to the interface
/// REPRISE_INTERFACE if it is set, else to the loopback when all ranks share a
/// host, else to the address of this host's name. A peer silent for `timeout_s`
/// ends the run. The process ignores SIGPIPE from then on, unless it handles
/// it. Errors: kDevice.
Result<std::unique_ptr<Communicator>> make_gloo_communicator(
    ProcessGroup& group, double timeout_s);

}  // namespace reprise

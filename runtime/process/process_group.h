// The ranks of one run before and beside training: who they are, and slow,
// reliable exchange of small values. Collectives of the step itself go through
// `Communicator`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"

namespace reprise {

/// One rank's view of all ranks. Calls are collective where they say so, and
/// belong to one thread.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Place among, and number of, the ranks of this host.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;

  /// Gives every rank every rank's bytes, `[rank]`. Collective; waits asleep.
  /// Errors: kDevice.
  virtual Result<std::vector<std::string>> all_gather(
      std::string_view bytes) = 0;

  /// Bounces one small message to `peer` and back: this rank sends, the peer
  /// stamps it with its clock. Returns the peer's stamp. `answer_ping` is the
  /// peer's side. Errors: kDevice.
  virtual Result<int64_t> ping(int peer) = 0;
  virtual Status answer_ping(int peer) = 0;

  /// Ranks that do not answer within `wait_s`, after a failure that every rank
  /// still alive is told of within that time. Collective among the living.
  virtual std::vector<int> roll_call(double wait_s) = 0;

  /// Ends all ranks at once with this exit code. Returns only where there is
  /// nobody else to end.
  virtual void abort(int exit_code) = 0;

  /// Returns when every rank has called it. Errors: kDevice.
  Status barrier();
};

/// One rank alone.
std::unique_ptr<ProcessGroup> make_single_process_group();

/// True when the environment says that an MPI launcher started this process.
bool started_by_mpi();

/// Initializes MPI, waiting for all ranks without limit; the returned value
/// finalizes it, likewise. Errors: kDevice; in between also of a peer that
/// gives no sign of life for `timeout_s`, naming it.
Result<std::unique_ptr<ProcessGroup>> make_mpi_process_group(double timeout_s);

/// Ranks that find each other through files `path.*` on storage that all can
/// reach; no such file may be left of an earlier run that failed. Errors: kIo,
/// kDevice (a peer that does not come within `timeout_s`).
Result<std::unique_ptr<ProcessGroup>> make_file_process_group(
    const std::string& path, int rank, int size, double timeout_s);

/// Chooses among the three by the environment: MPI launcher; RANK, WORLD_SIZE
/// and REPRISE_RENDEZVOUS; alone. Errors: kDevice, kInvalid.
Result<std::unique_ptr<ProcessGroup>> make_process_group(double timeout_s);

}  // namespace reprise

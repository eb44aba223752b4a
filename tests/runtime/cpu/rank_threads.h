// Ranks as threads of a test, connected by Gloo.
#pragma once

#include <functional>
#include <memory>

#include "runtime/process/communicator.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// What a rank may use. `called` is of collectives inside loops.
struct RankThread {
  int rank = 0;
  ProcessGroup& group;
  std::unique_ptr<Communicator> communicator, called;
};

/// Runs `body` once a rank, all at the same time.
void run_rank_threads(int ranks, double timeout_s,
                      const std::function<void(RankThread&)>& body);

}  // namespace reprise

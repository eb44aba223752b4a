// Which host calls one kernel of a device serves that was launched behind them
// all: PyTorch's batch_isend_irecv and its coalescing manager describe each
// call by itself (record_param_comms), and launch where the batch ends, in none
// of these ranges. Source: ProcessGroupNCCL::endCoalescing of PyTorch 2.x.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/trace/trace_by_rank.h"
#include "replay/collectives/collective_description.h"

namespace reprise {

class CoalescedCalls {
 public:
  /// `device`, `descriptions`: as those of CollectiveDescriptions. A kernel has
  /// such calls if no range that it was launched in has a description of its
  /// own: those on its thread since the last kernel of the kind, of its own
  /// operation, or of messages where its name tells none.
  CoalescedCalls(const RankEvents& events, std::span<const uint32_t> device,
                 const CollectiveDescriptions& descriptions);

  /// Of device[i], in the order in which they were made; indices of events.
  std::span<const uint32_t> of(size_t i) const { return calls_[i]; }

 private:
  std::vector<std::vector<uint32_t>> calls_;  ///< [i]
};

}  // namespace reprise

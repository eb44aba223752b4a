// What became of a plan's buckets in a recorded run of PyTorch's FSDP2, whose
// groups are of whole modules (`reprise export --as fsdp2`).
//
// A step shows a group by its reduction ("FSDP::post_backward_reduce (blocks.1,
// blocks.2)"), whose copy into the buffer has the shapes of its gradients, and
// a prefetch by "FSDP::forward_prefetch for blocks.1, blocks.2". A trace does
// not say which parameters are a module's, so a group counts as that of the
// bucket that most of its bytes are of; `check` of the exported module knows
// names and is exact.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/plan/plan.h"
#include "data/trace/trace.h"

namespace reprise {

struct FsdpGroup {
  std::string modules;  ///< "blocks.1, blocks.2"; "": the model's.
  std::vector<std::string> shapes = {};  ///< "512x320"; of its gradients.
  bool prefetched_forward = false, prefetched_backward = false;
  bool operator==(const FsdpGroup&) const = default;
};

/// Groups of the last step that has some, in the order of their reductions, of
/// each rank that has such a step. No ranks: not a run of FSDP2.
std::vector<std::vector<FsdpGroup>> fsdp_groups(const Trace& trace);

struct FsdpEffect {
  std::optional<bool> in_effect;  ///< None: shapes were not recorded.
  bool same_gradients = true;     ///< The reduced ones are the planned ones.
  std::string told = {};          ///< A sentence.
};

/// Requires: `plan.trace`; a rank with groups.
FsdpEffect fsdp_effect(const Plan& plan,
                       const std::vector<std::vector<FsdpGroup>>& ranks);

}  // namespace reprise

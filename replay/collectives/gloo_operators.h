// Which operator of PyTorch made which of Gloo's calls. "gloo:all_gather" tells
// of itself what it was handed, the input of one rank; the operator around it
// ("c10d::_allgather_base_") what was asked for, with all its tensors. And a
// reduce-scatter is an all-reduce to Gloo, of which each rank keeps its part,
// and a message says nothing of whom it goes to.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "data/trace/trace_by_rank.h"

namespace reprise {

/// Gloo runs calls on threads of its own in the order of their operators, each
/// begun after its operator was and often ended after it. So they belong
/// together in order, kind by kind, unless sizes speak against it.
class GlooOperators {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// `operators` and `calls`: indices of host events of one rank in
  /// events.trace.events, ascending.
  GlooOperators(const RankEvents& events, std::span<const uint32_t> operators,
                std::span<const uint32_t> calls);

  /// The operator that made the call, of its kind or a reduce-scatter that
  /// Gloo calls an all-reduce; kNone where none is known.
  uint32_t of(uint32_t call) const;

 private:
  std::map<uint32_t, uint32_t> operator_of_;  // By call.
};

bool is_gloo_call(const Trace& trace, const Event& event);
/// Whether the event is an operator that may make one of Gloo's calls.
bool is_gloo_operator(const Trace& trace, const Event& event);

}  // namespace reprise

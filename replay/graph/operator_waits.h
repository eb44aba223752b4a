// Where host threads wait inside their operators. PyTorch's profiler records no
// wait on the CPU: the time lies within whatever operator was open, as if it
// had worked ("_c10d_functional::wait_tensor" of tensor parallelism, the hooks
// of FSDP2 within autograd's ranges, a collective that its caller awaits). XLA
// names its waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// A host thread's shorter pauses are its own.
constexpr int64_t kShortestHostWait = 50'000;

struct OperatorWait {
  int64_t start_ns = 0, end_ns = 0;  ///< Of the rank's own clock.
  uint32_t stream = 0;
  uint32_t event = 0;   ///< The innermost range that waited; an annotation too.
  uint32_t within = 0;  ///< The innermost operator: `event`, or around it.
  /// The collective that was awaited: the last that ended; kNoCollective where
  /// none did, or other work was awaited.
  uint32_t collective = kNoCollective;

  static constexpr uint32_t kNoCollective = UINT32_MAX;
};

/// The waits of one rank, whose events are [first, last) of trace.events, by
/// stream and start; none overlap. A stretch of 50 us or more that is a range's
/// own, none of those within it, is a wait
///   whole, where the range is one that does nothing else;
///   up to the end of the last collective of its process that ended in it, of
///   another thread or posted (is_posted_message), where the range is one of
///   autograd's engine or an annotation within an operator, which both work in
///   others, or where the thread called a collective just before; if one ran
///   for half of that time at least, and the stretch ends within 1 ms, or a
///   tenth of it, of that end: one that goes on worked beside the collective.
/// Of ranks with device work only those with collectives on host threads.
/// **Cost** linear in the rank's events, nearly always.
std::vector<OperatorWait> operator_waits(const Trace& trace, size_t first,
                                         size_t last);

}  // namespace reprise

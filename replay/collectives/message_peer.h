// Whom a message goes to or comes from, as PyTorch or NCCL's call says it
// beside the message.
#pragma once

#include <cstdint>

#include "data/trace/trace.h"

namespace reprise {

/// The rank, in the operator's group, that a "c10d::send" or "c10d::recv_"
/// names by its arguments, a "nccl:send 0->1" or "nccl:recv 1<-0" by itself,
/// NCCL's call ("ncclSend") by its attribute `peer`; -1 of any other event, and
/// where none was recorded.
int32_t peer_named(const Trace& trace, const Event& event);

}  // namespace reprise

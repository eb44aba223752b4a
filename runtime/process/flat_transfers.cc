#include "runtime/process/flat_transfers.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

#include <cstring>

namespace reprise {
namespace {

/// Beside Gloo's own collectives; see gloo/types.h.
constexpr uint8_t kPermuteSlotPrefix = 0x40;

/// Gloo takes what it only reads by the same pointer.
uint8_t* read_only(const void* data) {
  return const_cast<uint8_t*>(static_cast<const uint8_t*>(data));
}

}  // namespace

void ring_all_reduce(const TransferGroup& group, void* data, size_t elements,
                     size_t element_bytes, const ReduceBytes& reduce) {
  gloo::AllreduceOptions options(group.context);
  // Only the element size matters to Gloo: segments end at element borders.
  if (element_bytes == 8) {
    options.setOutput(static_cast<uint64_t*>(data), elements);
  } else if (element_bytes == 4) {
    options.setOutput(static_cast<uint32_t*>(data), elements);
  } else if (element_bytes == 2) {
    options.setOutput(static_cast<uint16_t*>(data), elements);
  } else {
    options.setOutput(static_cast<uint8_t*>(data), elements);
  }
  options.setReduceFunction(reduce);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setTag(group.tag);
  gloo::allreduce(options);
}

void all_gather_parts(const TransferGroup& group, const void* input,
                      void* output, size_t size_bytes) {
  gloo::AllgatherOptions options(group.context);
  options.setInput(read_only(input),
                   size_bytes / static_cast<size_t>(group.context->size));
  options.setOutput(static_cast<uint8_t*>(output), size_bytes);
  options.setTag(group.tag);
  gloo::allgather(options);
}

void exchange_parts(const TransferGroup& group, const void* input, void* output,
                    size_t size_bytes) {
  gloo::AlltoallOptions options(group.context);
  options.setInput(read_only(input), size_bytes);
  options.setOutput(static_cast<uint8_t*>(output), size_bytes);
  options.setTag(group.tag);
  gloo::alltoall(options);
}

void broadcast_bytes(const TransferGroup& group, const void* input,
                     void* output, size_t size_bytes) {
  gloo::BroadcastOptions options(group.context);
  if (group.context->rank == 0) options.setInput(read_only(input), size_bytes);
  options.setOutput(static_cast<uint8_t*>(output), size_bytes);
  options.setRoot(0);
  options.setTag(group.tag);
  gloo::broadcast(options);
}

void send_and_receive(const TransferGroup& group, std::optional<int> target,
                      std::optional<int> source, const void* input,
                      void* output, size_t size_bytes) {
  const int self = group.context->rank;
  if (!source) std::memset(output, 0, size_bytes);
  if (source == self) {
    std::memcpy(output, input, size_bytes);
    return;  // A source has one target.
  }
  const auto slot = gloo::Slot::build(kPermuteSlotPrefix, group.tag);
  const auto in =
      group.context->createUnboundBuffer(read_only(input), size_bytes);
  const auto out = group.context->createUnboundBuffer(output, size_bytes);
  const auto timeout = group.context->getTimeout();
  if (source) out->recv(*source, slot);
  if (target) in->send(*target, slot);
  if (source) out->waitRecv(timeout);
  if (target) in->waitSend(timeout);
}

}  // namespace reprise

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
constexpr uint8_t kArraysSlotPrefix = 0x41;

/// Gloo takes what it only reads by the same pointer.
uint8_t* read_only(const void* data) {
  return const_cast<uint8_t*>(static_cast<const uint8_t*>(data));
}

/// `input_parts`: 1 where every rank gets the same bytes, else one of each
/// rank. Messages of one slot between two ranks come in the order in which they
/// were sent, and both have the arrays in one order.
void move_arrays(const TransferGroup& group,
                 std::span<const TransferArray> arrays, size_t input_parts) {
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  const int self = group.context->rank, ranks = group.context->size;
  const auto slot = gloo::Slot::build(kArraysSlotPrefix, group.tag);
  const auto input_place = [&](int rank, const TransferArray& array) {
    return input_parts == 1 ? 0 : static_cast<size_t>(rank) * array.part_bytes;
  };
  std::vector<Buffer> in, out;
  for (const TransferArray& array : arrays) {
    const size_t part = array.part_bytes;
    in.push_back(group.context->createUnboundBuffer(read_only(array.input),
                                                    input_parts * part));
    out.push_back(group.context->createUnboundBuffer(
        array.output, static_cast<size_t>(ranks) * part));
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == self) continue;
      out.back()->recv(peer, slot, static_cast<size_t>(peer) * part, part);
      in.back()->send(peer, slot, input_place(peer, array), part);
    }
  }
  for (const TransferArray& array : arrays) {
    std::memcpy(
        static_cast<std::byte*>(array.output) +
            static_cast<size_t>(self) * array.part_bytes,
        static_cast<const std::byte*>(array.input) + input_place(self, array),
        array.part_bytes);
  }
  const auto timeout = group.context->getTimeout();
  for (size_t array = 0; array < arrays.size(); ++array) {
    for (int peer = 1; peer < ranks; ++peer) {
      out[array]->waitRecv(timeout);
      in[array]->waitSend(timeout);
    }
  }
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

void all_gather_arrays(const TransferGroup& group,
                       std::span<const TransferArray> arrays) {
  move_arrays(group, arrays, 1);
}

void exchange_arrays(const TransferGroup& group,
                     std::span<const TransferArray> arrays) {
  move_arrays(group, arrays, static_cast<size_t>(group.context->size));
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

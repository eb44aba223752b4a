#include "runtime/process/flat_transfers.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

#include <cstring>
#include <utility>

namespace reprise {
namespace {

/// Beside Gloo's own collectives; see gloo/types.h.
constexpr uint8_t kPermuteSlotPrefix = 0x40;
constexpr uint8_t kArraysSlotPrefix = 0x41;

/// Gloo takes what it only reads by the same pointer.
uint8_t* read_only(const void* data) {
  return const_cast<uint8_t*>(static_cast<const uint8_t*>(data));
}

std::byte* part_of(void* whole, size_t rank, size_t part_bytes) {
  return static_cast<std::byte*>(whole) + rank * part_bytes;
}
const std::byte* part_of(const void* whole, size_t rank, size_t part_bytes) {
  return static_cast<const std::byte*>(whole) + rank * part_bytes;
}

/// `input_parts`: 1 where every rank gets the same bytes, else one of each
/// rank. Messages of one slot between two ranks come in the order in which they
/// were sent, and both have the arrays in one order.
void move_arrays(const TransferGroup& group,
                 std::span<const TransferArray> arrays, size_t input_parts) {
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  const auto self = static_cast<size_t>(group.context->rank);
  const auto ranks = static_cast<size_t>(group.context->size);
  const auto slot = gloo::Slot::build(kArraysSlotPrefix, group.tag);
  const auto input_part = [&](size_t rank) {
    return input_parts == 1 ? 0 : rank;
  };
  std::vector<Buffer> in, out;
  for (const TransferArray& array : arrays) {
    const size_t part = array.part_bytes;
    in.push_back(group.context->createUnboundBuffer(read_only(array.input),
                                                    input_parts * part));
    out.push_back(
        group.context->createUnboundBuffer(array.output, ranks * part));
    for (size_t peer = 0; peer < ranks; ++peer) {
      if (peer == self) continue;
      const int number = static_cast<int>(peer);
      out.back()->recv(number, slot, peer * part, part);
      in.back()->send(number, slot, input_part(peer) * part, part);
    }
  }
  for (const TransferArray& array : arrays) {
    const size_t part = array.part_bytes;
    std::memcpy(part_of(array.output, self, part),
                part_of(array.input, input_part(self), part), part);
  }
  const auto timeout = group.context->getTimeout();
  for (size_t array = 0; array < arrays.size(); ++array) {
    for (size_t peer = 1; peer < ranks; ++peer) {
      out[array]->waitRecv(timeout);
      in[array]->waitSend(timeout);
    }
  }
}

/// Up to so many bytes a part is copied to travel with others: that takes about
/// 1 µs, and a message of its own about 5 µs of each side.
constexpr size_t kMostPackedBytes = 8192;

/// Small arrays as one.
class PackedArrays {
 public:
  PackedArrays(std::vector<TransferArray> arrays, size_t input_parts,
               size_t ranks)
      : arrays_(std::move(arrays)), ranks_(ranks) {
    for (const TransferArray& array : arrays_) bytes_ += array.part_bytes;
    input_.resize(input_parts * bytes_);
    output_.resize(ranks * bytes_);
    each_part(input_parts,
              [&](const TransferArray& array, size_t part, size_t at) {
                std::memcpy(input_.data() + at,
                            part_of(array.input, part, array.part_bytes),
                            array.part_bytes);
              });
  }
  TransferArray whole() { return {input_.data(), output_.data(), bytes_}; }
  void unpack() {
    each_part(ranks_, [&](const TransferArray& array, size_t part, size_t at) {
      std::memcpy(part_of(array.output, part, array.part_bytes),
                  output_.data() + at, array.part_bytes);
    });
  }

 private:
  template <typename Visit>
  void each_part(size_t parts, const Visit& visit) const {
    size_t at = 0;
    for (size_t part = 0; part < parts; ++part) {
      for (const TransferArray& array : arrays_) {
        visit(array, part, at);
        at += array.part_bytes;
      }
    }
  }

  const std::vector<TransferArray> arrays_;
  const size_t ranks_;
  size_t bytes_ = 0;  ///< Of a part of all.
  std::vector<std::byte> input_, output_;
};

void pack_and_move(const TransferGroup& group,
                   std::span<const TransferArray> arrays, size_t input_parts) {
  std::vector<TransferArray> moved, small;
  for (const TransferArray& array : arrays)
    (array.part_bytes <= kMostPackedBytes ? small : moved).push_back(array);
  PackedArrays packed(std::move(small), input_parts,
                      static_cast<size_t>(group.context->size));
  if (packed.whole().part_bytes > 0) moved.push_back(packed.whole());
  move_arrays(group, moved, input_parts);
  packed.unpack();
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
  pack_and_move(group, arrays, 1);
}

void exchange_arrays(const TransferGroup& group,
                     std::span<const TransferArray> arrays) {
  pack_and_move(group, arrays, static_cast<size_t>(group.context->size));
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

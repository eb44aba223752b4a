// What ranks exchange in one collective, over a Gloo context whose ranks are
// the members. Bytes are flat: part i of a buffer is rank i's.
#pragma once

#include <gloo/context.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace reprise {

/// Members and the tag by which their messages find each other: calls of
/// different tags never meet.
struct TransferGroup {
  std::shared_ptr<gloo::Context> context;
  uint32_t tag = 0;
};

using ReduceBytes =
    std::function<void(void*, const void*, const void*, size_t elements)>;

/// One of several arrays that ranks gather or exchange at once.
struct TransferArray {
  const void* input = nullptr;
  void* output = nullptr;
  size_t part_bytes = 0;  ///< Of one rank.
};

// All throw gloo::IoException when a peer is lost or silent. Sizes are of the
// larger of the two buffers.
void ring_all_reduce(const TransferGroup& group, void* data, size_t elements,
                     size_t element_bytes, const ReduceBytes& reduce);
void all_gather_parts(const TransferGroup& group, const void* input,
                      void* output, size_t size_bytes);
void exchange_parts(const TransferGroup& group, const void* input, void* output,
                    size_t size_bytes);
/// Of several arrays all messages are on their way before one is waited for, so
/// together they take one latency.
void all_gather_arrays(const TransferGroup& group,
                       std::span<const TransferArray> arrays);
void exchange_arrays(const TransferGroup& group,
                     std::span<const TransferArray> arrays);
/// From rank 0 of the group.
void broadcast_bytes(const TransferGroup& group, const void* input,
                     void* output, size_t size_bytes);
/// Sends to `target`, receives from `source`; zeros where there is none.
void send_and_receive(const TransferGroup& group, std::optional<int> target,
                      std::optional<int> source, const void* input,
                      void* output, size_t size_bytes);

}  // namespace reprise

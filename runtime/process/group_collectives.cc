#include "runtime/process/group_collectives.h"

#include <gloo/math.h>

#include <cstring>
#include <utility>

namespace reprise {
namespace {

/// Up to so many bytes a part goes to all others at once: one round of
/// messages, where Gloo's rings take ranks - 1 or twice as many, of two or
/// more segments each. A round costs tens of microseconds, as much as 8 KiB
/// on 1 Gbit/s; Open MPI's tuned all-reduce leaves its ring's like at 10,000
/// bytes (coll_tuned_decision_fixed.c).
constexpr size_t kMostDirectBytes = 8192;

template <typename T>
ReduceBytes reduction_of(Reduction reduction) {
  using Function = void (*)(void*, const void*, const void*, size_t);
  switch (reduction) {
    case Reduction::kSum:
      return static_cast<Function>(&gloo::sum<T>);
    case Reduction::kMax:
      return static_cast<Function>(&gloo::max<T>);
    case Reduction::kMin:
      return static_cast<Function>(&gloo::min<T>);
    case Reduction::kProduct:
      return static_cast<Function>(&gloo::product<T>);
  }
  return nullptr;
}

/// Of parts that lie one behind the other, in their order.
void reduce_parts(std::span<const std::byte> parts, size_t elements,
                  size_t part_bytes, const ReduceBytes& reduce, void* result) {
  std::memcpy(result, parts.data(), part_bytes);
  for (size_t at = part_bytes; at < parts.size(); at += part_bytes)
    reduce(result, result, parts.data() + at, elements);
}

/// Of two ranks' elements either order rounds once.
CombineFunction combine_of(const TransferGroup& group,
                           const CollectiveSpec& spec) {
  return group.context->size > 2 ? combine_function(spec.type, spec.reduction)
                                 : nullptr;
}

/// Of parts of all ranks, `elements` each.
void reduce_in_order(const TransferGroup& group, const CollectiveSpec& spec,
                     std::span<const std::byte> parts, size_t elements,
                     void* result) {
  const auto ranks = static_cast<size_t>(group.context->size);
  if (const CombineFunction combine = combine_of(group, spec))
    return combine(result, parts.data(), ranks, elements);
  reduce_parts(parts, elements, parts.size() / ranks,
               gloo_function(spec.type, spec.reduction), result);
}

}  // namespace

ReduceBytes gloo_function(PrimitiveType type, Reduction reduction) {
  switch (type) {
    case PrimitiveType::kF32:
      return reduction_of<float>(reduction);
    case PrimitiveType::kF64:
      return reduction_of<double>(reduction);
    case PrimitiveType::kS32:
      return reduction_of<int32_t>(reduction);
    case PrimitiveType::kS64:
      return reduction_of<int64_t>(reduction);
    case PrimitiveType::kU8:
      return reduction_of<uint8_t>(reduction);
    case PrimitiveType::kS8:
      return reduction_of<int8_t>(reduction);
    default:
      if (const ReduceFunction own = reduce_function(type, reduction))
        return own;
      return nullptr;
  }
}

void GroupCollectives::all_reduce(const TransferGroup& group,
                                  const CollectiveSpec& spec, void* data) {
  const auto elements = static_cast<size_t>(spec.elements);
  const auto element_bytes =
      static_cast<size_t>(primitive_type_bits(spec.type) / 8);
  if (const CombineFunction combine = combine_of(group, spec))
    return all_reduce_in_order(group, data, elements, combine);
  const ReduceBytes reduce = gloo_function(spec.type, spec.reduction);
  if (elements * element_bytes <= kMostDirectBytes) {
    all_reduce_directly(group, data, elements, element_bytes, reduce);
  } else {
    ring_all_reduce(group, data, elements, element_bytes, reduce);
  }
}

/// What all ranks give, part after part: every rank gives `bytes` to all.
void GroupCollectives::give_to_all(const TransferGroup& group, const void* data,
                                   size_t bytes, void* received) {
  const auto ranks = static_cast<size_t>(group.context->size);
  copies_.resize(ranks * bytes);
  for (size_t rank = 0; rank < ranks; ++rank)
    std::memcpy(copies_.data() + rank * bytes, data, bytes);
  exchange_parts(group, copies_.data(), received, copies_.size());
}

void GroupCollectives::all_gather(const TransferGroup& group, const void* input,
                                  void* output, size_t size_bytes) {
  const size_t part = size_bytes / static_cast<size_t>(group.context->size);
  if (part > kMostDirectBytes)
    return all_gather_parts(group, input, output, size_bytes);
  give_to_all(group, input, part, output);
}

void GroupCollectives::all_reduce_directly(const TransferGroup& group,
                                           void* data, size_t elements,
                                           size_t element_bytes,
                                           const ReduceBytes& reduce) {
  const size_t bytes = elements * element_bytes;
  scratch_.resize(static_cast<size_t>(group.context->size) * bytes);
  give_to_all(group, data, bytes, scratch_.data());
  reduce_parts(scratch_, elements, bytes, reduce, data);
}

/// Each rank combines one part of all ranks' elements, of two bytes each, and
/// gives it to the others: as many bytes on the wire as a ring sends.
void GroupCollectives::all_reduce_in_order(const TransferGroup& group,
                                           void* data, size_t elements,
                                           CombineFunction combine) {
  const auto ranks = static_cast<size_t>(group.context->size);
  const size_t part = (elements + ranks - 1) / ranks;
  const size_t bytes = 2 * part * ranks;
  scratch_.assign(2 * bytes, std::byte{0});
  std::byte* const received = scratch_.data() + bytes;
  std::memcpy(scratch_.data(), data, 2 * elements);
  exchange_parts(group, scratch_.data(), received, bytes);
  combine(scratch_.data(), received, ranks, part);
  all_gather_parts(group, scratch_.data(), received, bytes);
  std::memcpy(data, received, 2 * elements);
}

/// Gloo has none: each rank gets all ranks' elements of its own part, as many
/// bytes as a ring sends, and reduces them in the order of ranks.
void GroupCollectives::reduce_scatter(const TransferGroup& group,
                                      const CollectiveSpec& spec,
                                      const void* input, void* output) {
  const auto ranks = static_cast<size_t>(group.context->size);
  const size_t elements = static_cast<size_t>(spec.elements) / ranks;
  scratch_.resize(static_cast<size_t>(spec.bytes));
  exchange_parts(group, input, scratch_.data(), scratch_.size());
  reduce_in_order(group, spec, scratch_, elements, output);
}

void GroupCollectives::reduce_scatter_arrays(
    const TransferGroup& group, const CollectiveSpec& spec,
    std::vector<TransferArray>& arrays) {
  const auto ranks = static_cast<size_t>(group.context->size);
  const auto element_bytes =
      static_cast<size_t>(primitive_type_bits(spec.type) / 8);
  scratch_.resize(static_cast<size_t>(spec.bytes));
  std::vector<void*> results;
  std::byte* received = scratch_.data();
  for (TransferArray& array : arrays) {
    results.push_back(std::exchange(array.output, received));
    received += ranks * array.part_bytes;
  }
  exchange_arrays(group, arrays);
  for (size_t a = 0; a < arrays.size(); ++a) {
    reduce_in_order(group, spec,
                    {static_cast<const std::byte*>(arrays[a].output),
                     ranks * arrays[a].part_bytes},
                    arrays[a].part_bytes / element_bytes, results[a]);
  }
}

}  // namespace reprise

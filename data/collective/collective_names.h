// Collectives and element types as NCCL, RCCL, PyTorch, Chakra and others spell
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/collective/collective.h"
#include "data/primitive_type.h"

namespace reprise {

/// The kind of "AllReduce", "ncclAllReduce", "c10d::allreduce_",
/// "nccl:all_reduce", "_allgather_base", "ALL_REDUCE", "all_reduce_perf" or a
/// kernel's name; kUnknown if it does not tell (NCCL's SendRecv kernels, which
/// serve all-to-all too; RCCL's generic one).
CollectiveKind collective_named(std::string_view name);

/// Whether any operation is named, a telling one or not.
bool names_any_collective(std::string_view name);

/// The kind of a kernel in which ranks meet through each other's memory,
/// without a library of collectives: of PyTorch's symmetric memory, vLLM and
/// SGLang, TensorRT-LLM and FlashInfer, DeepEP, Transformer Engine's user
/// buffers. None for others' names. Source: their repositories, December 2025.
std::optional<CollectiveKind> kind_of_peer_memory_kernel(std::string_view name);

/// The type of "ncclFloat32", "float", "Float", "Tensor(float)", "half",
/// "c10::BFloat16", "long int" …; none if unknown.
std::optional<PrimitiveType> element_type_named(std::string_view name);

/// Its name, "" of none.
std::string_view name_of(std::optional<PrimitiveType> type);

/// Bytes of an element, a started byte counted whole; 0 of none.
int64_t element_bytes(std::optional<PrimitiveType> type);

}  // namespace reprise

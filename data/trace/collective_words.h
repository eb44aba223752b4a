// Collectives and element types as NCCL, RCCL, PyTorch, Chakra and others spell
// them, in the words of CollectiveInfo.
#pragma once

#include <cstdint>
#include <string_view>

namespace reprise {

/// The word of CollectiveInfo::op for "AllReduce", "ncclAllReduce",
/// "c10d::allreduce_", "nccl:all_reduce", "_allgather_base", "ALL_REDUCE",
/// "all_reduce_perf" or a kernel's name; "" if it does not tell (NCCL's
/// SendRecv kernels, which serve all-to-all too; RCCL's generic one).
std::string_view collective_word(std::string_view name);

/// Whether any operation is named, a telling one or not.
bool holds_collective_word(std::string_view name);

/// The HLO type for "ncclFloat32", "float", "Float", "Tensor(float)", "half",
/// "c10::BFloat16", "long int" …; "" if unknown.
std::string_view hlo_type_word(std::string_view name);

/// Bytes of an element of an HLO type; 0 if unknown.
int64_t bytes_of_type(std::string_view hlo_type);

}  // namespace reprise

// Collectives and element types as NCCL, PyTorch and Chakra spell them, in the
// words of the trace store; and measured collectives as cost points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

/// The word of CollectiveInfo::op for "AllReduce", "ncclAllReduce",
/// "c10d::allreduce_", "nccl:all_reduce", "_allgather_base", "ALL_REDUCE",
/// "all_reduce_perf" or a kernel's name; "" if it does not tell (NCCL's
/// SendRecv kernels, RCCL's generic one).
std::string_view collective_word(std::string_view name);

/// The HLO type for "ncclFloat32", "float", "Float", "Tensor(float)", "half",
/// "c10::BFloat16", "long int" …; "" if unknown.
std::string_view hlo_type_word(std::string_view name);

/// Bytes of an element of an HLO type; 0 if unknown.
int64_t bytes_of_type(std::string_view hlo_type);

/// Key of a measured collective: "collective:all-reduce:8:1048576:f32". Bytes
/// as nccl-tests count them: of the larger of a rank's two buffers.
std::string collective_key(std::string_view op, int64_t group_size,
                           int64_t bytes, std::string_view hlo_type);

/// The same for people: "all-reduce 1 MiB, 8 ranks".
std::string collective_title(std::string_view op, int64_t group_size,
                             int64_t bytes);

}  // namespace reprise

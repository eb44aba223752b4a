// What the names of kernels and calls say of NCCL's and RCCL's operations;
// several profilers write them.
#pragma once

#include <optional>
#include <string_view>

#include "data/trace/trace.h"

namespace reprise {

/// Whether a kernel is NCCL's or RCCL's: by prefix ("ncclDevKernel_…"), after
/// "void "; a name that only contains "nccl" is not.
bool is_nccl_kernel(std::string_view name);
/// "ncclDevKernel_AllReduce_Sum_f16_RING_LL(…)" -> all-reduce and f16. The kind
/// of kernels that serve several operations (SendRecv, Generic) is unknown.
CollectiveInfo describe_nccl_kernel(std::string_view name);
/// As describe_nccl_kernel, and of kernels that meet through each other's
/// memory their kind; none of kernels that are no collective's.
std::optional<CollectiveInfo> describe_collective_kernel(std::string_view name);
/// "ncclAllReduce" -> all-reduce, "nccl:all_to_all" (PyTorch's) -> all-to-all;
/// kUnknown if the name is no call of one operation.
CollectiveKind kind_of_nccl_call(std::string_view name);

}  // namespace reprise

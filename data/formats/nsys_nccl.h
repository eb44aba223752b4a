// What an Nsight Systems export says of NCCL: names of kernels and calls, and
// the typed NVTX payloads of calls (NCCL 2.26 or later, exported with blobs).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/formats/nsys_database.h"
#include "data/trace/trace.h"

namespace reprise {

/// Whether a kernel is NCCL's or RCCL's: by prefix ("ncclDevKernel_…"), after
/// "void "; a name that only contains "nccl" is not.
bool is_nccl_kernel(std::string_view name);
/// "ncclDevKernel_AllReduce_Sum_f16_RING_LL(…)" -> "all-reduce" and "f16". For
/// kernels that serve several operations (SendRecv, Generic), op is "".
CollectiveInfo describe_nccl_kernel(std::string_view name);
/// "ncclAllReduce" -> "all-reduce", "nccl:all_to_all" (PyTorch's) ->
/// "all-to-all"; "" if the name is no call of one operation.
std::string_view operation_of_nccl_call(std::string_view name);

/// The fields of one call's payload; -1: absent.
struct NcclPayload {
  std::optional<uint64_t> communicator;
  int64_t bytes = -1;
  int64_t peer = -1;
  int64_t ranks = -1;  ///< Of the communicator.
  int64_t rank = -1;   ///< In the communicator.
};

/// The schemas of an export's payloads.
class NcclPayloads {
 public:
  void read_schemas(NsysDatabase& database);
  /// Of NVTX_EVENTS.binaryData; empty when no schema fits it.
  std::optional<NcclPayload> decode(int64_t domain,
                                    std::string_view blob) const;

 private:
  enum class Field : uint8_t { kCommunicator, kBytes, kPeer, kRanks, kRank };
  struct Entry {
    Field field;
    uint64_t offset;
    size_t size;
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<Entry>> schemas_;
};

}  // namespace reprise

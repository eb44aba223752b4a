// What an Nsight Systems export says of NCCL beside names: the typed NVTX
// payloads of calls (NCCL 2.26 or later, exported with blobs).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/formats/nsys/nsys_database.h"

namespace reprise {

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

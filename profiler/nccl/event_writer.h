// Ended NCCL events as records of the process shard. Runs on the shard's
// writer, never on a thread of NCCL's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "profiler/nccl/event_pool.h"
#include "profiler/process_recorder.h"

namespace reprise {

/// Ids of NCCL's events start here in a shard, so that CUPTI's correlations
/// and a trainer's units, all smaller, are never mistaken for them.
inline constexpr int64_t kFirstNcclId = int64_t{1} << 40;

/// One communicator of this process.
struct NcclCommunicatorInfo {
  uint64_t hash = 0;                          ///< The same on all of its ranks.
  std::string name;                           ///< The user's; often empty.
  int32_t rank = -1, ranks = -1, nodes = -1;  ///< -1: unknown.
};

/// The shard's id of an event's number; -1 for 0.
int64_t nccl_record_id(uint64_t id);

/// The hash as its name in a shard: "0x1f2e…".
std::string nccl_communicator_name(uint64_t hash);

/// Bytes of an element, 0 if unknown. "Unknown" is what NCCL 2.28 calls
/// ncclUint8 (src/collectives.cc, ncclDatatypeToString).
int64_t nccl_element_bytes(std::string_view data_type);

/// A JSON object, member by member. Members that say nothing are left out.
class InfoText {
 public:
  void add(std::string_view key, std::string_view text);
  /// Left out below 0.
  void add(std::string_view key, int64_t number);
  void add_address(std::string_view key, uint64_t address);
  void add(const NcclCommunicatorInfo& communicator);
  std::string take() { return members_.empty() ? "" : members_ + "}"; }

 private:
  void begin(std::string_view key);
  std::string members_;
};

/// Records one event:
/// - collectives and point-to-point calls as kCollective: times of the host's
///   enqueue, external_id the host program's call, graph_node the group (of
///   one kernel) it was launched with, both as correlations of kRange records;
/// - calls of the host program and groups as kRange;
/// - a proxy operation and its steps as kNetworkStep, and what each step
///   waited for as further ones with no bytes (NetworkStepPart in `flags`);
/// - a channel of a kernel as kDeviceTimer, in ns of the device's timer (-1
///   where that is missing); `sequence` is when the host saw its end, in ns of
///   CLOCK_MONOTONIC.
void write_nccl_event(const NcclEvent& event, ProcessRecorder& recorder);

}  // namespace reprise

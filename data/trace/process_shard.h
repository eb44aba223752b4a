// A process shard: what one process recorded of itself, by the injection
// library, the NCCL plugin or the NCCL interposer. Append-only and checksummed
// segment by segment, so that a killed process loses at most its last segment.
// Here is its layout, shared by the writer (profiler/process_recorder.h) and
// the reader (data/formats/process_shard/process_shard_reader.h);
// data/trace/format.md has the words. Little-endian; structs are written as
// they lie.
#pragma once

#include <cstdint>
#include <string_view>

namespace reprise {

inline constexpr std::string_view kProcessShardMagic = "RPRPROCS";
inline constexpr uint32_t kProcessShardVersion = 1;

/// The file starts with this, then segments follow.
struct ProcessShardStart {
  char magic[8];  ///< kProcessShardMagic.
  uint32_t version = kProcessShardVersion;
  uint32_t reserved = 0;
};
static_assert(sizeof(ProcessShardStart) == 16);

enum class ProcessSegment : uint32_t {
  /// JSON: host, process, parent, boot_id, rank, ranks, local_rank (-1
  /// unknown), program, arguments[], source, image (1; 2 and more: the process
  /// ran another program by exec; HOST.PID.SOURCE.2.shard), start_ns,
  /// epoch_offset_ns (CLOCK_REALTIME - MONOTONIC).
  kHeader = 1,
  /// u32 first id, u32 count, then count times (u32 length, bytes). Id 0 is ""
  /// and never written. Before first use.
  kStrings = 2,
  kRecords = 3,  ///< ProcessRecord, one after the other.
  kNotes = 4,    ///< JSON object of strings: "cupti": "version 130001", …
  kEnd = 5,      ///< JSON: end_ns, lost{reason: count}.
};

struct ProcessSegmentHeader {
  uint32_t magic = 0x47455350;  ///< "PSEG"
  ProcessSegment kind{};
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  uint32_t header_crc = 0;  ///< CRC-32 of the four fields above.
};
static_assert(sizeof(ProcessSegmentHeader) == 20);

/// What a record is. Where no clock is named, times are CLOCK_MONOTONIC, ns.
enum class RecordKind : uint8_t {
  kKernel = 1,  ///< On a device stream.
  kCopy,        ///< Device-side memory copy.
  kMemset,      ///< Device-side memory set.
  kCall,        ///< Driver or runtime call on a host thread.
  /// As kCall, of a graph: its correlation is that of all its nodes' records.
  kGraphLaunch,
  kSynchronization,  ///< As SynchronizationInfo; `info` says which.
  /// NVTX range, on a host thread; flags 1: a start/end range, which need not
  /// nest.
  kRange,
  kMark,      ///< NVTX mark, on a host thread.
  kOverhead,  ///< Of the profiler.
  kExternal,  ///< Ties `correlation` to `external_id`; no times.
  /// `graph_node` was created under `external_id` and under the NVTX range
  /// `name`, or is a clone of node `sequence` (then external_id is -1). Of a
  /// node with both records the clone's counts.
  kGraphNode,
  /// NCCL collective or point-to-point: host enqueue. `graph_node` is the
  /// correlation of the group (kRange) that one kernel ran, `external_id` that
  /// of the host program's call (kRange), where these were recorded.
  kCollective,
  kNetworkStep,  ///< One proxy step of a collective: bytes on the wire.
  /// A channel of an NCCL kernel in ns of the GPU's global timer, another clock
  /// than all others; -1 where that is missing. `sequence` is when the host saw
  /// its end.
  kDeviceTimer,
  /// A training step: `sequence` is its number, `flags` 1 if it is warm-up.
  kStep,
};

/// `flags` of a kNetworkStep. Only transfers have bytes; operations and waits
/// lie around and within them.
enum NetworkStepPart : uint16_t {
  kNetworkTransfer = 0,   ///< One step, `sequence` its number.
  kNetworkOperation = 1,  ///< All steps of one channel and direction.
  kNetworkWait = 2,       ///< Part of a step: its name says for what.
};

/// Of `flags` of a kCollective or a kRange of NCCL's: made outside the window
/// that is recorded, and kept only to tell what replays of a graph run.
inline constexpr uint16_t kOutsideWindow = 1 << 15;

/// One record; -1 (or 0 for string ids) where a field says nothing.
struct ProcessRecord {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  /// Launch to device work. NCCL: own id of a call, the same in its steps and
  /// timers.
  int64_t correlation = -1;
  int64_t external_id = -1;  ///< Unit or op it belongs to.
  int64_t graph_node = -1;
  int64_t bytes = 0;    ///< Payload of this rank.
  int64_t stream = -1;  ///< Device stream's id; host thread's system id.
  /// Collective: place in its communicator. Synchronization: id of the event
  /// waited for.
  int64_t sequence = -1;
  uint32_t name = 0;  ///< String.
  /// String: a JSON object with what no field holds. Collective: op,
  /// communicator, data_type, count, rank, ranks, root or peer, algorithm,
  /// protocol, channels, … Synchronization: kind ("event", "stream-wait",
  /// "stream", "device"), waited_stream, waited_correlation. Copy: kind.
  uint32_t info = 0;
  int32_t device = -1;  ///< Ordinal of the device; -1: a host thread.
  RecordKind kind{};
  uint8_t reserved = 0;
  uint16_t flags = 0;
};
static_assert(sizeof(ProcessRecord) == 80);

}  // namespace reprise

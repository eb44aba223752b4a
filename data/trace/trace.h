// A trace in memory: what ran when, on which rank and stream, with everything
// needed to replay it. Times are integer nanoseconds of the clock named by the
// rank's clock domain; `align_clocks` in replay maps them to rank 0's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/collective/collective.h"
#include "data/integers.h"
#include "data/primitive_type.h"
#include "data/result.h"

namespace reprise {

/// Index in Trace::strings.
enum class StringId : uint32_t {};
constexpr uint32_t index_of(StringId id) { return static_cast<uint32_t>(id); }

/// Begins the name of device work that is a launch of a CUDA graph traced
/// whole: of what ran inside nothing is known, waits for other ranks included.
constexpr std::string_view kWholeGraph = "CUDA graph ";

enum class EventKind : uint8_t {
  kCompute,  ///< A unit on a compute stream; a kernel on a device stream.
  /// A collective or point-to-point operation, on a communication or device
  /// stream (or a host thread: Gloo).
  kCollective,
  kFeed,  ///< Filling the batch tensors.
  kWait,  ///< The compute stream waiting for a collective (host side).
  kOther,
  // Of imported traces.
  kCopy,             ///< Memory copy on a device stream.
  kMemset,           ///< Memory set on a device stream.
  kHostOp,           ///< An operator of the framework on a host thread.
  kRuntime,          ///< A driver or runtime call on a host thread: launches.
  kSynchronization,  ///< A recorded wait of a host thread or a device stream.
  kAnnotation,       ///< A range set by the user or the framework; steps too.
  kOverhead,         ///< Of the profiler itself.
};
constexpr EventKind kLastEventKind = EventKind::kOverhead;

/// Returns the kind's word: "compute", "collective", … "host-op", "runtime",
/// "synchronization", "annotation", "overhead".
std::string_view name_of(EventKind kind);

/// One event of one stream of one rank.
struct Event {
  uint32_t rank = 0;
  uint32_t stream = 0;  ///< Index in Trace::streams.
  EventKind kind = EventKind::kCompute;
  int32_t step = -1;  ///< Step number, -1 outside steps.
  int32_t unit = -1;  ///< Place in the embedded schedule, -1 if none.
  StringId name{};
  int64_t enqueue_ns = 0;  ///< Handed to its stream; start_ns if unknown.
  int64_t start_ns = 0;
  int64_t end_ns = 0;  ///< Never before start_ns.
  int64_t bytes = 0;   ///< Payload of a collective or copy, of this rank.
  /// Our trainer: sequence of a collective in its communicator. Imported: ties
  /// a launch (kRuntime) to the device work that it started (one to many).
  int64_t correlation = -1;
  /// Of a host op, and of device work it caused; of a node that dependencies
  /// name.
  int64_t external_id = -1;
  int64_t graph_node = -1;  ///< Node of a replayed CUDA/HIP graph.
  int64_t sequence = -1;    ///< Recorded place in the communicator (imported).
  /// Index in Trace::collectives (kCollective and host ops that describe one)
  /// or Trace::synchronizations (kSynchronization).
  int32_t detail = -1;
  /// Index in Trace::strings of a JSON object with what no column holds
  /// ("input_dims").
  int32_t attributes = -1;
  bool operator==(const Event&) const = default;
};

/// One distinct signature of a collective or point-to-point call, as recorded;
/// what is unknown stays at its default.
struct CollectiveInfo {
  CollectiveKind kind = CollectiveKind::kUnknown;
  std::string communicator = {};  ///< Process group's or communicator's name.
  std::optional<PrimitiveType> type = std::nullopt;  ///< Of an element.
  std::vector<uint32_t> group =
      {};  ///< Global ranks, ascending; empty: unknown.
  int64_t group_size = -1;
  int64_t input_elements = -1, output_elements = -1;  ///< Of this rank.
  int32_t peer = -1;  ///< Global rank of a send's or receive's other side.
  /// What a file calls a kind (then kOther) or a type that we do not know.
  std::string other_kind = {}, other_type = {};
  bool operator==(const CollectiveInfo&) const = default;
};

enum class SynchronizationKind : uint8_t {
  kUnknown,
  kEvent,       ///< A host thread waits for a recorded event.
  kStreamWait,  ///< A device stream waits for a recorded event.
  kStream,      ///< A host thread waits for a stream.
  kDevice,      ///< A host thread waits for the device or context.
};
constexpr SynchronizationKind kLastSynchronizationKind =
    SynchronizationKind::kDevice;

/// One distinct recorded synchronization; -1: unknown.
struct SynchronizationInfo {
  SynchronizationKind kind = SynchronizationKind::kUnknown;
  int64_t stream = -1;  ///< The stream that waits, or that is waited for.
  int64_t waited_stream = -1;       ///< Where the awaited event was recorded.
  int64_t waited_correlation = -1;  ///< The call that recorded that event.
  bool operator==(const SynchronizationInfo&) const = default;
};

/// A recorded dependency between two events of one rank, by external_id.
struct EventDependency {
  uint32_t rank = 0;
  int64_t before = -1, after = -1;
  bool operator==(const EventDependency&) const = default;
};

/// Start and end of one step on one rank. Recorded warm-up steps have `warmup`.
struct StepMark {
  uint32_t rank = 0;
  int32_t step = 0;
  int64_t start_ns = 0, end_ns = 0;
  bool warmup = false;
  /// At most the largest number, whatever a file says.
  int64_t time_ns() const { return saturating_subtract(end_ns, start_ns); }
  bool operator==(const StepMark&) const = default;
};

enum class StreamKind : uint8_t {
  kTrainer,       ///< A stream of our own trainer.
  kHostThread,    ///< `number` is the thread's id.
  kDeviceStream,  ///< `number` is the stream's id on `device`.
  kTensor,        ///< A row that a timeline keeps for one tensor or queue.
};
constexpr StreamKind kLastStreamKind = StreamKind::kTensor;

/// Returns the kind's word: "trainer", "host-thread", "device-stream",
/// "tensor".
std::string_view name_of(StreamKind kind);

/// Where events happen. Process, device and stream are three different things.
struct StreamInfo {
  uint32_t rank = 0;
  std::string name;  ///< "compute", "communication", "stream 7", "thread 12".
  StreamKind kind = StreamKind::kTrainer;
  int64_t process = 0;  ///< pid; 0: the rank's.
  int32_t device = -1;  ///< Ordinal of the device on its host; -1: none.
  int64_t number = -1;
  bool operator==(const StreamInfo&) const = default;
};

/// One rank. With t a time of its clock, rank 0's time is
/// t + clock_offset_ns + clock_drift_ppm * 1e-6 * (t - clock_reference_ns).
struct RankInfo {
  uint32_t rank = 0;
  std::string host;
  int64_t process = 0;  ///< pid.
  std::string device;   ///< "cpu".
  int64_t clock_offset_ns = 0;
  double clock_drift_ppm = 0;  ///< From offsets at start and end of the run.
  int64_t clock_reference_ns = 0;  ///< When the offset was measured.
  int64_t clock_residual_ns = 0;   ///< Half the round trip of the measurement.
  /// What the rank's times count from: "monotonic" (our trainer), "epoch",
  /// "capture", "" (unknown), "none" (durations and dependencies only).
  std::string clock_domain = "monotonic";
  bool operator==(const RankInfo&) const = default;
};

/// Returns rank 0's time for a time of this rank's clock.
int64_t to_rank0_ns(const RankInfo& rank, int64_t time_ns);

/// Measured cost of one unit outside a normal run (`calibrate`).
struct Measurement {
  std::string key;      ///< Structural key of the unit.
  std::string unit;     ///< Name for people.
  std::string context;  ///< "in-schedule, no communication".
  int64_t median_ns = 0;
  int64_t spread_ns = 0;  ///< Inter-quartile range.
  int64_t samples = 0;
  bool operator==(const Measurement&) const = default;
};

struct Trace {
  std::string program_text;  ///< HLO it ran, empty for imported traces.
  std::string manifest_text;
  std::string plan_text;
  std::map<std::string, std::string> environment;
  std::vector<std::string> strings;
  std::vector<RankInfo> ranks;
  std::vector<StreamInfo> streams;
  std::vector<Event> events;    ///< Sorted by (rank, start_ns, stream).
  std::vector<StepMark> steps;  ///< Sorted by (rank, step).
  std::vector<CollectiveInfo> collectives;
  std::vector<SynchronizationInfo> synchronizations;
  std::vector<EventDependency> dependencies;   ///< Sorted; of imported graphs.
  std::map<std::string, std::string> modules;  ///< Imported HLO, by name.
  std::string import_text;  ///< reprise.import/1 of an imported trace.
  std::vector<Measurement> measurements;
  std::vector<std::string> warnings;  ///< "rank 1: last segment lost (…)" …

  bool operator==(const Trace&) const = default;
  const std::string& text(StringId id) const { return strings[index_of(id)]; }
};

/// Writes one SQLite file (data/trace/format.md) under a temporary name and
/// renames it. Errors: kIo (disk full …).
Status write_trace(const Trace& trace, const std::string& path);

/// Reads it back, read-only, trusted_schema off, every checksum checked.
/// Errors: kIo; kParse (not a trace, cut in half, checksum: where);
/// kUnsupported (newer schema).
Result<Trace> read_trace(const std::string& path);

/// read_trace for bytes in memory; `file` names them in errors.
Result<Trace> parse_trace(std::string bytes, const std::string& file);

}  // namespace reprise

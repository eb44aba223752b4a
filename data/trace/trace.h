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

#include "data/result.h"

namespace reprise {

/// Index in Trace::strings.
enum class StringId : uint32_t {};
constexpr uint32_t index_of(StringId id) { return static_cast<uint32_t>(id); }

enum class EventKind : uint8_t {
  kCompute,     ///< A unit on a compute stream.
  kCollective,  ///< A collective on a communication stream.
  kFeed,        ///< Filling the batch tensors.
  kWait,        ///< The compute stream waiting for a collective (host side).
  kOther,
};

/// Returns the kind's word: "compute", "collective", "feed", "wait", "other".
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
  int64_t end_ns = 0;        ///< Never before start_ns.
  int64_t bytes = 0;         ///< Collectives: payload of the bucket.
  int64_t correlation = -1;  ///< Collectives: sequence in the communicator.
  bool operator==(const Event&) const = default;
};

/// Start and end of one step on one rank. Recorded warm-up steps have `warmup`.
struct StepMark {
  uint32_t rank = 0;
  int32_t step = 0;
  int64_t start_ns = 0, end_ns = 0;
  bool warmup = false;
  bool operator==(const StepMark&) const = default;
};

struct StreamInfo {
  uint32_t rank = 0;
  std::string name;  ///< "compute", "communication".
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

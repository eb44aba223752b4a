// Timelines as Chrome trace JSON, in the common ground of Perfetto, the
// Catapult viewer, Chromium's DevTools and speedscope: small integer ids, times
// from 1 us on, no partial overlap within a thread, unique flows.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "data/file.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// What a viewer shows: processes (one a rank, or rank and side), their tracks,
/// slices on tracks, and arrows between slices. Built by the add functions, in
/// order of display.
class ChromeTimeline {
 public:
  struct Argument {
    std::string_view key;  ///< Of static storage: "bytes".
    std::variant<int64_t, double, std::string> value;
  };

  /// Adds a process ("rank 0 measured"); returns its place.
  uint32_t add_process(std::string name);
  /// Adds a track ("compute") to a process; returns its place. Requires: the
  /// process exists.
  uint32_t add_track(uint32_t process, std::string name);
  /// Adds a slice; returns its place. Times of all slices are of one clock.
  /// Requires: the track exists and start_ns <= end_ns.
  uint32_t add_slice(uint32_t track, std::string_view name,
                     std::string_view category, int64_t start_ns,
                     int64_t end_ns, std::vector<Argument> arguments = {});
  /// Adds an arrow from the end of one slice to the start of another, such as
  /// an edge of the critical path. Requires: both exist.
  void add_flow(uint32_t from, uint32_t to);
  /// Adds a line to the file's metadata, below those under the same key.
  void add_note(const std::string& key, const std::string& value) {
    std::string& note = notes_[key];
    if (!note.empty()) note += '\n';
    note += value;
  }

  /// Returns the JSON text; the same timeline gives the same bytes.
  std::string json() const;

 private:
  struct Track {
    uint32_t process = 0;
    std::string name;
  };
  struct Slice {
    uint32_t track = 0;
    StringId name{};
    StringId category{};
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    std::vector<Argument> arguments;
  };
  struct Flow {
    uint32_t from = 0;
    uint32_t to = 0;
  };
  struct Lanes;
  class Printer;

  StringId intern(std::string_view text);

  std::vector<std::string> processes_;
  std::vector<Track> tracks_;
  std::vector<Slice> slices_;
  std::vector<Flow> flows_;
  std::map<std::string, std::string> notes_;
  std::vector<std::string> strings_;  ///< Escaped once, when they come in.
  std::unordered_map<std::string, StringId> ids_;
};

/// Writes the timeline; gzip (ISA-L) when the path ends in ".gz". Errors: kIo.
Status write_chrome(const ChromeTimeline& timeline, const std::string& path,
                    Existing existing = Existing::kReplace);

/// Which part of a trace to show, and under which process names ("rank 0" +
/// suffix).
struct MeasuredView {
  std::string suffix = "";  ///< " measured" beside predictions.
  int32_t first_step = std::numeric_limits<int32_t>::min();
  int32_t last_step = std::numeric_limits<int32_t>::max();
};

constexpr uint32_t kNoSlice = std::numeric_limits<uint32_t>::max();

/// Places of what add_measured_rank added.
struct MeasuredSlices {
  uint32_t process = 0;
  /// Slice of each event of the trace, or kNoSlice.
  std::vector<uint32_t> by_event;
};

/// Adds one rank of a trace: a track of steps, then its streams, on rank 0's
/// clock.
MeasuredSlices add_measured_rank(ChromeTimeline& timeline, const Trace& trace,
                                 uint32_t rank, const MeasuredView& view = {});

/// Returns the timeline of all ranks.
ChromeTimeline timeline_of(const Trace& trace, const MeasuredView& view = {});

}  // namespace reprise

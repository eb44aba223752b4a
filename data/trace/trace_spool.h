// What one input file adds to a trace, on its way there: a reader pushes
// events in any order, and memory stays bounded however many there are. Spools
// of several files become one trace, the same bytes for the same inputs
// whatever the threads did. Not thread-safe: one spool a thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

constexpr uint32_t kUnknownRank = UINT32_MAX;

/// Ids (strings, ranks, streams, collectives, synchronizations) are the
/// spool's own; gathering maps them to the trace's.
class TraceSpool {
 public:
  /// Full segments go to a temporary file in `directory` (the system's when
  /// empty), which is gone with the spool.
  explicit TraceSpool(std::string directory = {});
  ~TraceSpool();
  TraceSpool(TraceSpool&&) noexcept;
  TraceSpool& operator=(TraceSpool&&) noexcept;

  StringId intern(std::string_view text);
  const std::string& text(StringId id) const;

  /// Adds a rank and returns its local number. `rank.rank` may stay
  /// kUnknownRank until the trace is gathered; it and the rest may be changed
  /// through `rank`.
  uint32_t add_rank(RankInfo rank);
  RankInfo& rank(uint32_t local);
  uint32_t rank_count() const;
  /// Gives a rank the number of it that the file tells of a part of the job,
  /// which may be less than all: it holds unless another input has it too.
  void assume_rank(uint32_t local, uint32_t rank);
  bool is_assumed(uint32_t local) const;
  /// Added to every time of the rank when it is gathered (a base that stands
  /// at the end of its file). Default 0.
  void set_time_base(uint32_t local_rank, int64_t base_ns);

  /// `stream.rank` is a local rank. Returns its local number; every call adds
  /// a stream.
  uint32_t add_stream(StreamInfo stream);
  /// For what stands at the end of a file: a thread's name.
  StreamInfo& stream(uint32_t local);
  /// Equal values get the same number.
  int32_t add_collective(const CollectiveInfo& collective);
  int32_t add_synchronization(const SynchronizationInfo& synchronization);

  /// Ranks, streams, names and details are local ids. An event that ends
  /// before it starts is a bug of the caller: readers count and drop those.
  /// I/O errors are kept and reported by gathering.
  void add(const Event& event);
  void add_step(const StepMark& step);
  void add_dependency(const EventDependency& dependency);
  void add_measurement(Measurement measurement);
  void add_module(std::string name, std::string hlo_text);
  void set_environment(std::string name, std::string value);
  void add_warning(std::string warning);  ///< For Trace::warnings.

  int64_t event_count() const;
  const std::vector<StepMark>& steps() const;  ///< As they were added.

 private:
  friend class SpoolGatherer;
  struct State;
  std::unique_ptr<State> state_;
};

/// Joins spools to one trace in memory; the order of `spools` decides the order
/// of strings and streams. Ranks of the same number in several spools become
/// one (the first one's RankInfo; what it leaves empty comes from the others).
/// Errors: kInvalid when a rank is still unknown; kIo.
Result<Trace> gather_spools(std::span<TraceSpool> spools);

/// The same trace straight to a file, in memory that does not grow with its
/// events. `import_text` is embedded. Errors: as gather_spools and write_trace.
Status write_spools(std::span<TraceSpool> spools,
                    const std::string& import_text, const std::string& path);

}  // namespace reprise

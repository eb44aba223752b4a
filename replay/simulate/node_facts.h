// What the nodes of a graph stand for: events of a trace, or units of a
// schedule. The graph has their times; kinds and names are looked up here, so
// that paths and what-ifs are written once for both.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace_by_rank.h"

namespace reprise {

/// What a node does; and why the critical path lasts where it lasts.
enum class PathKind : uint8_t {
  kKernel,       ///< Device work that is no collective or copy: compute units.
  kCollective,   ///< Transfer of a collective.
  kCopy,         ///< Copies and memsets.
  kHost,         ///< Host ops and runtime calls.
  kLaunch,       ///< From a launch's start to its device work's start; between
                 ///< queued work of a stream; from an event to who awaited it.
  kRange,        ///< A host thread within a named range, between its ops.
  kUnexplained,  ///< A recorded gap that no dependency explains.
  // Of a priced step alone:
  kDispatch,  ///< Handing a unit to its stream, or waking a stream that waited.
  kFeed,      ///< Filling the batch.
  kOverhead,  ///< Ending the step.
};
constexpr size_t kPathKinds = 10;
/// Those of any graph: the first so many.
constexpr size_t kTracePathKinds = 7;
std::string_view name_of(PathKind kind);

/// Of a graph's origins; borrows the trace or schedule.
class NodeFacts {
 public:
  explicit NodeFacts(const Trace& trace) : trace_(&trace) {}
  explicit NodeFacts(const TraceByRank& trace)
      : trace_(&trace.frame()), by_rank_(&trace) {}
  /// `module` (null: unit names only) names the ops of a unit.
  explicit NodeFacts(const Schedule& schedule, const Module* module = nullptr)
      : schedule_(&schedule), module_(module) {}

  /// kKernel, kCollective, kCopy or kHost.
  PathKind kind(uint32_t origin) const;
  /// Whether it ran on no device stream of an imported trace.
  bool on_host(uint32_t origin) const;
  /// Whether it is a call of a driver or runtime.
  bool is_call(uint32_t origin) const;
  std::string_view name(uint32_t origin) const;

  /// Origins of one number (below name_count) go by the same names.
  uint32_t name_number(uint32_t origin) const;
  size_t name_count() const;
  /// An event's name; a unit's, and those of its ops.
  std::vector<std::string_view> names(uint32_t name_number) const;

  /// The number of the rank at a place: TimedGraph::Span::rank.
  uint32_t rank_number(uint32_t place) const;

 private:
  EventKind event_kind(uint32_t origin) const {
    return by_rank_ != nullptr ? by_rank_->kind(origin)
                               : trace_->events[origin].kind;
  }
  StreamKind stream_kind(uint32_t origin) const {
    return by_rank_ != nullptr
               ? by_rank_->stream_kind(origin)
               : trace_->streams[trace_->events[origin].stream].kind;
  }
  StringId event_name(uint32_t origin) const {
    return by_rank_ != nullptr ? by_rank_->name(origin)
                               : trace_->events[origin].name;
  }

  const Trace* trace_ = nullptr;
  const TraceByRank* by_rank_ = nullptr;  ///< Its events, where given.
  const Schedule* schedule_ = nullptr;    ///< One of these two is set.
  const Module* module_ = nullptr;
};

}  // namespace reprise

// A trace one rank after the other: most questions about a run are asked of
// each rank alone, and its events are then all that memory must hold. Those of
// the others wait encoded as in their file, a tenth of the bytes; of each event
// a name and two kinds stay at hand.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/progress.h"
#include "data/result.h"
#include "data/trace/columns.h"
#include "data/trace/trace.h"

namespace reprise {

/// The events of one rank: trace.events[first, last). They are numbered over
/// all ranks, as places in the Trace::events of the whole trace.
struct RankEvents {
  const Trace& trace;  ///< All of it, but events of other ranks may lack.
  uint32_t rank = 0;
  uint32_t first = 0, last = 0;
  uint32_t base = 0;  ///< Number of trace.events[0].

  uint32_t number(size_t place) const {
    return base + static_cast<uint32_t>(place);
  }
};

class TraceByRank {
 public:
  /// Larger traces are packed.
  static constexpr size_t kMostEvents = size_t{1} << 20;

  /// A trace in memory stays as it is.
  explicit TraceByRank(Trace trace);
  /// One that outlives this.
  static TraceByRank borrow(const Trace& trace);
  /// Packs more than `most_events` of several ranks, unless a program of ours
  /// ran. `visit` sees each rank that is packed, and once more what came of it
  /// later on; `watch` how far the reading is. Errors: as read_trace.
  using Visit = std::function<void(const RankEvents& events)>;
  static Result<TraceByRank> read(const std::string& path,
                                  size_t most_events = kMostEvents,
                                  const Visit& visit = {},
                                  const ProgressWatcher& watch = {});

  TraceByRank(TraceByRank&&) noexcept = default;
  TraceByRank& operator=(TraceByRank&&) noexcept = default;

  /// Everything but the events.
  const Trace& frame() const { return *trace_; }
  std::vector<RankInfo>& ranks() { return own_->ranks; }
  bool is_packed() const { return packed_; }
  /// With all events. Requires: not packed.
  const Trace& whole() const;
  /// The same, back to who gave it.
  Trace take_whole() && { return std::move(*own_); }

  size_t event_count() const;
  /// Ranks that have events.
  size_t size() const { return parts_.size(); }
  /// The number of one of them, and that of its first event.
  uint32_t rank(size_t part) const { return parts_[part].span.rank; }
  uint32_t first_event(size_t part) const { return parts_[part].first; }
  /// The events of one of them, in ascending order of rank; valid until
  /// another's are asked for. Cost: decoding them, where they are packed; asked
  /// for one after the other, the next one's are decoded meanwhile.
  RankEvents at(size_t part) const;
  /// Of a rank by its number; it may have none.
  RankEvents of_rank(uint32_t rank) const;
  /// First start and last end of one of them.
  struct Span {
    uint32_t rank = 0;
    int64_t start_ns = 0, end_ns = 0;
  };
  Span span(size_t part) const;

  /// What an event is, by its number. Cost: none, packed or not.
  StringId name(uint32_t event) const;
  EventKind kind(uint32_t event) const;
  StreamKind stream_kind(uint32_t event) const;

 private:
  class Packer;
  struct Rooms {
    std::vector<Event> events;
    std::vector<Event> spare;  ///< For sorting.
  };
  /// One rank. What stands behind `count` is there where it is packed.
  struct Part {
    Span span;
    uint32_t first = 0, count = 0;  ///< Numbers of its events.
    std::vector<EncodedSegment> segments;
    std::vector<uint32_t> order;  ///< event_order of what they hold.
    /// [event of the rank] As `names_` and `kinds_`, until these have them.
    std::vector<StringId> names;
    std::vector<uint8_t> kinds;
    /// Takes what stays at hand; the events themselves by encode().
    void describe(const Trace& frame, std::span<const Event> events);
    void encode(std::span<const Event> events);
    /// Into all of `events`, which are as many; not in `order`.
    void unpack(std::span<Event> events) const;
    /// In order, in memory that is not needed any more.
    Rooms unpacked(Rooms rooms) const;
  };
  TraceByRank() = default;
  void find_parts();
  void unpack(size_t part) const;

  std::unique_ptr<Trace> own_;  ///< Packed: events that were asked for last.
  const Trace* trace_ = nullptr;
  std::vector<Part> parts_;  ///< By rank.
  /// [number of the event] What stays at hand of a packed one.
  std::vector<StringId> names_;
  std::vector<uint8_t> kinds_;  ///< Of the event, then of its stream.
  bool packed_ = false;
  mutable size_t unpacked_ = SIZE_MAX;  ///< The part whose events `own_` has.
  /// Being decoded by another thread.
  struct Ahead {
    size_t part = SIZE_MAX;
    std::future<Rooms> rooms;
  };
  mutable Ahead ahead_;
};

}  // namespace reprise

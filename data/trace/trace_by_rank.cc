// Packing while reading: events come in the order of the file, mostly rank
// after rank. What belongs to one rank is gathered, sorted and checked; its
// segments are kept as the file has them, with the order of their events, and
// encoded anew only where one holds several ranks. Cost: linear, 20 ns to
// decode an event again, some 100 ns to encode it. Encoding a rank and decoding
// the next one go on beside the caller's work, in a thread that lives as long
// as that takes.
#include "data/trace/trace_by_rank.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "data/trace/columns.h"
#include "data/trace/event_order.h"
#include "data/trace/trace_reader.h"
#include "data/trace/validate_trace.h"

namespace reprise {
namespace {

/// A segment whose events change rank more often is sorted first.
constexpr size_t kMostRuns = 64;
/// Of ranks with more (25 MB), memory holds one at a time.
constexpr size_t kMostAhead = size_t{1} << 18;
constexpr unsigned kKindBits = 4;
constexpr unsigned kKindMask = (1U << kKindBits) - 1;
static_assert(static_cast<unsigned>(kLastEventKind) <= kKindMask);

bool same_rank(const Event& a, const Event& b) { return a.rank == b.rank; }

template <typename Value>
void move_behind(std::vector<Value>& all, std::vector<Value>& part) {
  all.insert(all.end(), part.begin(), part.end());
  part = std::vector<Value>();
}

}  // namespace

void TraceByRank::Part::describe(const Trace& frame,
                                 std::span<const Event> events) {
  span = {events.front().rank, events.front().start_ns, events.front().end_ns};
  count = static_cast<uint32_t>(events.size());
  names.clear();
  kinds.clear();
  for (const Event& event : events) {
    span.end_ns = std::max(span.end_ns, event.end_ns);
    names.push_back(event.name);
    const auto stream = static_cast<unsigned>(frame.streams[event.stream].kind);
    kinds.push_back(static_cast<uint8_t>(stream << kKindBits |
                                         static_cast<unsigned>(event.kind)));
  }
  names.shrink_to_fit();
  kinds.shrink_to_fit();
}

void TraceByRank::Part::encode(std::span<const Event> events) {
  SegmentEncoder<Event> encoder(event_columns());
  segments.clear();
  segments.emplace_back(encoder.encode(events), events.size());
}

void TraceByRank::Part::unpack(std::span<Event> events) const {
  size_t done = 0;
  for (const EncodedSegment& segment : segments) {
    const std::vector<ColumnBytes> columns = segment.columns();
    const std::span<Event> own = events.subspan(done, segment.count());
    // An older file lacks columns, which must not stay another rank's.
    if (columns.size() < event_columns().size())
      std::fill(own.begin(), own.end(), Event());
    const Status decoded = decode_segment<Event>(event_columns(), columns, own);
    REPRISE_CHECK(decoded);
    done += segment.count();
  }
}

TraceByRank::Rooms TraceByRank::Part::unpacked(Rooms rooms) const {
  rooms.events.resize(count);
  unpack(rooms.events);
  if (count > kMostAhead) {
    put_in_order(rooms.events, order);
  } else {
    put_in_order(rooms.events, order, rooms.spare);
  }
  return rooms;
}

class TraceByRank::Packer {
 public:
  explicit Packer(const Visit& visit) : visit_(visit) {}

  /// Takes the events that `frame` holds, and the segments that they come from.
  Status take(Trace& frame, std::span<EncodedSegment> segments) {
    std::vector<Event>& events = frame.events;
    if (!find_runs(events)) {
      put_in_order(events, event_order(events), room_);
      find_runs(events);
      segments = {};  // Of many ranks each.
    }
    size_t first = 0, segment_first = 0;
    for (const size_t last : run_ends_) {
      if (!run_.empty() && !same_rank(run_.front(), events[first])) {
        if (Status packed = pack_run(frame); !packed) return packed;
      }
      const auto begin = events.begin();
      run_.insert(run_.end(), begin + static_cast<std::ptrdiff_t>(first),
                  begin + static_cast<std::ptrdiff_t>(last));
      for (; !segments.empty(); segments = segments.subspan(1)) {
        const size_t count = segments.front().count();
        if (segment_first + count > last) break;
        if (segment_first >= first) keep(segments.front());
        segment_first += count;
      }
      first = last;
    }
    events.clear();
    return {};
  }

  /// All parts, by rank.
  Result<std::vector<Part>> finish(Trace& frame) {
    if (Status packed = pack_run(frame); !packed) return pass(packed.error());
    wait();
    std::vector<Part> parts;
    uint32_t first = 0;
    for (auto& [rank, pieces] : pieces_) {
      if (pieces.size() > 1) join(frame, pieces);
      pieces.front().first = first;
      first += pieces.front().count;
      parts.push_back(std::move(pieces.front()));
    }
    return parts;
  }

 private:
  /// Of one rank, as they came; they stay where they are.
  using Pieces = std::deque<Part>;

  /// Where events of one rank end; false where there are too many such places.
  bool find_runs(std::span<const Event> events) {
    run_ends_.clear();
    for (size_t i = 1; i < events.size(); ++i) {
      if (!same_rank(events[i - 1], events[i])) run_ends_.push_back(i);
    }
    const bool few = run_ends_.size() <= kMostRuns;
    if (!events.empty()) run_ends_.push_back(events.size());
    return few;
  }

  Status pack_run(Trace& frame) {
    if (run_.empty()) return {};
    for (const Event& event : run_) {
      if (const std::string fault = fault_of(event, frame); !fault.empty())
        return fail(ErrorKind::kInvalid, "{}", fault);
    }
    Pieces& pieces = pieces_[run_.front().rank];
    Part& part = pieces.emplace_back();
    const bool is_first = pieces.size() == 1;
    std::vector<uint32_t> order;
    if (is_first) order = show_sorted(frame);
    part.describe(frame, run_);
    part.segments = std::exchange(kept_, {});
    if (std::exchange(kept_events_, 0) == run_.size()) {
      part.order = std::move(order);
      run_.clear();
      return {};
    }
    wait();
    packed_.swap(run_);
    run_.clear();
    const auto policy = packed_.size() > kMostAhead ? std::launch::deferred
                                                    : std::launch::async;
    packing_ = std::async(policy, [this, &part] { part.encode(packed_); });
    return {};
  }

  /// Until what was given to the other thread is packed.
  void wait() {
    if (packing_.valid()) packing_.get();
  }

  void keep(EncodedSegment& segment) {
    kept_events_ += segment.count();
    kept_.push_back(std::move(segment));
  }

  /// Returns their order as they came.
  std::vector<uint32_t> show_sorted(Trace& frame) {
    std::vector<uint32_t> order = event_order(run_);
    put_in_order(run_, order, room_);
    if (visit_) {
      frame.events.swap(run_);
      const auto count = static_cast<uint32_t>(frame.events.size());
      visit_({frame, frame.events.front().rank, 0, count});
      frame.events.swap(run_);
    }
    return order;
  }

  void join(Trace& frame, Pieces& pieces) {
    run_.clear();
    for (Part& piece : pieces) {
      run_.resize(run_.size() + piece.count);
      piece.unpack(std::span(run_).last(piece.count));
      for (EncodedSegment& segment : piece.segments) keep(segment);
    }
    pieces.resize(1);
    Part& part = pieces.front();
    part.segments = std::exchange(kept_, {});
    part.order = show_sorted(frame);
    part.describe(frame, run_);
    run_.clear();
  }

  const Visit& visit_;
  std::vector<size_t> run_ends_;      ///< [run of the segment]
  std::vector<Event> run_;            ///< Of one rank.
  std::vector<Event> packed_;         ///< The run before it.
  std::vector<Event> room_;           ///< For sorting.
  std::vector<EncodedSegment> kept_;  ///< Those that are within `run_`.
  size_t kept_events_ = 0;
  std::map<uint32_t, Pieces> pieces_;  ///< By rank.
  std::future<void> packing_;  ///< `packed_`; last, for it uses the others.
};

TraceByRank::TraceByRank(Trace trace)
    : own_(std::make_unique<Trace>(std::move(trace))), trace_(own_.get()) {
  find_parts();
}

TraceByRank TraceByRank::borrow(const Trace& trace) {
  TraceByRank borrowed;
  borrowed.trace_ = &trace;
  borrowed.find_parts();
  return borrowed;
}

Result<TraceByRank> TraceByRank::read(const std::string& path,
                                      size_t most_events, const Visit& visit,
                                      const ProgressWatcher& watch) {
  Packer packer(visit);
  bool packed = false;
  const auto take = [&](Trace& frame, std::span<EncodedSegment> segments) {
    packed = true;
    return packer.take(frame, segments);
  };
  Result<Trace> trace = read_trace(path, {most_events, take, watch});
  if (!trace && packed && trace.error().kind == ErrorKind::kInvalid)
    trace = read_trace(path);  // Says which of all events is at fault.
  if (!trace) return pass(trace.error());
  if (!packed) return TraceByRank(*std::move(trace));
  Result<std::vector<Part>> parts = packer.finish(*trace);
  if (!parts) return pass(read_trace(path).error());
  TraceByRank result;
  result.own_ = std::make_unique<Trace>(*std::move(trace));
  result.trace_ = result.own_.get();
  result.parts_ = *std::move(parts);
  result.packed_ = true;
  result.names_.reserve(result.event_count());
  result.kinds_.reserve(result.event_count());
  for (Part& part : result.parts_) {
    move_behind(result.names_, part.names);
    move_behind(result.kinds_, part.kinds);
  }
  return result;
}

void TraceByRank::find_parts() {
  const std::vector<Event>& events = trace_->events;
  for (auto first = events.begin(); first != events.end();) {
    const auto last = std::partition_point(
        first, events.end(),
        [&](const Event& event) { return same_rank(event, *first); });
    Part& part = parts_.emplace_back();
    part.span.rank = first->rank;
    part.first = static_cast<uint32_t>(first - events.begin());
    part.count = static_cast<uint32_t>(last - first);
    first = last;
  }
}

const Trace& TraceByRank::whole() const {
  REPRISE_CHECK(!packed_);
  return *trace_;
}

size_t TraceByRank::event_count() const {
  return parts_.empty() ? 0 : parts_.back().first + parts_.back().count;
}

RankEvents TraceByRank::at(size_t index) const {
  const Part& part = parts_[index];
  if (!packed_) {
    return {*trace_, part.span.rank, part.first, part.first + part.count, 0};
  }
  if (index != unpacked_) unpack(index);
  return {*trace_, part.span.rank, 0, part.count, part.first};
}

void TraceByRank::unpack(size_t index) const {
  const bool in_turn = index == 0 || index - 1 == unpacked_;
  unpacked_ = SIZE_MAX;
  Rooms rooms;
  if (ahead_.part == index && ahead_.rooms.valid()) {
    rooms = ahead_.rooms.get();
    own_->events.swap(rooms.events);
  } else {
    rooms.events.swap(own_->events);
    rooms = parts_[index].unpacked(std::move(rooms));
    own_->events.swap(rooms.events);
  }
  unpacked_ = index;
  const size_t next = index + 1;
  if (!in_turn || next == parts_.size() || parts_[next].count > kMostAhead) {
    return;
  }
  ahead_ = {next, std::async(std::launch::async,
                             [&part = parts_[next],
                              rooms = std::move(rooms)]() mutable {
                               return part.unpacked(std::move(rooms));
                             })};
}

RankEvents TraceByRank::of_rank(uint32_t rank) const {
  const auto found = std::partition_point(
      parts_.begin(), parts_.end(),
      [&](const Part& part) { return part.span.rank < rank; });
  if (found == parts_.end() || found->span.rank != rank) return {*trace_, rank};
  return at(static_cast<size_t>(found - parts_.begin()));
}

TraceByRank::Span TraceByRank::span(size_t index) const {
  const Part& part = parts_[index];
  if (packed_) return part.span;
  const Event* const first = trace_->events.data() + part.first;
  Span span = {first->rank, first->start_ns, first->end_ns};
  for (uint32_t i = 0; i < part.count; ++i) {
    span.start_ns = std::min(span.start_ns, first[i].start_ns);
    span.end_ns = std::max(span.end_ns, first[i].end_ns);
  }
  return span;
}

StringId TraceByRank::name(uint32_t event) const {
  return packed_ ? names_[event] : trace_->events[event].name;
}

EventKind TraceByRank::kind(uint32_t event) const {
  return packed_ ? static_cast<EventKind>(kinds_[event] & kKindMask)
                 : trace_->events[event].kind;
}

StreamKind TraceByRank::stream_kind(uint32_t event) const {
  return packed_ ? static_cast<StreamKind>(kinds_[event] >> kKindBits)
                 : trace_->streams[trace_->events[event].stream].kind;
}

}  // namespace reprise

// Events are gathered until 8,192 of them fill the second cache, then sorted
// and encoded as one segment, so that memory does not grow with the file. Times
// beyond 146 years are cut, which keeps all later sums within 64 bits.
#include "data/trace/trace_spool.h"

#include <algorithm>
#include <iterator>

#include "data/trace/event_order.h"
#include "data/trace/spool_state.h"

namespace reprise {
namespace {

/// Events that are sorted and encoded together: few enough for the second
/// cache.
constexpr size_t kSpoolSegmentRecords = size_t{1} << 13;
static_assert(kSpoolSegmentRecords <= kSegmentRecords);

/// 73 years: a base and a time together stay far from 64 bits.
constexpr int64_t kLatestBaseNs = int64_t{1} << 61;
constexpr int64_t kLatestNs = int64_t{1} << 62;

int64_t within(int64_t time_ns, int64_t latest_ns) {
  return std::clamp(time_ns, -latest_ns, latest_ns);
}

bool is_wild(int64_t time_ns) {
  return time_ns < -kLatestNs || time_ns > kLatestNs;
}

void append_integer(std::string& key, int64_t value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void append_text(std::string& key, const std::string& text) {
  append_integer(key, std::ssize(text));
  key += text;
}

}  // namespace

void append_key(std::string& key, const CollectiveInfo& collective) {
  append_text(key, collective.communicator);
  append_text(key, collective.other_kind);
  append_text(key, collective.other_type);
  const int64_t type =
      collective.type ? static_cast<int64_t>(*collective.type) : -1;
  for (const int64_t value :
       {static_cast<int64_t>(collective.kind), type, collective.group_size,
        collective.input_elements, collective.output_elements,
        int64_t{collective.peer}}) {
    append_integer(key, value);
  }
  for (const uint32_t rank : collective.group) append_integer(key, rank);
}

void append_key(std::string& key, const SynchronizationInfo& one) {
  for (const int64_t value : {static_cast<int64_t>(one.kind), one.stream,
                              one.waited_stream, one.waited_correlation}) {
    append_integer(key, value);
  }
}

void TraceSpool::State::flush() {
  if (events.empty()) return;
  const std::vector<uint32_t> order = event_order(events);
  segments.append(encoder.encode(events, order), events.size());
  flushed_events += std::ssize(events);
  events.clear();
}

TraceSpool::TraceSpool(std::string directory)
    : state_(std::make_unique<State>(std::move(directory))) {}
TraceSpool::~TraceSpool() = default;
TraceSpool::TraceSpool(TraceSpool&&) noexcept = default;
TraceSpool& TraceSpool::operator=(TraceSpool&&) noexcept = default;

StringId TraceSpool::intern(std::string_view text) {
  return StringId{state_->strings.intern(text)};
}

const std::string& TraceSpool::text(StringId id) const {
  return state_->strings.text(index_of(id));
}

uint32_t TraceSpool::add_rank(RankInfo rank) {
  state_->ranks.push_back(std::move(rank));
  state_->bases.push_back(0);
  return static_cast<uint32_t>(state_->ranks.size() - 1);
}

RankInfo& TraceSpool::rank(uint32_t local) { return state_->ranks[local]; }

uint32_t TraceSpool::rank_count() const {
  return static_cast<uint32_t>(state_->ranks.size());
}

void TraceSpool::assume_rank(uint32_t local, uint32_t rank) {
  state_->ranks[local].rank = rank;
  state_->assumed.insert(local);
}

bool TraceSpool::is_assumed(uint32_t local) const {
  return state_->assumed.contains(local);
}

void TraceSpool::set_time_base(uint32_t local_rank, int64_t base_ns) {
  state_->bases[local_rank] = within(base_ns, kLatestBaseNs);
}

uint32_t TraceSpool::add_stream(StreamInfo stream) {
  REPRISE_CHECK(stream.rank < state_->ranks.size());
  state_->stream_ranks.push_back(stream.rank);
  state_->streams.push_back(std::move(stream));
  return static_cast<uint32_t>(state_->streams.size() - 1);
}

StreamInfo& TraceSpool::stream(uint32_t local) {
  return state_->streams[local];
}

int32_t TraceSpool::add_collective(const CollectiveInfo& collective) {
  return state_->collectives.add(collective);
}

int32_t TraceSpool::add_synchronization(
    const SynchronizationInfo& synchronization) {
  return state_->synchronizations.add(synchronization);
}

void TraceSpool::add(const Event& event) {
  State& state = *state_;
  REPRISE_CHECK(event.stream < state.stream_ranks.size() &&
                event.rank == state.stream_ranks[event.stream]);
  REPRISE_CHECK(index_of(event.name) < state.strings.size() &&
                event.attributes < int64_t{state.strings.size()});
  REPRISE_CHECK(event.detail < (event.kind == EventKind::kSynchronization
                                    ? state.synchronizations.size()
                                    : state.collectives.size()));
  REPRISE_CHECK(event.start_ns <= event.end_ns);
  state.events.push_back(event);
  if (is_wild(event.enqueue_ns) || is_wild(event.start_ns) ||
      is_wild(event.end_ns)) {
    Event& added = state.events.back();
    added.enqueue_ns = within(event.enqueue_ns, kLatestNs);
    added.start_ns = within(event.start_ns, kLatestNs);
    added.end_ns = within(event.end_ns, kLatestNs);
  }
  if (state.events.size() == kSpoolSegmentRecords) state.flush();
}

void TraceSpool::add_step(const StepMark& step) {
  REPRISE_CHECK(step.rank < state_->ranks.size() &&
                step.start_ns <= step.end_ns);
  StepMark& added = state_->steps.emplace_back(step);
  added.start_ns = within(step.start_ns, kLatestNs);
  added.end_ns = within(step.end_ns, kLatestNs);
}

void TraceSpool::add_dependency(const EventDependency& dependency) {
  REPRISE_CHECK(dependency.rank < state_->ranks.size());
  state_->dependencies.push_back(dependency);
}

void TraceSpool::add_measurement(Measurement measurement) {
  state_->measurements.push_back(std::move(measurement));
}

void TraceSpool::add_module(std::string name, std::string hlo_text) {
  state_->modules[std::move(name)] = std::move(hlo_text);
}

void TraceSpool::set_environment(std::string name, std::string value) {
  state_->environment[std::move(name)] = std::move(value);
}

void TraceSpool::add_warning(std::string warning) {
  state_->warnings.push_back(std::move(warning));
}

const std::vector<StepMark>& TraceSpool::steps() const { return state_->steps; }

int64_t TraceSpool::event_count() const {
  return state_->flushed_events + std::ssize(state_->events);
}

}  // namespace reprise

// TODO(#3): segments in memory only; overflow to disk.
#include "data/trace/trace_spool.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace reprise {

struct TraceSpool::State {
  std::vector<std::string> strings;
  std::unordered_map<std::string, uint32_t> ids;
  std::vector<RankInfo> ranks;
  std::vector<int64_t> bases;
  std::vector<StreamInfo> streams;
  std::vector<CollectiveInfo> collectives;
  std::vector<SynchronizationInfo> synchronizations;
  std::vector<Event> events;
  std::vector<StepMark> steps;
  std::vector<EventDependency> dependencies;
  std::vector<Measurement> measurements;
  std::vector<std::string> warnings;
  std::map<std::string, std::string> modules, environment;
};

TraceSpool::TraceSpool(std::string) : state_(std::make_unique<State>()) {}
TraceSpool::~TraceSpool() = default;
TraceSpool::TraceSpool(TraceSpool&&) noexcept = default;
TraceSpool& TraceSpool::operator=(TraceSpool&&) noexcept = default;

StringId TraceSpool::intern(std::string_view text) {
  const auto [place, added] = state_->ids.try_emplace(
      std::string(text), static_cast<uint32_t>(state_->strings.size()));
  if (added) state_->strings.emplace_back(text);
  return StringId{place->second};
}
const std::string& TraceSpool::text(StringId id) const {
  return state_->strings[index_of(id)];
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
void TraceSpool::set_time_base(uint32_t local_rank, int64_t base_ns) {
  state_->bases[local_rank] = base_ns;
}
uint32_t TraceSpool::add_stream(StreamInfo stream) {
  state_->streams.push_back(std::move(stream));
  return static_cast<uint32_t>(state_->streams.size() - 1);
}
StreamInfo& TraceSpool::stream(uint32_t local) {
  return state_->streams[local];
}
namespace {
template <typename Value>
int32_t add_once(std::vector<Value>& values, const Value& value) {
  auto found = std::find(values.begin(), values.end(), value);
  if (found == values.end()) found = values.insert(found, value);
  return static_cast<int32_t>(found - values.begin());
}
}  // namespace
int32_t TraceSpool::add_collective(const CollectiveInfo& collective) {
  return add_once(state_->collectives, collective);
}
int32_t TraceSpool::add_synchronization(const SynchronizationInfo& one) {
  return add_once(state_->synchronizations, one);
}
void TraceSpool::add(const Event& event) { state_->events.push_back(event); }
void TraceSpool::add_step(const StepMark& step) {
  state_->steps.push_back(step);
}
void TraceSpool::add_dependency(const EventDependency& dependency) {
  state_->dependencies.push_back(dependency);
}
void TraceSpool::add_measurement(Measurement measurement) {
  state_->measurements.push_back(std::move(measurement));
}
void TraceSpool::add_warning(std::string text) {
  state_->warnings.push_back(std::move(text));
}
void TraceSpool::add_module(std::string name, std::string hlo_text) {
  state_->modules[std::move(name)] = std::move(hlo_text);
}
void TraceSpool::set_environment(std::string name, std::string value) {
  state_->environment[std::move(name)] = std::move(value);
}
int64_t TraceSpool::event_count() const {
  return static_cast<int64_t>(state_->events.size());
}

class SpoolGatherer {
 public:
  Result<Trace> run(std::span<TraceSpool> spools) {
    for (TraceSpool& spool : spools) {
      if (Status taken = take(*spool.state_); !taken)
        return pass(taken.error());
    }
    const auto key = [](const auto& e) {
      return std::tie(e.rank, e.start_ns, e.stream);
    };
    std::stable_sort(
        trace_.events.begin(), trace_.events.end(),
        [&](const Event& a, const Event& b) { return key(a) < key(b); });
    std::sort(trace_.ranks.begin(), trace_.ranks.end(),
              [](const auto& a, const auto& b) { return a.rank < b.rank; });
    std::stable_sort(trace_.steps.begin(), trace_.steps.end(),
                     [](const StepMark& a, const StepMark& b) {
                       return std::tie(a.rank, a.step) <
                              std::tie(b.rank, b.step);
                     });
    std::sort(trace_.dependencies.begin(), trace_.dependencies.end(),
              [](const EventDependency& a, const EventDependency& b) {
                return std::tie(a.rank, a.before, a.after) <
                       std::tie(b.rank, b.before, b.after);
              });
    return std::move(trace_);
  }

 private:
  uint32_t string_id(const std::string& text) {
    const auto [place, added] =
        ids_.try_emplace(text, static_cast<uint32_t>(trace_.strings.size()));
    if (added) trace_.strings.push_back(text);
    return place->second;
  }

  Status take(TraceSpool::State& state) {
    std::vector<uint32_t> strings;
    for (const std::string& text : state.strings)
      strings.push_back(string_id(text));
    for (const RankInfo& rank : state.ranks) {
      if (rank.rank == kUnknownRank)
        return fail(ErrorKind::kInvalid, "a rank is not known");
      const auto same = [&](const RankInfo& r) { return r.rank == rank.rank; };
      if (std::none_of(trace_.ranks.begin(), trace_.ranks.end(), same))
        trace_.ranks.push_back(rank);
    }
    const auto first_stream = static_cast<uint32_t>(trace_.streams.size());
    for (StreamInfo stream : state.streams) {
      stream.rank = state.ranks[stream.rank].rank;
      trace_.streams.push_back(std::move(stream));
    }
    std::vector<int32_t> collectives, synchronizations;
    for (const auto& one : state.collectives)
      collectives.push_back(add_once(trace_.collectives, one));
    for (const auto& one : state.synchronizations)
      synchronizations.push_back(add_once(trace_.synchronizations, one));
    for (Event event : state.events) {
      const int64_t base = state.bases[event.rank];
      event.enqueue_ns += base;
      event.start_ns += base;
      event.end_ns += base;
      event.rank = state.ranks[event.rank].rank;
      event.stream += first_stream;
      event.name = StringId{strings[index_of(event.name)]};
      if (event.attributes >= 0)
        event.attributes = static_cast<int32_t>(
            strings[static_cast<size_t>(event.attributes)]);
      if (event.detail >= 0) {
        const auto place = static_cast<size_t>(event.detail);
        event.detail = event.kind == EventKind::kSynchronization
                           ? synchronizations[place]
                           : collectives[place];
      }
      trace_.events.push_back(event);
    }
    for (StepMark step : state.steps) {
      step.start_ns += state.bases[step.rank];
      step.end_ns += state.bases[step.rank];
      step.rank = state.ranks[step.rank].rank;
      trace_.steps.push_back(step);
    }
    for (EventDependency one : state.dependencies) {
      one.rank = state.ranks[one.rank].rank;
      trace_.dependencies.push_back(one);
    }
    trace_.measurements.insert(trace_.measurements.end(),
                               state.measurements.begin(),
                               state.measurements.end());
    trace_.warnings.insert(trace_.warnings.end(), state.warnings.begin(),
                           state.warnings.end());
    trace_.modules.insert(state.modules.begin(), state.modules.end());
    trace_.environment.insert(state.environment.begin(),
                              state.environment.end());
    return {};
  }

  Trace trace_;
  std::unordered_map<std::string, uint32_t> ids_;
};

Result<Trace> gather_spools(std::span<TraceSpool> spools) {
  return SpoolGatherer().run(spools);
}

Status write_spools(std::span<TraceSpool> spools,
                    const std::string& import_text, const std::string& path) {
  Result<Trace> trace = gather_spools(spools);
  if (!trace) return pass(trace.error());
  trace->import_text = import_text;
  return write_trace(*trace, path);
}

}  // namespace reprise

// From spools to one trace: local numbers become the trace's, times get their
// rank's base. Segments are mapped column by column, and only those columns
// that change: one spool goes through as it is.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <tuple>

#include "data/trace/event_order.h"
#include "data/trace/spool_state.h"
#include "data/trace/trace_file.h"
#include "data/trace/validate_trace.h"

namespace reprise {

/// Joins everything but the events, then hands these on segment by segment.
class SpoolGatherer {
 public:
  explicit SpoolGatherer(std::span<TraceSpool> spools) : spools_(spools) {}

  Status join();
  /// All but the events.
  Trace& trace() { return trace_; }
  int64_t event_count() const;

  using Visit = std::function<Status(std::span<const ColumnBytes>, size_t)>;
  Status each_segment(const Visit& visit);

 private:
  using Map = std::vector<int64_t>;
  /// From the numbers of one spool to the trace's; empty: as they are.
  struct Maps {
    Map strings, ranks, streams, collectives, synchronizations;
    Map bases;  ///< By local rank; empty: all 0.
  };
  Status take(TraceSpool::State& state);
  void take_ranks(const TraceSpool::State& state, Maps& maps);
  void take_rest(const TraceSpool::State& state);
  void map_segment(const Maps& maps, std::span<ColumnBytes> columns,
                   size_t count);
  void map_column(EventColumn column, const Map& map,
                  std::span<ColumnBytes> columns, size_t count);
  void map_starts(const Map& bases, std::span<ColumnBytes> columns,
                  size_t count);
  void map_details(const Maps& maps, std::span<ColumnBytes> columns,
                   size_t count);
  void encode(EventColumn column, const Map& values,
              std::span<ColumnBytes> columns);

  std::span<TraceSpool> spools_;
  std::vector<Maps> maps_;  ///< By spool.
  Trace trace_;
  StringTable strings_;
  ValueTable<CollectiveInfo> collectives_;
  ValueTable<SynchronizationInfo> synchronizations_;
  std::array<ColumnEncoder, static_cast<size_t>(EventColumn::kCount)> encoders_;
};

namespace {

constexpr size_t place_of(EventColumn column) {
  return static_cast<size_t>(column);
}

void drop_identity(std::vector<int64_t>& map) {
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] != static_cast<int64_t>(i)) return;
  }
  map.clear();
}

/// What the first says of a rank stays; what it leaves open, others tell.
void complete(RankInfo& rank, const RankInfo& other) {
  if (rank.host.empty()) rank.host = other.host;
  if (rank.process == 0) rank.process = other.process;
  if (rank.device.empty()) rank.device = other.device;
  // "none" is the word of a record without times: any that has some wins.
  if (rank.clock_domain == "none" ||
      (rank.clock_domain.empty() && other.clock_domain != "none")) {
    rank.clock_domain = other.clock_domain;
  }
}

/// All values of a column; its bytes are our own, and their checksum held.
std::vector<int64_t> decoded(const ColumnBytes& column, size_t count) {
  std::vector<int64_t> values(count);
  ColumnDecoder decoder(column.encoding, column.bytes);
  REPRISE_CHECK(decoder.take(values) == count);
  return values;
}

template <typename Value>
std::vector<int64_t> join_values(const ValueTable<Value>& from,
                                 ValueTable<Value>& to) {
  std::vector<int64_t> map;
  for (const Value& value : from.values()) map.push_back(to.add(value));
  drop_identity(map);
  return map;
}

}  // namespace

int64_t SpoolGatherer::event_count() const {
  int64_t count = 0;
  for (const TraceSpool& spool : spools_) count += spool.event_count();
  return count;
}

Status SpoolGatherer::join() {
  for (TraceSpool& spool : spools_) {
    if (Status taken = take(*spool.state_); !taken) return taken;
  }
  trace_.strings = std::move(strings_).take();
  trace_.collectives = collectives_.values();
  trace_.synchronizations = synchronizations_.values();
  std::sort(trace_.ranks.begin(), trace_.ranks.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::stable_sort(trace_.steps.begin(), trace_.steps.end(),
                   [](const StepMark& a, const StepMark& b) {
                     return std::tie(a.rank, a.step) < std::tie(b.rank, b.step);
                   });
  std::sort(trace_.dependencies.begin(), trace_.dependencies.end(), is_before);
  return validate_trace(trace_);
}

Status SpoolGatherer::take(TraceSpool::State& state) {
  state.flush();
  if (!state.segments.status()) return state.segments.status();
  for (const RankInfo& rank : state.ranks) {
    if (rank.rank == kUnknownRank) {
      return fail(ErrorKind::kInvalid, "the number of a rank ({}) is not known",
                  rank.host);
    }
  }
  Maps& maps = maps_.emplace_back();
  for (const std::string& text : state.strings.texts())
    maps.strings.push_back(strings_.intern(text));
  drop_identity(maps.strings);
  maps.collectives = join_values(state.collectives, collectives_);
  maps.synchronizations =
      join_values(state.synchronizations, synchronizations_);
  take_ranks(state, maps);
  take_rest(state);
  return {};
}

void SpoolGatherer::take_ranks(const TraceSpool::State& state, Maps& maps) {
  for (const RankInfo& rank : state.ranks) {
    const auto same = std::find_if(
        trace_.ranks.begin(), trace_.ranks.end(),
        [&](const RankInfo& other) { return other.rank == rank.rank; });
    if (same == trace_.ranks.end()) {
      trace_.ranks.push_back(rank);
    } else {
      complete(*same, rank);
    }
    maps.ranks.push_back(rank.rank);
  }
  drop_identity(maps.ranks);
  if (std::any_of(state.bases.begin(), state.bases.end(),
                  [](int64_t base) { return base != 0; })) {
    maps.bases = state.bases;
  }
  const size_t first_stream = trace_.streams.size();
  for (size_t i = 0; i < state.streams.size(); ++i) {
    REPRISE_CHECK(state.streams[i].rank == state.stream_ranks[i]);
    StreamInfo& stream = trace_.streams.emplace_back(state.streams[i]);
    stream.rank = state.ranks[stream.rank].rank;
    maps.streams.push_back(static_cast<int64_t>(first_stream + i));
  }
  drop_identity(maps.streams);
}

void SpoolGatherer::take_rest(const TraceSpool::State& state) {
  for (StepMark step : state.steps) {
    step.start_ns += state.bases[step.rank];
    step.end_ns += state.bases[step.rank];
    step.rank = state.ranks[step.rank].rank;
    trace_.steps.push_back(step);
  }
  for (EventDependency dependency : state.dependencies) {
    dependency.rank = state.ranks[dependency.rank].rank;
    trace_.dependencies.push_back(dependency);
  }
  trace_.measurements.insert(trace_.measurements.end(),
                             state.measurements.begin(),
                             state.measurements.end());
  trace_.modules.insert(state.modules.begin(), state.modules.end());
  for (const auto& [name, value] : state.environment) {
    const auto [known, added] = trace_.environment.try_emplace(name, value);
    if (!added && known->second != value && name == "world_size") {
      trace_.warnings.push_back(fmt::format(
          "files of jobs of {} and of {} ranks were joined: they may be of "
          "different runs",
          known->second, value));
    }
  }
  trace_.warnings.insert(trace_.warnings.end(), state.warnings.begin(),
                         state.warnings.end());
}

Status SpoolGatherer::each_segment(const Visit& visit) {
  std::string buffer;
  for (size_t i = 0; i < spools_.size(); ++i) {
    const SegmentStore& segments = spools_[i].state_->segments;
    for (size_t segment = 0; segment < segments.size(); ++segment) {
      const size_t count = segments.count(segment);
      Result<std::vector<ColumnBytes>> columns = segments.read(segment, buffer);
      if (!columns) return pass(columns.error());
      map_segment(maps_[i], *columns, count);
      if (Status visited = visit(*columns, count); !visited) return visited;
    }
  }
  return {};
}

/// What depends on a column is mapped before that column.
void SpoolGatherer::map_segment(const Maps& maps,
                                std::span<ColumnBytes> columns, size_t count) {
  map_starts(maps.bases, columns, count);
  map_details(maps, columns, count);
  map_column(EventColumn::kRank, maps.ranks, columns, count);
  map_column(EventColumn::kStream, maps.streams, columns, count);
  map_column(EventColumn::kName, maps.strings, columns, count);
  map_column(EventColumn::kAttributes, maps.strings, columns, count);
}

void SpoolGatherer::map_column(EventColumn column, const Map& map,
                               std::span<ColumnBytes> columns, size_t count) {
  if (map.empty()) return;
  Map values = decoded(columns[place_of(column)], count);
  for (int64_t& value : values) {
    if (value >= 0) value = map[static_cast<size_t>(value)];
  }
  encode(column, values, columns);
}

void SpoolGatherer::map_starts(const Map& bases, std::span<ColumnBytes> columns,
                               size_t count) {
  if (bases.empty()) return;
  Map starts = decoded(columns[place_of(EventColumn::kStart)], count);
  const Map ranks = decoded(columns[place_of(EventColumn::kRank)], count);
  for (size_t i = 0; i < count; ++i)
    starts[i] += bases[static_cast<size_t>(ranks[i])];
  encode(EventColumn::kStart, starts, columns);
}

void SpoolGatherer::map_details(const Maps& maps,
                                std::span<ColumnBytes> columns, size_t count) {
  if (maps.collectives.empty() && maps.synchronizations.empty()) return;
  Map details = decoded(columns[place_of(EventColumn::kDetail)], count);
  const Map kinds = decoded(columns[place_of(EventColumn::kKind)], count);
  for (size_t i = 0; i < count; ++i) {
    const bool is_wait =
        kinds[i] == static_cast<int64_t>(EventKind::kSynchronization);
    const Map& map = is_wait ? maps.synchronizations : maps.collectives;
    if (details[i] >= 0 && !map.empty())
      details[i] = map[static_cast<size_t>(details[i])];
  }
  encode(EventColumn::kDetail, details, columns);
}

void SpoolGatherer::encode(EventColumn column, const Map& values,
                           std::span<ColumnBytes> columns) {
  const size_t place = place_of(column);
  ColumnEncoder& encoder = encoders_[place];
  encoder.start(event_columns()[place].encoding, place > 0);
  encoder.put(values);
  columns[place].bytes = encoder.finish();
  columns[place].encoding = encoder.encoding();
}

Result<Trace> gather_spools(std::span<TraceSpool> spools) {
  SpoolGatherer gatherer(spools);
  if (Status joined = gatherer.join(); !joined) return pass(joined.error());
  Trace trace = std::move(gatherer.trace());
  trace.events.reserve(static_cast<size_t>(gatherer.event_count()));
  Status gathered = gatherer.each_segment(
      [&](std::span<const ColumnBytes> columns, size_t count) {
        const size_t first = trace.events.size();
        trace.events.resize(first + count);
        return decode_segment<Event>(event_columns(), columns,
                                     std::span(trace.events).subspan(first));
      });
  if (!gathered) return pass(gathered.error());
  sort_events(trace.events);
  return trace;
}

Status write_spools(std::span<TraceSpool> spools,
                    const std::string& import_text, const std::string& path,
                    Existing existing) {
  SpoolGatherer gatherer(spools);
  if (Status joined = gatherer.join(); !joined)
    return pass(joined.error(), path);
  gatherer.trace().import_text = import_text;
  Result<TraceFileWriter> file = TraceFileWriter::create(path);
  if (!file) return pass(file.error());
  Status written = gatherer.each_segment(
      [&](std::span<const ColumnBytes> columns, size_t count) {
        return file->add_events(columns, count);
      });
  return written ? file->finish(gatherer.trace(), existing) : written;
}

Status write_spools(std::span<TraceSpool> spools,
                    const std::string& import_text, const std::string& path) {
  return write_spools(spools, import_text, path, Existing::kReplace);
}

}  // namespace reprise

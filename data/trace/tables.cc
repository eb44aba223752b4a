#include "data/trace/tables.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>

#include "data/io/crc32.h"
#include "data/trace/columns.h"

namespace reprise {
namespace {

constexpr std::string_view kTraceSchema1 = "reprise.trace/1";

int64_t integer(const Row& row, size_t column) {
  return std::get<int64_t>(row[column]);
}
std::string text(Row& row, size_t column) {
  return std::move(std::get<std::string>(row[column]));
}

template <typename Field>
bool get(Field& field, const Row& row, size_t column) {
  const int64_t value = integer(row, column);
  if (value < int64_t{std::numeric_limits<Field>::min()} ||
      value > int64_t{std::numeric_limits<Field>::max()}) {
    return false;
  }
  field = static_cast<Field>(value);
  return true;
}

template <typename Enum>
bool get_enum(Enum& field, Enum last, const Row& row, size_t column) {
  const int64_t value = integer(row, column);
  if (value < 0 || value > static_cast<int64_t>(last)) return false;
  field = static_cast<Enum>(value);
  return true;
}

constexpr std::string_view kModule = "module:";

std::vector<Row> embedded_rows(const Trace& trace) {
  std::vector<Row> rows = {{"schema", std::string(kTraceSchema)},
                           {"program", trace.program_text},
                           {"manifest", trace.manifest_text},
                           {"plan", trace.plan_text},
                           {"import", trace.import_text}};
  for (const auto& [name, body] : trace.modules)
    rows.push_back({std::string(kModule) + name, body});
  return rows;
}
bool add_embedded(Trace& trace, Row& row) {
  const std::string name = text(row, 0);
  std::string body = text(row, 1);
  if (name == "schema") return body == kTraceSchema || body == kTraceSchema1;
  if (name.starts_with(kModule)) {
    return trace.modules
        .try_emplace(name.substr(kModule.size()), std::move(body))
        .second;
  }
  std::string* const place = name == "program"    ? &trace.program_text
                             : name == "manifest" ? &trace.manifest_text
                             : name == "plan"     ? &trace.plan_text
                             : name == "import"   ? &trace.import_text
                                                  : nullptr;
  if (place == nullptr) return false;
  *place = std::move(body);
  return true;
}

std::vector<Row> environment_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (const auto& [name, value] : trace.environment)
    rows.push_back({name, value});
  return rows;
}
bool add_environment(Trace& trace, Row& row) {
  std::string name = text(row, 0);
  return trace.environment.try_emplace(std::move(name), text(row, 1)).second;
}

std::vector<Row> texts_to_rows(const std::vector<std::string>& texts) {
  std::vector<Row> rows;
  rows.reserve(texts.size());
  for (const std::string& value : texts) rows.push_back({value});
  return rows;
}

std::vector<Row> rank_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (const RankInfo& rank : trace.ranks) {
    rows.push_back({int64_t{rank.rank}, rank.host, rank.process, rank.device,
                    rank.clock_offset_ns, rank.clock_drift_ppm,
                    rank.clock_reference_ns, rank.clock_residual_ns,
                    rank.clock_domain});
  }
  return rows;
}
bool add_rank(Trace& trace, Row& row) {
  RankInfo& rank = trace.ranks.emplace_back();
  if (!get(rank.rank, row, 0)) return false;
  rank.host = text(row, 1);
  rank.process = integer(row, 2);
  rank.device = text(row, 3);
  rank.clock_offset_ns = integer(row, 4);
  rank.clock_drift_ppm = std::get<double>(row[5]);
  rank.clock_reference_ns = integer(row, 6);
  rank.clock_residual_ns = integer(row, 7);
  if (row.size() > 8) rank.clock_domain = text(row, 8);
  return true;
}

std::vector<Row> stream_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (const StreamInfo& stream : trace.streams) {
    rows.push_back({int64_t{stream.rank}, stream.name,
                    static_cast<int64_t>(stream.kind), stream.process,
                    int64_t{stream.device}, stream.number});
  }
  return rows;
}
bool add_stream(Trace& trace, Row& row) {
  StreamInfo& stream = trace.streams.emplace_back();
  stream.name = text(row, 1);
  if (row.size() > 2) {
    if (!get_enum(stream.kind, kLastStreamKind, row, 2) ||
        !get(stream.device, row, 4)) {
      return false;
    }
    stream.process = integer(row, 3);
    stream.number = integer(row, 5);
  }
  return get(stream.rank, row, 0);
}

std::vector<Row> step_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (const StepMark& step : trace.steps) {
    rows.push_back({int64_t{step.rank}, int64_t{step.step}, step.start_ns,
                    step.end_ns, int64_t{step.warmup}});
  }
  return rows;
}
bool add_step(Trace& trace, Row& row) {
  StepMark& step = trace.steps.emplace_back();
  step.start_ns = integer(row, 2);
  step.end_ns = integer(row, 3);
  step.warmup = integer(row, 4) != 0;
  return get(step.rank, row, 0) && get(step.step, row, 1);
}

/// "0,1,2"; nothing for an unknown group.
bool set_group(std::vector<uint32_t>& group, std::string_view members) {
  while (!members.empty()) {
    uint32_t& rank = group.emplace_back();
    const char* const end = members.data() + members.size();
    const auto [rest, error] = std::from_chars(members.data(), end, rank);
    if (error != std::errc{}) return false;
    if (rest == end) return true;
    members.remove_prefix(static_cast<size_t>(rest - members.data()));
    if (members.front() != ',' || members.size() == 1) return false;
    members.remove_prefix(1);
  }
  return true;
}

std::vector<Row> collective_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (const CollectiveInfo& one : trace.collectives) {
    rows.push_back({one.op, one.communicator, one.data_type,
                    fmt::format("{}", fmt::join(one.group, ",")),
                    one.group_size, one.input_elements, one.output_elements,
                    int64_t{one.peer}});
  }
  return rows;
}
bool add_collective(Trace& trace, Row& row) {
  CollectiveInfo& one = trace.collectives.emplace_back();
  one.op = text(row, 0);
  one.communicator = text(row, 1);
  one.data_type = text(row, 2);
  one.group_size = integer(row, 4);
  one.input_elements = integer(row, 5);
  one.output_elements = integer(row, 6);
  return set_group(one.group, text(row, 3)) && get(one.peer, row, 7);
}

std::vector<Row> synchronization_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (const SynchronizationInfo& one : trace.synchronizations) {
    rows.push_back({static_cast<int64_t>(one.kind), one.stream,
                    one.waited_stream, one.waited_correlation});
  }
  return rows;
}
bool add_synchronization(Trace& trace, Row& row) {
  SynchronizationInfo& one = trace.synchronizations.emplace_back();
  one.stream = integer(row, 1);
  one.waited_stream = integer(row, 2);
  one.waited_correlation = integer(row, 3);
  return get_enum(one.kind, kLastSynchronizationKind, row, 0);
}

std::vector<Row> measurement_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (const Measurement& one : trace.measurements) {
    rows.push_back({one.key, one.unit, one.context, one.median_ns,
                    one.spread_ns, one.samples});
  }
  return rows;
}
bool add_measurement(Trace& trace, Row& row) {
  Measurement& one = trace.measurements.emplace_back();
  one.key = text(row, 0);
  one.unit = text(row, 1);
  one.context = text(row, 2);
  one.median_ns = integer(row, 3);
  one.spread_ns = integer(row, 4);
  one.samples = integer(row, 5);
  return true;
}

/// The records themselves say how many they are; the reader compares.
bool ignore_row(Trace&, Row&) { return true; }

std::vector<Row> string_rows(const Trace& trace) {
  return texts_to_rows(trace.strings);
}
bool add_string(Trace& trace, Row& row) {
  return trace.strings.push_back(text(row, 0)), true;
}
std::vector<Row> warning_rows(const Trace& trace) {
  return texts_to_rows(trace.warnings);
}
bool add_warning(Trace& trace, Row& row) {
  return trace.warnings.push_back(text(row, 0)), true;
}

std::vector<TableSpec> make_tables() {
  return {
      {"embedded", {"name", "body"}, "tt", embedded_rows, add_embedded, 2},
      {"environment",
       {"name", "value"},
       "tt",
       environment_rows,
       add_environment,
       2},
      {"string", {"text"}, "t", string_rows, add_string, 1},
      {"rank",
       {"rank", "host", "process", "device", "clock_offset_ns",
        "clock_drift_ppm", "clock_reference_ns", "clock_residual_ns",
        "clock_domain"},
       "ititiriit",
       rank_rows,
       add_rank,
       8},
      {"stream",
       {"rank", "name", "kind", "process", "device", "number"},
       "itiiii",
       stream_rows,
       add_stream,
       2},
      {"step",
       {"rank", "step", "start_ns", "end_ns", "warmup"},
       "iiiii",
       step_rows,
       add_step,
       5},
      {"collective",
       {"op", "communicator", "data_type", "members", "group_size",
        "input_elements", "output_elements", "peer"},
       "ttttiiii",
       collective_rows,
       add_collective},
      {"synchronization",
       {"kind", "stream", "waited_stream", "waited_correlation"},
       "iiii",
       synchronization_rows,
       add_synchronization},
      {"measurement",
       {"key", "unit", "context", "median_ns", "spread_ns", "samples"},
       "tttiii",
       measurement_rows,
       add_measurement,
       6},
      {"warning", {"text"}, "t", warning_rows, add_warning, 1},
      {kEventCountTable, {"events"}, "i", nullptr, ignore_row, 1},
      {kDependencyCountTable, {"dependencies"}, "i", nullptr, ignore_row},
  };
}

/// The tables of schema 1: no further ones, and shorter rows.
std::vector<TableSpec> make_tables_of_schema_1() {
  std::vector<TableSpec> tables;
  for (TableSpec& table : make_tables()) {
    if (table.columns_of_schema_1 == 0) continue;
    table.columns.resize(table.columns_of_schema_1);
    table.types = table.types.substr(0, table.columns_of_schema_1);
    tables.push_back(std::move(table));
  }
  return tables;
}

/// The first rule that an event breaks; empty when none.
std::string fault_of(const Event& event, const Trace& trace) {
  if (event.stream >= trace.streams.size() ||
      index_of(event.name) >= trace.strings.size()) {
    return fmt::format("stream {} of {} or name {} of {} does not exist",
                       event.stream, trace.streams.size(), index_of(event.name),
                       trace.strings.size());
  }
  if (event.kind > kLastEventKind ||
      event.rank != trace.streams[event.stream].rank) {
    return fmt::format("rank {} has no stream {}, or kind {} is unknown",
                       event.rank, event.stream, static_cast<int>(event.kind));
  }
  if (event.end_ns < event.start_ns) {
    return fmt::format("\"{}\" ends at {}, before its start {}",
                       trace.text(event.name), event.end_ns, event.start_ns);
  }
  const size_t details = event.kind == EventKind::kSynchronization
                             ? trace.synchronizations.size()
                             : trace.collectives.size();
  if (event.detail < -1 || event.detail >= static_cast<int64_t>(details)) {
    return fmt::format("{} {} of {} does not exist", name_of(event.kind),
                       event.detail, details);
  }
  if (event.attributes < -1 ||
      event.attributes >= static_cast<int64_t>(trace.strings.size())) {
    return fmt::format("attributes {} of {} strings do not exist",
                       event.attributes, trace.strings.size());
  }
  return "";
}

Status validate_events(const Trace& trace) {
  const auto key = [](const Event& e) {
    return std::tie(e.rank, e.start_ns, e.stream);
  };
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (const std::string fault = fault_of(event, trace); !fault.empty())
      return fail(ErrorKind::kInvalid, "event {}: {}", i, fault);
    if (i > 0 && key(event) < key(trace.events[i - 1])) {
      return fail(ErrorKind::kInvalid,
                  "event {} is out of order (rank, start, stream)", i);
    }
  }
  return {};
}

Status validate_ranks(const Trace& trace) {
  for (size_t i = 0; i < trace.ranks.size(); ++i) {
    if (!std::isfinite(trace.ranks[i].clock_drift_ppm)) {
      return fail(ErrorKind::kInvalid, "rank {}: clock drift is not a number",
                  trace.ranks[i].rank);
    }
    if (i > 0 && trace.ranks[i].rank <= trace.ranks[i - 1].rank) {
      return fail(ErrorKind::kInvalid, "rank {} stands after rank {}",
                  trace.ranks[i].rank, trace.ranks[i - 1].rank);
    }
  }
  return {};
}

Status validate_steps(const Trace& trace) {
  const auto key = [](const StepMark& mark) {
    return std::tie(mark.rank, mark.step);
  };
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const StepMark& step = trace.steps[i];
    if (step.end_ns < step.start_ns ||
        (i > 0 && key(step) < key(trace.steps[i - 1]))) {
      return fail(ErrorKind::kInvalid,
                  "step mark {} (rank {}, step {}) is out of order", i,
                  step.rank, step.step);
    }
  }
  return {};
}

/// Streams, collectives, synchronizations and dependencies.
Status validate_details(const Trace& trace) {
  for (size_t i = 0; i < trace.streams.size(); ++i) {
    if (trace.streams[i].kind > kLastStreamKind)
      return fail(ErrorKind::kInvalid, "stream {}: unknown kind", i);
  }
  for (size_t i = 0; i < trace.collectives.size(); ++i) {
    const std::vector<uint32_t>& group = trace.collectives[i].group;
    if (std::adjacent_find(group.begin(), group.end(), std::greater_equal{}) !=
        group.end()) {
      return fail(ErrorKind::kInvalid,
                  "collective {}: members of its group do not ascend", i);
    }
  }
  for (size_t i = 0; i < trace.synchronizations.size(); ++i) {
    if (trace.synchronizations[i].kind > kLastSynchronizationKind)
      return fail(ErrorKind::kInvalid, "synchronization {}: unknown kind", i);
  }
  if (!std::is_sorted(trace.dependencies.begin(), trace.dependencies.end(),
                      is_before)) {
    return fail(ErrorKind::kInvalid, "dependencies are out of order");
  }
  return {};
}

}  // namespace

std::string TableSpec::create_sql() const {
  std::string sql = fmt::format("CREATE TABLE {}(id INTEGER PRIMARY KEY", name);
  for (size_t i = 0; i < columns.size(); ++i) {
    const char* type = types[i] == 'i'   ? "INTEGER"
                       : types[i] == 'r' ? "REAL"
                                         : "TEXT";
    sql += fmt::format(", {} {} NOT NULL", columns[i], type);
  }
  return sql + ")";
}

std::string column_table_sql(std::string_view name) {
  return fmt::format(
      "CREATE TABLE {}(segment INTEGER NOT NULL, place INTEGER NOT NULL, name "
      "TEXT NOT NULL, encoding INTEGER NOT NULL, crc INTEGER NOT NULL, data "
      "BLOB NOT NULL, PRIMARY KEY(segment, place)) WITHOUT ROWID",
      name);
}

const std::vector<TableSpec>& trace_tables(int32_t schema) {
  static const std::vector<TableSpec> tables = make_tables();
  static const std::vector<TableSpec> first = make_tables_of_schema_1();
  return schema == 1 ? first : tables;
}

std::vector<Row> count_rows(const std::vector<int64_t>& counts) {
  std::vector<Row> rows;
  for (const int64_t count : counts) rows.push_back({count});
  return rows;
}

uint32_t checksum_of(const Row& row, uint32_t before) {
  std::string bytes;
  const auto append = [&](char type, const void* data, size_t size) {
    const uint64_t length = size;
    bytes.push_back(type);
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes.append(static_cast<const char*>(data), size);
  };
  for (const Cell& cell : row) {
    if (const auto* whole = std::get_if<int64_t>(&cell)) {
      append('i', whole, sizeof *whole);
    } else if (const auto* real = std::get_if<double>(&cell)) {
      append('r', real, sizeof *real);
    } else {
      const auto& value = std::get<std::string>(cell);
      append('t', value.data(), value.size());
    }
  }
  return crc32(bytes, before);
}

bool is_before(const EventDependency& a, const EventDependency& b) {
  return std::tie(a.rank, a.before, a.after) <
         std::tie(b.rank, b.before, b.after);
}

Status validate_trace(const Trace& trace) {
  for (const auto validate :
       {validate_ranks, validate_steps, validate_details, validate_events}) {
    if (Status valid = validate(trace); !valid) return valid;
  }
  return {};
}

}  // namespace reprise

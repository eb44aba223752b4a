#include "data/trace/tables.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "data/trace/columns.h"
#include "data/trace/crc32.h"

namespace reprise {
namespace {

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

std::vector<Row> embedded_rows(const Trace& trace) {
  return {{"schema", std::string(kTraceSchema)},
          {"program", trace.program_text},
          {"manifest", trace.manifest_text},
          {"plan", trace.plan_text}};
}
bool add_embedded(Trace& trace, Row& row) {
  const std::string name = text(row, 0);
  std::string body = text(row, 1);
  if (name == "schema") return body == kTraceSchema;
  std::string* const place = name == "program"    ? &trace.program_text
                             : name == "manifest" ? &trace.manifest_text
                             : name == "plan"     ? &trace.plan_text
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
                    rank.clock_reference_ns, rank.clock_residual_ns});
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
  return true;
}

std::vector<Row> stream_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (const StreamInfo& stream : trace.streams) {
    rows.push_back({int64_t{stream.rank}, stream.name});
  }
  return rows;
}
bool add_stream(Trace& trace, Row& row) {
  StreamInfo& stream = trace.streams.emplace_back();
  stream.name = text(row, 1);
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

/// Only the last segment is shorter than kSegmentEvents.
std::vector<Row> segment_rows(const Trace& trace) {
  std::vector<Row> rows;
  for (size_t first = 0; first < trace.events.size(); first += kSegmentEvents) {
    const size_t count = std::min(kSegmentEvents, trace.events.size() - first);
    rows.push_back({static_cast<int64_t>(count)});
  }
  return rows;
}
/// The events themselves say how many they are; the reader compares.
bool add_segment(Trace&, Row&) { return true; }

std::vector<TableSpec> make_tables() {
  return {
      {"embedded", {"name", "body"}, "tt", embedded_rows, add_embedded},
      {"environment",
       {"name", "value"},
       "tt",
       environment_rows,
       add_environment},
      {"string",
       {"text"},
       "t",
       [](const Trace& trace) { return texts_to_rows(trace.strings); },
       [](Trace& trace, Row& row) {
         return trace.strings.push_back(text(row, 0)), true;
       }},
      {"rank",
       {"rank", "host", "process", "device", "clock_offset_ns",
        "clock_drift_ppm", "clock_reference_ns", "clock_residual_ns"},
       "ititirii",
       rank_rows,
       add_rank},
      {"stream", {"rank", "name"}, "it", stream_rows, add_stream},
      {"step",
       {"rank", "step", "start_ns", "end_ns", "warmup"},
       "iiiii",
       step_rows,
       add_step},
      {"measurement",
       {"key", "unit", "context", "median_ns", "spread_ns", "samples"},
       "tttiii",
       measurement_rows,
       add_measurement},
      {"warning",
       {"text"},
       "t",
       [](const Trace& trace) { return texts_to_rows(trace.warnings); },
       [](Trace& trace, Row& row) {
         return trace.warnings.push_back(text(row, 0)), true;
       }},
      {"segment", {"events"}, "i", segment_rows, add_segment},
  };
}

Status validate_events(const Trace& trace) {
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.stream >= trace.streams.size() ||
        index_of(event.name) >= trace.strings.size()) {
      return fail(ErrorKind::kInvalid,
                  "event {}: stream {} of {} or name {} of {} does not exist",
                  i, event.stream, trace.streams.size(), index_of(event.name),
                  trace.strings.size());
    }
    if (event.kind > kLastEventKind ||
        event.rank != trace.streams[event.stream].rank) {
      return fail(ErrorKind::kInvalid,
                  "event {}: rank {} has no stream {}, or kind {} is unknown",
                  i, event.rank, event.stream, static_cast<int>(event.kind));
    }
    if (event.end_ns < event.start_ns) {
      return fail(ErrorKind::kInvalid,
                  "event {} (\"{}\"): ends at {}, before its start {}", i,
                  trace.text(event.name), event.end_ns, event.start_ns);
    }
    const auto key = [](const Event& e) {
      return std::tie(e.rank, e.start_ns, e.stream);
    };
    if (i > 0 && key(event) < key(trace.events[i - 1])) {
      return fail(ErrorKind::kInvalid,
                  "event {} is out of order (rank, start, stream)", i);
    }
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

const std::vector<TableSpec>& trace_tables() {
  static const std::vector<TableSpec> tables = make_tables();
  return tables;
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

Status validate_trace(const Trace& trace) {
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
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const StepMark& step = trace.steps[i];
    const auto key = [](const StepMark& mark) {
      return std::tie(mark.rank, mark.step);
    };
    if (step.end_ns < step.start_ns ||
        (i > 0 && key(step) < key(trace.steps[i - 1]))) {
      return fail(ErrorKind::kInvalid,
                  "step mark {} (rank {}, step {}) is out of order", i,
                  step.rank, step.step);
    }
  }
  return validate_events(trace);
}

}  // namespace reprise

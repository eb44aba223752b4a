// The tables by name: a trace's records as lists of fields, and the three
// tables that are maps or lists of texts.
#include "data/trace/tables.h"

#include <fmt/ranges.h>

#include <charconv>

#include "data/collective/collective_names.h"
#include "data/io/crc32.h"
#include "data/trace/record_table.h"

namespace reprise {

Cell to_cell(const std::vector<uint32_t>& group) {
  return fmt::format("{}", fmt::join(group, ","));
}

/// "0,1,2"; nothing for an unknown group.
bool from_cell(Cell& cell, std::vector<uint32_t>& group) {
  std::string_view members = std::get<std::string>(cell);
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

namespace {

constexpr std::string_view kTraceSchema1 = "reprise.trace/1";
constexpr std::string_view kModule = "module:";

/// A named text: a row of `embedded` and of `environment`.
struct NamedText {
  std::string name, text;
};

/// A table of names and texts. `add` is false for a name that is unknown or
/// stands there already.
TableSpec text_table(std::string_view name, std::string_view text_column,
                     std::vector<NamedText> (*texts)(const Trace& trace),
                     bool (*add)(Trace& trace, NamedText&& text)) {
  return {.name = name,
          .columns = {"name", text_column},
          .types = "tt",
          .rows =
              [texts](const Trace& trace) {
                std::vector<Row> rows;
                for (NamedText& text : texts(trace))
                  rows.push_back({std::move(text.name), std::move(text.text)});
                return rows;
              },
          .add =
              [add](Trace& trace, Row& row) {
                NamedText text;
                return from_cell(row.front(), text.name) &&
                       from_cell(row.back(), text.text) &&
                       add(trace, std::move(text));
              },
          .columns_of_schema_1 = 2};
}

std::vector<NamedText> embedded_texts(const Trace& trace) {
  std::vector<NamedText> texts = {{"schema", std::string(kTraceSchema)},
                                  {"program", trace.program_text},
                                  {"manifest", trace.manifest_text},
                                  {"plan", trace.plan_text},
                                  {"import", trace.import_text}};
  for (const auto& [name, body] : trace.modules)
    texts.push_back({std::string(kModule) + name, body});
  return texts;
}
bool add_embedded(Trace& trace, NamedText&& row) {
  const std::string& name = row.name;
  if (name == "schema")
    return row.text == kTraceSchema || row.text == kTraceSchema1;
  if (name.starts_with(kModule)) {
    return trace.modules
        .try_emplace(name.substr(kModule.size()), std::move(row.text))
        .second;
  }
  std::string* const place = name == "program"    ? &trace.program_text
                             : name == "manifest" ? &trace.manifest_text
                             : name == "plan"     ? &trace.plan_text
                             : name == "import"   ? &trace.import_text
                                                  : nullptr;
  if (place == nullptr) return false;
  *place = std::move(row.text);
  return true;
}

std::vector<NamedText> environment_texts(const Trace& trace) {
  std::vector<NamedText> texts;
  for (const auto& [name, value] : trace.environment)
    texts.push_back({name, value});
  return texts;
}
bool add_environment(Trace& trace, NamedText&& row) {
  return trace.environment.try_emplace(std::move(row.name), std::move(row.text))
      .second;
}

/// A table of one column of texts.
TableSpec list_table(std::string_view name,
                     std::vector<std::string> Trace::*texts) {
  return record_table<std::string>(
      name, texts,
      {{"text", 't', [](const std::string& text) { return to_cell(text); },
        [](std::string& text, Cell& cell) { return from_cell(cell, text); }}},
      1);
}

/// A table that counts the records of segments. The records themselves say how
/// many they are; the reader compares.
TableSpec count_table(std::string_view name, std::string_view column,
                      size_t columns_of_schema_1) {
  return {.name = name,
          .columns = {column},
          .types = "i",
          .rows = nullptr,
          .add = [](Trace&, Row&) { return true; },
          .columns_of_schema_1 = columns_of_schema_1};
}

// In a file kinds and types are words; those that we do not know stay.
Field<CollectiveInfo> kind_field() {
  return {"op", 't',
          [](const CollectiveInfo& one) -> Cell {
            if (one.kind == CollectiveKind::kOther) return one.other_kind;
            return std::string(name_of(one.kind));
          },
          [](CollectiveInfo& one, Cell& cell) {
            std::string& word = std::get<std::string>(cell);
            const std::optional<CollectiveKind> kind =
                collective_from_name(word);
            one.kind = kind.value_or(CollectiveKind::kOther);
            if (!kind) one.other_kind = std::move(word);
            return true;
          }};
}
Field<CollectiveInfo> type_field() {
  return {"data_type", 't',
          [](const CollectiveInfo& one) -> Cell {
            return one.type ? std::string(name_of(one.type)) : one.other_type;
          },
          [](CollectiveInfo& one, Cell& cell) {
            std::string& word = std::get<std::string>(cell);
            one.type = primitive_type_from_name(word);
            if (!one.type) one.other_type = std::move(word);
            return true;
          }};
}

TableSpec rank_table() {
  return record_table(
      "rank", &Trace::ranks,
      {field<&RankInfo::rank>("rank"), field<&RankInfo::host>("host"),
       field<&RankInfo::process>("process"), field<&RankInfo::device>("device"),
       field<&RankInfo::clock_offset_ns>("clock_offset_ns"),
       field<&RankInfo::clock_drift_ppm>("clock_drift_ppm"),
       field<&RankInfo::clock_reference_ns>("clock_reference_ns"),
       field<&RankInfo::clock_residual_ns>("clock_residual_ns"),
       field<&RankInfo::clock_domain>("clock_domain")},
      8);
}

TableSpec stream_table() {
  return record_table(
      "stream", &Trace::streams,
      {field<&StreamInfo::rank>("rank"), field<&StreamInfo::name>("name"),
       field<&StreamInfo::kind>("kind"), field<&StreamInfo::process>("process"),
       field<&StreamInfo::device>("device"),
       field<&StreamInfo::number>("number")},
      2);
}

TableSpec step_table() {
  return record_table(
      "step", &Trace::steps,
      {field<&StepMark::rank>("rank"), field<&StepMark::step>("step"),
       field<&StepMark::start_ns>("start_ns"),
       field<&StepMark::end_ns>("end_ns"), field<&StepMark::warmup>("warmup")},
      5);
}

TableSpec collective_table() {
  return record_table(
      "collective", &Trace::collectives,
      {kind_field(), field<&CollectiveInfo::communicator>("communicator"),
       type_field(), field<&CollectiveInfo::group>("members"),
       field<&CollectiveInfo::group_size>("group_size"),
       field<&CollectiveInfo::input_elements>("input_elements"),
       field<&CollectiveInfo::output_elements>("output_elements"),
       field<&CollectiveInfo::peer>("peer")});
}

TableSpec synchronization_table() {
  using Info = SynchronizationInfo;
  return record_table(
      "synchronization", &Trace::synchronizations,
      {field<&Info::kind>("kind"), field<&Info::stream>("stream"),
       field<&Info::waited_stream>("waited_stream"),
       field<&Info::waited_correlation>("waited_correlation")});
}

TableSpec measurement_table() {
  return record_table(
      "measurement", &Trace::measurements,
      {field<&Measurement::key>("key"), field<&Measurement::unit>("unit"),
       field<&Measurement::context>("context"),
       field<&Measurement::median_ns>("median_ns"),
       field<&Measurement::spread_ns>("spread_ns"),
       field<&Measurement::samples>("samples")},
      6);
}

std::vector<TableSpec> make_tables() {
  return {
      text_table("embedded", "body", embedded_texts, add_embedded),
      text_table("environment", "value", environment_texts, add_environment),
      list_table("string", &Trace::strings),
      rank_table(),
      stream_table(),
      step_table(),
      collective_table(),
      synchronization_table(),
      measurement_table(),
      list_table("warning", &Trace::warnings),
      count_table(kEventCountTable, "events", 1),
      count_table(kDependencyCountTable, "dependencies", 0)};
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
  rows.reserve(counts.size());
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

}  // namespace reprise

// A valid trace with cells changed and every checksum put right afterwards:
// what lies behind the checksums. An input is a list of edits: table, row,
// column, length (a byte each), then the bytes of the value.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/draw/chrome_export.h"
#include "data/file.h"
#include "data/io/crc32.h"
#include "data/io/sqlite.h"
#include "data/trace/row_reader.h"
#include "data/trace/tables.h"
#include "data/trace/trace.h"
#include "tests/data/trace/random_trace.h"
#include "tests/fuzz/check_trace.h"

namespace {

using namespace reprise;

const std::string& valid_trace() {
  static const std::string bytes = [] {
    const std::string path =
        std::filesystem::temp_directory_path() /
        ("trace_store_fuzzer." + std::to_string(::getpid()));
    REPRISE_CHECK(write_trace(reprise::testing::detailed_trace(), path));
    std::string read = read_file(path).value();
    std::filesystem::remove(path);
    return read;
  }();
  return bytes;
}

/// The next bytes of an input; fewer at its end.
class Edits {
 public:
  explicit Edits(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t byte() {
    const std::string_view one = take(1);
    return one.empty() ? uint8_t{0} : static_cast<uint8_t>(one[0]);
  }
  std::string_view take(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view bytes_;
};

void step(sqlite3_stmt* statement) {
  (void)sqlite3_step(statement);
  sqlite3_reset(statement);
}

/// Sets one cell of a small table, or of a segment where `table` lies behind
/// them: its name, encoding or data.
void apply(sqlite3* database, Edits& edits) {
  const std::vector<TableSpec>& tables = trace_tables(kTraceSchemaVersion);
  const size_t table = edits.byte() % (tables.size() + 2);
  const uint8_t row = edits.byte(), column = edits.byte();
  const std::string_view value = edits.take(edits.byte());
  int64_t whole = 0;
  std::memcpy(&whole, value.data(), std::min(value.size(), sizeof whole));
  std::string sql;
  char type = 'b';
  if (table < tables.size()) {
    const TableSpec& spec = tables[table];
    const size_t place = column % spec.columns.size();
    type = spec.types[place];
    sql = fmt::format("UPDATE {} SET {}=?1 WHERE id={}", spec.name,
                      spec.columns[place], row);
  } else {
    const bool is_encoding = column % 4 == 0;
    if (is_encoding) type = 'i';
    sql = fmt::format("UPDATE {} SET {}=?1 WHERE place={}",
                      table == tables.size() ? kEventTable : kDependencyTable,
                      is_encoding ? "encoding" : "data", row % 16);
  }
  const Result<Statement> update = prepare(database, sql);
  if (!update) return;
  const auto bytes = static_cast<int>(value.size());
  if (type == 'i') sqlite3_bind_int64(update->get(), 1, whole);
  if (type == 'r') {
    double real = 0;
    std::memcpy(&real, &whole, sizeof real);
    sqlite3_bind_double(update->get(), 1, real);
  }
  if (type == 't')
    sqlite3_bind_text(update->get(), 1, value.data(), bytes, SQLITE_STATIC);
  if (type == 'b')
    sqlite3_bind_blob(update->get(), 1, value.data(), bytes, SQLITE_STATIC);
  step(update->get());
}

void put_checksum_right(sqlite3* database, const TableSpec& table) {
  std::string columns;
  for (const std::string_view column : table.columns)
    columns += fmt::format("{}{}", columns.empty() ? "" : ", ", column);
  const Result<Statement> rows = prepare(
      database,
      fmt::format("SELECT {} FROM {} ORDER BY id", columns, table.name));
  uint32_t crc = 0;
  Row row;
  for (;;) {
    const Result<bool> read = next_row(rows->get(), table.types, row);
    if (!read || !*read) break;
    crc = checksum_of(row, crc);
  }
  const Result<Statement> update = prepare(
      database, fmt::format("UPDATE checksum SET crc={} WHERE name='{}'", crc,
                            table.name));
  step(update->get());
}

void put_checksums_right(sqlite3* database) {
  sqlite3_create_function(
      database, "crc32", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
      [](sqlite3_context* context, int, sqlite3_value** values) {
        const void* bytes = sqlite3_value_blob(values[0]);
        const auto size = static_cast<size_t>(sqlite3_value_bytes(values[0]));
        sqlite3_result_int64(context,
                             crc32({static_cast<const char*>(bytes), size}));
      },
      nullptr, nullptr);
  for (const std::string_view table : {kEventTable, kDependencyTable})
    (void)execute(database,
                  fmt::format("UPDATE {} SET crc=crc32(data)", table));
  for (const TableSpec& table : trace_tables(kTraceSchemaVersion))
    put_checksum_right(database, table);
}

std::string edited(Edits edits) {
  const Result<Database> database = open_in_memory();
  const std::string& valid = valid_trace();
  auto* const copy =
      static_cast<unsigned char*>(sqlite3_malloc64(valid.size()));
  std::memcpy(copy, valid.data(), valid.size());
  const auto size = static_cast<sqlite3_int64>(valid.size());
  REPRISE_CHECK(sqlite3_deserialize(database->get(), "main", copy, size, size,
                                    SQLITE_DESERIALIZE_FREEONCLOSE |
                                        SQLITE_DESERIALIZE_RESIZEABLE) ==
                SQLITE_OK);
  (void)execute(database->get(), "BEGIN");
  constexpr int kMostEdits = 32;
  for (int count = 0; !edits.empty() && count < kMostEdits; ++count)
    apply(database->get(), edits);
  put_checksums_right(database->get());
  (void)execute(database->get(), "COMMIT");
  sqlite3_int64 bytes = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> whole(
      sqlite3_serialize(database->get(), "main", &bytes, 0), &sqlite3_free);
  return {reinterpret_cast<const char*>(whole.get()),
          static_cast<size_t>(bytes)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<Trace> trace = parse_trace(
      edited(Edits({reinterpret_cast<const char*>(data), size})), "fuzzed");
  if (!trace) {
    REPRISE_CHECK(!trace.error().message.empty());
    REPRISE_CHECK(size > 0);  // The checksums are right.
    REPRISE_CHECK(trace.error().message.find("checksum") == std::string::npos);
    return 0;
  }
  check_trace(*trace);
  REPRISE_CHECK(!timeline_of(*trace).json().empty());
  return 0;
}

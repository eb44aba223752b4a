// CSV tables of profilers: the walk over the rows, and what is counted of those
// that cannot be used.
#pragma once

#include "data/formats/reader.h"
#include "data/io/csv.h"

namespace reprise {

/// Calls `take(table)` at each whole row of the input. Errors: kParse, naming
/// the column that the first row lacks; as ByteSource::read.
template <typename Column, typename Take>
Status read_csv(InputFile& input, const ColumnNames<Column>& names,
                FileReport& report, const Take& take) {
  CsvTable<Column> table(*input.source, names);
  if (Status header = table.read_header(); !header)
    return pass(header.error(), input.name);
  for (;;) {
    const Result<bool> row = table.next();
    if (!row) return pass(row.error(), input.name);
    if (!*row) break;
    if (table.is_whole()) {
      take(table);
    } else {
      ++report.dropped["row with too few fields"];
    }
  }
  const int64_t too_long = table.rows().rows_too_long();
  if (too_long > 0) report.dropped["row of more than 1 MiB"] = too_long;
  if (table.rows().cut()) ++report.dropped["row cut within quotes"];
  return {};
}

/// Whether the first line of `head` starts with the first of `names` and holds
/// the others.
template <typename Column>
bool names_columns(std::string_view head, const ColumnNames<Column>& names) {
  const std::string_view line = head.substr(0, head.find('\n'));
  for (const std::string_view name : names.all()) {
    if (line.find(name) == line.npos) return false;
  }
  return line.starts_with(names.all().front());
}

}  // namespace reprise

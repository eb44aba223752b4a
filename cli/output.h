// What every verb prints: a table for people, JSON or CSV for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/result.h"

namespace reprise {

enum class Format { kTable, kJson, kCsv };

/// Rows of text under headings; columns are right-aligned unless their heading
/// is listed in `left` (by index).
struct Table {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> left = {0};
};

/// Table as aligned text, or as CSV (RFC 4180 quoting).
std::string table_text(const Table& table);
std::string table_csv(const Table& table);

/// Prints the table, its CSV, or `json` (two-space indent) on stdout.
void print_output(Format format, const Table& table,
                  const nlohmann::ordered_json& json);

/// "12.3 ms", "4.56 s", "789 us": three significant digits.
std::string duration_text(double nanoseconds);
std::string time_text(int64_t time_ns);
/// "18 %", "0.4 %"; of a part, "-" of nothing.
std::string share_text(double share);
std::string share_text(int64_t part, int64_t whole);
/// "25.5 MB" (powers of ten).
std::string bytes_text(double bytes);
/// "+1.2 %".
std::string percent_text(double ratio);

/// Refuses to overwrite an existing output without --force. Errors: kInvalid.
Status check_output(const std::string& path, bool force);

}  // namespace reprise

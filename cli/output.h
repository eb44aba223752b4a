// What every verb prints: a table for people, JSON or CSV for programs.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/number_text.h"
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

/// Table as aligned text, or as CSV; cells as printable_text and csv_field.
std::string table_text(Table table);
std::string table_csv(const Table& table);

/// Prints the table, its CSV, or `json` (two-space indent) on stdout.
void print_output(Format format, const Table& table,
                  const nlohmann::ordered_json& json);

/// Writes to stdout as it is. What fails is flush_output's to say.
void write_out(std::string_view bytes);

/// Writes text for people to a stream, as printable_lines.
void write_lines(std::FILE* to, std::string_view text);

/// Says something on stderr; never throws: that may be closed or full.
template <typename... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  write_lines(stderr, fmt::format(format, std::forward<Args>(args)...));
}

/// Shows something on stdout.
template <typename... Args>
void show(fmt::format_string<Args...> format, Args&&... args) {
  write_lines(stdout, fmt::format(format, std::forward<Args>(args)...));
}

/// Flushes stdout. Errors: kIo when anything of what was written to it, now or
/// before, is lost.
Status flush_output();

/// Refuses to overwrite an existing output without --force. Errors: kInvalid.
Status check_output(const std::string& path, bool force);

/// Who came first meanwhile stays too, without --force.
constexpr Existing existing_with(bool force) {
  return force ? Existing::kReplace : Existing::kKeep;
}

}  // namespace reprise

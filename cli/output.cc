#include "cli/output.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "data/io/json_tree.h"
#include "data/io/printable_text.h"

namespace reprise {
namespace {

// Display width of UTF-8 text: continuation bytes take no column.
size_t display_width(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, bool left) {
  const std::string fill(width - std::min(width, display_width(text)), ' ');
  return left ? text + fill : fill + text;
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_field(fields[i]);
  }
  return line + "\n";
}

}  // namespace

std::string table_text(Table table) {
  for (auto& row : table.rows) {
    for (std::string& cell : row) cell = printable_text(cell);
  }
  std::vector<size_t> widths;
  for (const std::string& heading : table.headings)
    widths.push_back(display_width(heading));
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool left = std::count(table.left.begin(), table.left.end(), i) > 0;
      if (i > 0) line += "  ";
      line += padded(cells[i], widths[i], left);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  if (!table.headings.empty()) add_line(table.headings);
  for (const auto& row : table.rows) add_line(row);
  return text;
}

std::string table_csv(const Table& table) {
  std::string text = csv_line(table.headings);
  for (const auto& row : table.rows) text += csv_line(row);
  return text;
}

void print_output(Format format, const Table& table,
                  const nlohmann::ordered_json& json) {
  switch (format) {
    case Format::kTable:
      return write_out(table_text(table));
    case Format::kCsv:
      return write_out(table_csv(table));
    case Format::kJson:
      return write_out(printable_json(json_text(json, 2)) + "\n");
  }
}

void write_out(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

void write_lines(std::FILE* to, std::string_view text) {
  const std::string lines = printable_lines(text);
  std::fwrite(lines.data(), 1, lines.size(), to);
}

Status flush_output() {
  // An earlier flush may have met the error: stdio keeps that it did, not why.
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return fail(ErrorKind::kIo, "cannot write to standard output: {}",
              errno == 0 ? "it was refused" : std::strerror(errno));
}

Status check_output(const std::string& path, bool force) {
  struct stat info {};
  if (!force && path != "-" && ::stat(path.c_str(), &info) == 0 &&
      S_ISREG(info.st_mode)) {
    return fail(ErrorKind::kInvalid,
                "{}: exists already; use --force to replace it", path);
  }
  return {};
}

}  // namespace reprise

#include "cli/import_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "data/formats/ranks.h"
#include "data/import/import_report.h"

namespace reprise {
namespace {

int64_t total(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [reason, count] : counts) sum += count;
  return sum;
}

std::string shortened(const std::string& path, size_t width) {
  if (path.size() <= width) return path;
  size_t from = path.size() - (width - 1);
  while (from < path.size() && (path[from] & 0xC0) == 0x80) ++from;
  return "…" + path.substr(from);
}

/// A row a file; people see no more than `limit` of them.
Table table_of(std::span<const FileReport> files, size_t limit,
               size_t name_width) {
  Table table;
  table.headings = {"file",    "kind",        "dialect", "ranks",   "events",
                    "kernels", "collectives", "steps",   "dropped", "repaired"};
  table.left = {0, 1, 2};
  for (const FileReport& file : files.first(std::min(limit, files.size()))) {
    const std::string kind = file.refused.empty() ? file.kind : "refused";
    table.rows.push_back(
        {shortened(file.path, name_width), kind,
         shortened(file.dialect, name_width), rank_list(file.ranks),
         std::to_string(file.events), std::to_string(file.kernels),
         std::to_string(file.collectives), std::to_string(file.steps),
         std::to_string(total(file.dropped)),
         std::to_string(total(file.repaired))});
  }
  if (files.size() > limit) {
    FileReport rest;
    for (const FileReport& file : files.subspan(limit)) {
      rest.events += file.events;
      rest.kernels += file.kernels;
      rest.collectives += file.collectives;
      rest.ranks.insert(rest.ranks.end(), file.ranks.begin(), file.ranks.end());
    }
    table.rows.push_back({fmt::format("… and {} more", files.size() - limit),
                          "", "", rank_list(rest.ranks),
                          std::to_string(rest.events),
                          std::to_string(rest.kernels),
                          std::to_string(rest.collectives), "", "", ""});
  }
  return table;
}

/// Files in the order of the table: where not all fit, those with events first.
std::vector<FileReport> fullest_first(std::vector<FileReport> files,
                                      size_t limit) {
  if (files.size() > limit) {
    std::stable_partition(files.begin(), files.end(),
                          [](const FileReport& file) { return file.events; });
  }
  return files;
}

}  // namespace

void print_import(const std::vector<FileReport>& files,
                  const std::string& output, double seconds, Format format) {
  constexpr size_t kMostRows = 24, kMostRemarks = 20, kNameWidth = 40;
  const bool people = format == Format::kTable;
  print_output(format,
               table_of(people ? fullest_first(files, kMostRows) : files,
                        people ? kMostRows : files.size(),
                        people ? kNameWidth : std::string::npos - 1),
               import_json(files, seconds));
  std::fflush(stdout);
  for (const std::string& remark : import_remarks(files, kMostRemarks)) {
    tell("  {}\n", remark);
  }
  int64_t events = 0, bytes = 0;
  std::vector<uint32_t> ranks;
  for (const FileReport& file : files) {
    events += file.events;
    bytes += file.bytes;
    ranks.insert(ranks.end(), file.ranks.begin(), file.ranks.end());
  }
  tell("wrote {} (rank {}, {} events of {} in {})\n", output,
       ranks.empty() ? "none" : rank_list(ranks), events,
       bytes_text(static_cast<double>(bytes)), duration_text(seconds * 1e9));
}

}  // namespace reprise

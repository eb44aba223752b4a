#include "data/import/import_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

Json counts_json(const std::map<std::string, int64_t>& counts) {
  Json json = Json::object();
  for (const auto& [reason, count] : counts) json[reason] = count;
  return json;
}

Json file_json(const FileReport& file) {
  Json json = {{"path", file.path},
               {"kind", file.kind},
               {"dialect", file.dialect},
               {"bytes", file.bytes},
               {"events", file.events},
               {"kernels", file.kernels},
               {"collectives", file.collectives},
               {"steps", file.steps},
               {"ranks", file.ranks},
               {"ignored", counts_json(file.ignored)},
               {"dropped", counts_json(file.dropped)},
               {"repaired", counts_json(file.repaired)},
               {"missing", file.missing}};
  if (!file.doubts.empty()) json["doubts"] = file.doubts;
  if (!file.refused.empty()) json["refused"] = file.refused;
  return json;
}

/// A bundle of sources and the like has as many reasons as files: beyond so
/// many they are one remark.
constexpr size_t kMostReasons = 3;

bool is_no_trace(const FileReport& file) {
  return file.refused.starts_with(kNoTrace);
}

size_t reasons_for_no_trace(std::span<const FileReport> files) {
  std::set<std::string_view> reasons;
  for (const FileReport& file : files) {
    if (is_no_trace(file)) reasons.insert(file.refused);
  }
  return reasons.size();
}

/// One thing to say, of one file or of several.
struct Remark {
  std::string text;
  std::string first_file;
  size_t files = 0;
  int64_t records = 0;
};

class Remarks {
 public:
  void add(const std::string& file, const std::string& text, int64_t records) {
    const auto [place, added] = places_.try_emplace(text, remarks_.size());
    if (added) remarks_.push_back({text, file, 0, 0});
    Remark& remark = remarks_[place->second];
    ++remark.files;
    remark.records += records;
  }

  std::vector<std::string> lines(size_t limit) const {
    std::vector<std::string> lines;
    for (const Remark& remark : remarks_) {
      if (lines.size() == limit) {
        lines.push_back(
            fmt::format("… and {} more remarks", remarks_.size() - limit));
        break;
      }
      const std::string what =
          remark.records > 0 ? fmt::format("{} {}", remark.records, remark.text)
                             : remark.text;
      lines.push_back(remark.files == 1
                          ? fmt::format("{}: {}", remark.first_file, what)
                          : fmt::format("{} and {} more: {}", remark.first_file,
                                        remark.files - 1, what));
    }
    return lines;
  }

 private:
  std::vector<Remark> remarks_;
  std::map<std::string, size_t> places_;
};

}  // namespace

Json import_json(std::span<const FileReport> files,
                 std::optional<double> seconds) {
  Json json = {{"schema", "reprise.import/1"}, {"files", Json::array()}};
  for (const FileReport& file : files) json["files"].push_back(file_json(file));
  if (seconds) json["seconds"] = *seconds;
  return json;
}

std::string import_text(std::span<const FileReport> files) {
  return json_text(import_json(files, std::nullopt));
}

std::vector<std::string> import_remarks(std::span<const FileReport> files,
                                        size_t limit) {
  Remarks remarks;
  for (const FileReport& file : files) {
    for (const std::string& sentence : file.doubts)
      remarks.add(file.path, sentence, 0);
  }
  for (const FileReport& file : files) {
    for (const std::string& sentence : file.missing)
      remarks.add(file.path, sentence, 0);
  }
  const bool few = reasons_for_no_trace(files) <= kMostReasons;
  for (const FileReport& file : files) {
    if (file.refused.empty() || (is_no_trace(file) && !few)) continue;
    remarks.add(file.path, file.refused, 0);
  }
  for (const FileReport& file : files) {
    for (const auto& [reason, count] : file.dropped)
      remarks.add(file.path, fmt::format("dropped: {}", reason), count);
  }
  for (const FileReport& file : files) {
    for (const auto& [reason, count] : file.repaired)
      remarks.add(file.path, fmt::format("repaired: {}", reason), count);
  }
  for (const FileReport& file : files) {
    if (is_no_trace(file) && !few)
      remarks.add(file.path, "no traces, passed over", 0);
  }
  return remarks.lines(limit);
}

std::vector<std::string> import_losses(std::span<const FileReport> files) {
  constexpr size_t kMostLines = 3;
  std::vector<FileReport> read;
  for (const FileReport& file : files) {
    if (!file.refused.empty()) continue;
    FileReport& brief = read.emplace_back();
    brief.path = file.path;
    brief.doubts = file.doubts;
    brief.dropped = file.dropped;
  }
  return import_remarks(read, kMostLines);
}

bool lost_something(const FileReport& file) {
  return !file.refused.empty() || !file.dropped.empty();
}

}  // namespace reprise

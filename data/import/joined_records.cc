#include "data/import/joined_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>

namespace reprise {
namespace {

constexpr std::string_view kTimedKind = "kineto", kUntimedKind = "pytorch-et";

}  // namespace

bool has_both_records(std::span<const FileReport> files) {
  const auto joins = [&](std::string_view kind) {
    return std::any_of(files.begin(), files.end(), [&](const FileReport& f) {
      return f.kind == kind && !f.ranks.empty();
    });
  };
  return joins(kTimedKind) && joins(kUntimedKind);
}

void forget_advice_taken(std::vector<FileReport>& files) {
  std::set<uint32_t> timed;
  for (const FileReport& file : files) {
    if (file.kind == kTimedKind)
      timed.insert(file.ranks.begin(), file.ranks.end());
  }
  for (FileReport& file : files) {
    const bool joined =
        std::all_of(file.ranks.begin(), file.ranks.end(),
                    [&](uint32_t rank) { return timed.contains(rank); });
    if (file.kind == kUntimedKind && joined)
      std::erase(file.missing, kUntimedNodes);
  }
}

void note_join(const ExecutionTraceJoin& join, std::vector<FileReport>& files) {
  if (join.ranks == 0 || join.joined == join.nodes) return;
  const auto file =
      std::find_if(files.begin(), files.end(),
                   [](const FileReport& f) { return f.kind == kUntimedKind; });
  file->missing.push_back(fmt::format(
      "{} of {} nodes found no op in the Kineto traces of the same ranks",
      join.nodes - join.joined, join.nodes));
}

}  // namespace reprise

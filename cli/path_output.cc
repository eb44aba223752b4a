#include "cli/path_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "data/io/json_text.h"
#include "replay/analysis/kernel_name.h"

namespace reprise {
namespace {

constexpr size_t kPathNameWidth = 48;

/// For people, who have not read what the kinds are called.
std::string_view words_for(PathKind kind) {
  if (kind == PathKind::kHost) return "host ops";
  if (kind == PathKind::kRange) return "host between ops";
  return name_of(kind);
}

/// By kind, name and rank, in words, the longest first.
std::vector<std::pair<int64_t, std::string>> longest_of(
    const NodeFacts& facts, const CriticalPath& path) {
  // A path has thousands of stretches and few names, each shortened once.
  struct Same {
    std::string_view name;
    int64_t time_ns = 0;
  };
  std::map<std::tuple<PathKind, const char*, uint32_t>, Same> same;
  for (const PathEntry& entry : path.entries) {
    const std::string_view name = path_name(facts, entry);
    Same& one = same[{entry.kind, name.data(), entry.rank}];
    one.name = name;
    one.time_ns = saturating_add(one.time_ns, entry.duration_ns);
  }
  std::map<std::tuple<std::string, std::string, uint32_t>, int64_t> names;
  for (const auto& [key, one] : same) {
    int64_t& sum =
        names[{std::string(words_for(std::get<0>(key))),
               short_kernel_name(one.name, kPathNameWidth), std::get<2>(key)}];
    sum = saturating_add(sum, one.time_ns);
  }
  std::vector<std::pair<int64_t, std::string>> longest;
  for (const auto& [key, time_ns] : names) {
    const auto& [kind, name, rank] = key;
    const bool says_all = kind == name;  // A kind that has no names.
    longest.emplace_back(
        -time_ns, fmt::format("{}{}{} (rank {})", kind, says_all ? "" : " ",
                              says_all ? std::string_view() : name, rank));
  }
  std::sort(longest.begin(), longest.end());
  return longest;
}

}  // namespace

std::string path_text(const NodeFacts& facts, const CriticalPath& path,
                      size_t top) {
  if (path.entries.empty()) return "";
  std::string text = fmt::format(
      "critical path{}: {}",
      path.step ? fmt::format(" of step {}", *path.step) : std::string(),
      time_text(path.length_ns));
  std::vector<std::pair<int64_t, size_t>> kinds;
  for (size_t kind = 0; kind < kPathKinds; ++kind) {
    if (path.by_kind_ns[kind] > 0) {
      kinds.emplace_back(-path.by_kind_ns[kind], kind);
    }
  }
  std::sort(kinds.begin(), kinds.end());
  for (size_t i = 0; i < kinds.size(); ++i) {
    text += fmt::format("{} {} {}", i == 0 ? " =" : " +",
                        share_text(-kinds[i].first, path.length_ns),
                        words_for(static_cast<PathKind>(kinds[i].second)));
  }
  text += "\n";
  for (const auto& [negative_ns, what] : longest_of(facts, path)) {
    if (top-- == 0) break;
    text += fmt::format("  {:>8}  {}\n", time_text(-negative_ns), what);
  }
  return text;
}

nlohmann::ordered_json path_kinds_json(const CriticalPath& path,
                                       const std::string& suffix) {
  nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
  for (size_t kind = 0; kind < kPathKinds; ++kind) {
    if (kind >= kTracePathKinds && path.by_kind_ns[kind] == 0) continue;
    kinds[std::string(name_of(static_cast<PathKind>(kind))) + suffix] =
        path.by_kind_ns[kind];
  }
  return kinds;
}

std::string path_entry_json(const NodeFacts& facts, const PathEntry& entry,
                            std::string_view name_key) {
  return fmt::format(R"({{"kind": "{}", "{}": {}, "rank": {}, "start_ns": {}, )"
                     R"("duration_ns": {}}})",
                     name_of(entry.kind), name_key,
                     json_quoted(path_name(facts, entry)), entry.rank,
                     entry.start_ns, entry.duration_ns);
}

nlohmann::ordered_json clock_json(const ClockAlignment& clock) {
  return {{"rank", clock.rank},
          {"offset_ns", clock.offset_ns},
          {"drift_ppm", clock.drift_ppm},
          {"residual_ns", clock.residual_ns}};
}

void add_path_arrows(const std::vector<PathEntry>& path,
                     const std::function<uint32_t(const PathEntry&)>& slice_of,
                     ChromeTimeline& timeline) {
  uint32_t previous = kNoSlice;
  for (const PathEntry& entry : path) {
    const uint32_t slice = slice_of(entry);
    if (slice == kNoSlice || slice == previous) continue;
    if (previous != kNoSlice) timeline.add_flow(previous, slice);
    previous = slice;
  }
}

}  // namespace reprise

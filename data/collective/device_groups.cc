#include "data/collective/device_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <set>

namespace reprise {
namespace {

constexpr std::string_view kPrefix = "devices:{";
/// Longer ones would fill a trace, as each kind of call has one.
constexpr size_t kMostDevices = 1 << 16;

/// "0,1}" and what is behind it.
std::optional<std::vector<uint32_t>> take_group(std::string_view& text) {
  std::vector<uint32_t> group;
  while (true) {
    uint32_t device = 0;
    const auto [last, error] =
        std::from_chars(text.data(), text.data() + text.size(), device);
    if (error != std::errc()) return std::nullopt;
    group.push_back(device);
    text.remove_prefix(static_cast<size_t>(last - text.data()));
    if (text.empty()) return std::nullopt;
    const char next = text.front();
    text.remove_prefix(1);
    if (next == '}') break;
    if (next != ',') return std::nullopt;
  }
  std::sort(group.begin(), group.end());
  return group;
}

}  // namespace

std::string name_of_groups(const std::vector<std::vector<int64_t>>& groups) {
  size_t devices = 0;
  for (const std::vector<int64_t>& group : groups) devices += group.size();
  if (devices > kMostDevices) return {};
  std::string name(kPrefix.substr(0, kPrefix.size() - 1));
  for (size_t at = 0; at < groups.size(); ++at) {
    name +=
        fmt::format("{}{{{}}}", at > 0 ? "," : "", fmt::join(groups[at], ","));
  }
  return name;
}

std::optional<std::vector<std::vector<uint32_t>>> groups_named(
    std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::string_view rest = name.substr(kPrefix.size());
  std::vector<std::vector<uint32_t>> groups;
  std::set<uint32_t> seen;
  while (true) {
    auto group = take_group(rest);
    if (!group) return std::nullopt;
    for (const uint32_t device : *group) {
      if (!seen.insert(device).second) return std::nullopt;
    }
    groups.push_back(*std::move(group));
    if (rest.empty()) return groups;
    if (!rest.starts_with(",{")) return std::nullopt;
    rest.remove_prefix(2);
  }
}

}  // namespace reprise

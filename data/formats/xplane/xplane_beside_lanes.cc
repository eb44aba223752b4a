#include "data/formats/xplane/xplane_beside_lanes.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/formats/xplane/xplane_operations.h"

namespace reprise {
namespace {

/// More at once, or kinds, are a damaged file's.
constexpr size_t kMostLanes = 16;
constexpr size_t kMostKinds = 64;

/// "all-gather" of "%x.3 = … all-gather-start(…)"; of what is asynchronous by
/// a wrapper ("… async-start(…)") what it is called.
std::string_view kind_of(const XplaneRow& row) {
  constexpr std::string_view kStart = "-start";
  std::string_view kind = xplane_opcode(row);
  if (kind == "async-start") kind = row.name.substr(0, row.name.find('.'));
  if (kind.ends_with(kStart)) kind.remove_suffix(kStart.size());
  return kind;
}

}  // namespace

uint32_t BesideLanes::stream_of(
    const XplaneRow& row,
    const std::function<uint32_t(const std::string&)>& add) {
  auto of_kind = lanes_.find(kind_of(row));
  if (of_kind == lanes_.end()) {
    const bool many = lanes_.size() >= kMostKinds;
    of_kind = lanes_.try_emplace(many ? "" : std::string(kind_of(row))).first;
  }
  auto& [kind, lanes] = *of_kind;
  const auto is_free = [&](const Lane& lane) {
    return lane.end_ns <= row.event.start_ns;
  };
  auto lane = std::find_if(lanes.begin(), lanes.end(), is_free);
  if (lane == lanes.end() && lanes.size() < kMostLanes) {
    const std::string name =
        lanes.empty() ? kind : fmt::format("{} {}", kind, lanes.size() + 1);
    lanes.push_back({.stream = add(name)});
    lane = lanes.end() - 1;
  } else if (lane == lanes.end()) {
    --lane;
  }
  lane->end_ns = std::max(lane->end_ns, row.event.end_ns);
  return lane->stream;
}

}  // namespace reprise
